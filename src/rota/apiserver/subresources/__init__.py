"""Subresources with their own handlers: binding, eviction, scale, log, exec, explain; `table` lists them."""
