"""Fixtures for every test: see `rota.testing.plugin`."""

import pytest

# Before anybody imports them: a failing contract test shows values, as any other test does.
pytest.register_assert_rewrite("rota.testing.store_contract")

pytest_plugins = ["rota.testing.plugin"]
