"""The conflict resolver for a stock Kubernetes: an admission webhook that checks every binding against its node.

A stock API server binds a pod to any node, so several schedulers oversell nodes. The resolver is asked before each
binding, and refuses one that does not fit beside what is bound and what it has approved itself. `binding_ledger`
decides (pure, with the fit code of Rota's own binding transaction), `service` follows the cluster and answers reviews,
`rights` has the permissions. Rota's own API server checks bindings in its transaction and needs no resolver.
"""
