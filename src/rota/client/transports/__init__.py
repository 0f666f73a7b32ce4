"""Transports: how a call reaches an API server, over HTTP or into an application in this process.

`http` and `in_process` carry calls; `retries`, `failover`, `limited` and `replaceable` wrap other transports;
`transport` is their interface.
"""
