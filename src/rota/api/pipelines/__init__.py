"""Pipelines as data: their expressions, their graph, and their validation. Pure."""
