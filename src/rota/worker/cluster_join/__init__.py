"""How a worker becomes a member of a cluster, and stays one: `join` comes in, `certificate_renewal` keeps
certificates fresh.
"""
