"""Filters, one per file: each says which clusters it accepts for a request, and why it refuses another.

A filter has a `NAME`, `accepted(context)` and `reason(context, cluster)`.
"""
