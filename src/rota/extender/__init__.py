"""The spot extender: the spot policy as an HTTP extender of the stock kube-scheduler.

`service` serves the extender protocol (`messages`), `answers` decides from a `view` of the cluster, `columns` does the
same for many nodes at once. The policy itself is in `rota.spot`; Rota's own scheduler does not use this package.
"""
