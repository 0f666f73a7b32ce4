"""The versioned key-value store: one revision order, compare-and-swap, gap-free watches, leases, four backends.

`store_interface` has the guarantees, `store_factory` opens a store by its URL, `logstore` builds a store on an `engine`
(memory, SQLite, PostgreSQL), `backends/etcd` implements the interface on etcd. Values are bytes: what is in them, and
anything of Kubernetes, belongs to the API server.
"""
