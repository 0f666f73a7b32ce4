"""Fixtures for every test: see `rota.testing.plugin`."""

import hypothesis
import pytest

# Before anybody imports them: a failing contract test shows values, as any other test does.
pytest.register_assert_rewrite("rota.testing.store_contract")

# How long one example takes is the machine's affair; a test that hangs is ended by pytest-timeout.
hypothesis.settings.register_profile("rota", deadline=None)
hypothesis.settings.load_profile("rota")

pytest_plugins = ["rota.testing.plugin"]
