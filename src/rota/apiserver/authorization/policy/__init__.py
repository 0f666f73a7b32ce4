"""The roles and bindings that every cluster begins with, as tables."""
