"""Placement: the framework's contract, its plugins, and the loop around them."""
