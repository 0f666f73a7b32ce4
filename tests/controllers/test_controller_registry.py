"""Which controllers a master runs."""

import pytest

from rota.controllers.controller_registry import ROSTER, chosen
from rota.kit.errors import UserError


def test_all_controllers_run_by_default() -> None:
    assert chosen("*") == ROSTER
    assert set(chosen("*,-jobs, -cron-jobs")) == set(ROSTER) - {"jobs", "cron-jobs"}
    assert set(chosen("jobs,garbage")) == {"jobs", "garbage"}
    assert set(chosen("jobs,garbage,-jobs")) == {"garbage"}


def test_an_unknown_controller_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"there is no controller -job; choose from .*jobs"):
        chosen("*,-job")
