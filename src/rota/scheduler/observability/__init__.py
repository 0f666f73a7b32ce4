"""Metrics and traces of the scheduler."""
