"""Protobuf request bodies of the built-in kinds, as Go clients send them; responses are JSON."""
