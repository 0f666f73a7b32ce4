"""Explanations: why a pod is on its node, or why it has none, computed on demand."""
