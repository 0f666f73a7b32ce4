"""Volcano's kinds: their names on the wire, their definitions, and their rules.

Pure functions of objects. The API server's admission and the webhooks of `rota batch-controller` apply the same rules.
"""
