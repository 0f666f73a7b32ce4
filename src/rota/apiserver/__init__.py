"""The API server: Kubernetes on the wire, over a store."""
