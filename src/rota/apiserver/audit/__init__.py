"""The audit log: the user, request, time, source and response of requests, in upstream's format."""
