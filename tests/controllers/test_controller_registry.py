"""Which controllers a master runs."""

import pytest

from rota.controllers.controller_registry import ROSTER, chosen
from rota.kit.errors import UserError


def test_all_of_them_unless_somebody_says_otherwise() -> None:
    assert chosen("*") == ROSTER
    assert set(chosen("*,-jobs, -cron-jobs")) == set(ROSTER) - {"jobs", "cron-jobs"}
    assert set(chosen("jobs,garbage")) == {"jobs", "garbage"}
    assert set(chosen("jobs,garbage,-jobs")) == {"garbage"}


def test_a_name_that_nobody_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UserError, match=r"there is no controller -job; choose from .*jobs"):
        chosen("*,-job")
