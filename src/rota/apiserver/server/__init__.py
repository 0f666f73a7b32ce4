"""The API server as a whole: the ASGI application, its listener and TLS, start-up objects, health, metrics."""
