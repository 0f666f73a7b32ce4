"""The API server: Kubernetes' HTTP API over a store.

A request passes `server` (routing and dispatch), `authentication`, `flow_control`, `authorization`, `audit`, a verb in
`verbs` or a handler in `subresources`, `admission` and `strategies`, and `registry`, which reads and writes the store.
`http` has connections and content negotiation, `cache` the watch caches, `crd` the custom kinds, `printing` the tables
of `kubectl get`. Controllers, the scheduler and clients are not here: they use the API.
"""
