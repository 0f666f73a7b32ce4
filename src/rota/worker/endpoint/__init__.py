"""The worker's HTTPS endpoint: it speaks the kubelet's protocol, and only to the API server."""
