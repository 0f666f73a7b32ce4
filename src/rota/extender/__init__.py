"""The spot extender: our policy for spot machines as a service that the stock kube-scheduler asks."""
