"""Builders, virtual time, private servers and contract suites for our tests and for users' tests."""
