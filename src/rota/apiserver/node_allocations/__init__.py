"""The resources that bound pods take of nodes, and the guard against overcommitting a node.

`pod_shares` computes, `pod_index` keeps the allocations in memory, `overcommit_guard` makes bindings safe across
servers.
"""
