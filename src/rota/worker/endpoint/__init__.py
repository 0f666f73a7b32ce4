"""The worker's HTTPS endpoint: the kubelet's API (logs, exec, attach, port-forward, stats), for the API server only."""
