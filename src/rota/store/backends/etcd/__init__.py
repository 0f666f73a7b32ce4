"""The store on etcd v3, with etcd's own revisions, watches, leases and transactions.

`address` reads the URL, `connection` speaks gRPC to one of several members, `faults` turns its errors into ours,
`keyspace` maps our keys and revisions onto etcd's, `transactions` our transactions; `feed` follows every change by
one etcd watch, `past` reads history behind it, `loading` restores, `store` puts them together. `etcd_pb2` is made
from `etcd.proto` by `make proto`.
"""

from rota.store.backends.etcd.store import open_store

__all__ = ["open_store"]
