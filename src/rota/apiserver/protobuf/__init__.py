"""Protobuf bodies of requests, as Go clients send them for the built-in kinds; answers are JSON."""
