"""The store on etcd v3, with etcd's own revisions, watches, leases and transactions.

`address` reads the URL, `connection` speaks gRPC to one of several members, `methods` lists what can be called,
`faults` turns errors into ours, `keyspace` maps our keys and revisions onto etcd's, `transactions` our transactions,
`store_status` asks how things stand; `watch_feed` follows every change by one etcd watch, `history` reads history
behind it, `bulk_load` restores, `store` puts them together. `etcd_pb2` is made from `etcd.proto` by `make proto`.
"""

import os

# gRPC's core writes lines of its own to standard error, beside the one that we have for the user. It looks at this when
# it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from rota.store.backends.etcd.store import open_store  # see above

__all__ = ["open_store"]
