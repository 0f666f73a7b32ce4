"""Subresources with a behaviour of their own: binding, eviction, scale, log; `table` lists them."""
