"""Builders, virtual time, private servers and contract test suites, for Rota's tests and for users' tests."""
