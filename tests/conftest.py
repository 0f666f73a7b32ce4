"""Fixtures for every test: see `rota.testing.plugin`."""

pytest_plugins = ["rota.testing.plugin"]
