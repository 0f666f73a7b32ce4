"""Caches of the API server: the reflector that follows the store, the watch cache on it, and decoded request bodies."""
