"""Fixtures for every test: see `rota.testing.plugin`."""

import logging
import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest

# Before anybody imports them: a failing contract test shows values, as any other test does.
pytest.register_assert_rewrite("rota.testing.store_contract")

# The duration of one example depends on the machine; a test that hangs is ended by pytest-timeout. Examples come from a
# fixed seed, so that a run says something about the change under test and not about luck. `make fuzz` draws new ones
# (--hypothesis-profile=random, with --hypothesis-seed=N to repeat a run); an example that fails becomes a case.
hypothesis.settings.register_profile("rota", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("random", deadline=None, print_blob=True)
hypothesis.settings.load_profile("rota")

pytest_plugins = ["rota.testing.plugin"]

# Shells have programs in the background ignore Ctrl-C, and so would everything that a test starts there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Tasks of tests leave marks in folders of pytest's, which are closed to other users. Whom tasks run as by default is
# the business of tests/worker/test_task_users.py, and of the how-tos in tests/docs.
if os.geteuid() == 0:
    os.environ.setdefault("ROTA_RUN_AS", "root")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands configure the logging of their process, which here is that of other tests, too."""
    root = logging.getLogger()
    level, known = root.level, set(root.handlers)
    yield
    root.setLevel(level)
    for handler in set(root.handlers) - known:
        if type(handler).__module__ == "rota.kit.logs":
            root.removeHandler(handler)
