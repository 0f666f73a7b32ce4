"""Pipelines as data: their expressions, their graph, and what is wrong with them. Pure."""
