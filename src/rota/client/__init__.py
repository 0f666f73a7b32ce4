"""The client of the API: over HTTP, or in-process to an API server of this process.

`verbs` has all verbs on all kinds (`typed` with Structs, `pods` with the actions on pods, `bulk_create` and
`object_apply` for many or desired objects). `informers` keep local copies, `queues` and `reconciler` drive controllers,
`elections` elect a leader, `events` record Events. `client_factory`, `kubeconfig`, `endpoints`, `credentials` and
`transports` connect. `discovery`, `tables` and `exec_stream` serve command-line tools.

Nothing here depends on Rota's server: everything works on a stock Kubernetes, with fallbacks where Rota's extensions
(batches, terms) are missing. The server is in `rota.apiserver`.
"""
