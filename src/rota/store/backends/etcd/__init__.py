"""The store on etcd v3, with etcd's own revisions, watches, leases and transactions.

`address` parses the URL, `connection` makes gRPC calls to one of several members, `methods` lists the calls, `faults`
translates errors, `keyspace` maps keys and revisions to etcd's, `transactions` maps transactions, `store_status` reads
the revision range; `watch_feed` receives every change through one etcd watch, `history` reads older history,
`bulk_load` restores, `store` combines them. `make proto` generates `etcd_pb2` from `etcd.proto`.
"""

import os

# gRPC's core writes lines of its own to standard error, beside the user's error message. It reads this variable when it
# is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from rota.store.backends.etcd.store import open_store  # see above

__all__ = ["open_store"]
