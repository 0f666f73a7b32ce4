"""The how-tos are run as their readers run them: with tasks that are not root, also where root runs the tests."""

import pytest


@pytest.fixture(autouse=True)
def _usual_task_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_RUN_AS", raising=False)
