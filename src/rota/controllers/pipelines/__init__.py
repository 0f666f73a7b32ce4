"""Pipelines at work: which steps to begin, what becomes of each, and when a run is over."""
