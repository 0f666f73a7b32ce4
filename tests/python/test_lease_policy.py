"""How many leases are taken, and how many calls are sent ahead."""

import pytest

from rota.python import lease_policy
from rota.python.lease_policy import Demand


def demand(**changes: object) -> Demand:
    default = {
        "waiting": 0,
        "expected_s": None,
        "ready": 0,
        "occupied": 0,
        "starting": 0,
        "unplaced": False,
        "most": 32,
    }
    return Demand(**{**default, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "added"),
    [
        (demand(), 0),
        (demand(waiting=1), 1),
        (demand(waiting=1, starting=1), 0),
        (demand(waiting=5000), 4),
        (demand(waiting=5000, starting=4), 0),
        (demand(waiting=5000, ready=4), 0),  # they have just begun
        (demand(waiting=5000, expected_s=0.1, ready=4), 0),  # they are done soon
        (demand(waiting=5000, expected_s=100.0, ready=4), 4),
        (demand(waiting=3, ready=8, occupied=8), 3),
        (demand(waiting=100, ready=8, occupied=8), 8),
        (demand(waiting=100, ready=30, occupied=30), 2),
        (demand(waiting=100, ready=8, occupied=8, unplaced=True), 0),  # there is no room for more
        (demand(waiting=100, expected_s=0.001, ready=4, occupied=4), 1),  # short calls behind long ones
    ],
)
def test_leases_are_added_while_those_that_exist_do_not_keep_up(state: Demand, added: int) -> None:
    assert lease_policy.leases_to_add(state) == added


def test_only_short_calls_are_sent_ahead() -> None:
    assert lease_policy.takes_another(0, 0.0, None)
    assert not lease_policy.takes_another(1, 0.0, None), "it may take for ever"
    assert lease_policy.takes_another(10, 0.001, 0.0001)
    assert not lease_policy.takes_another(1, 0.0, 1.0)
    assert not lease_policy.takes_another(lease_policy.MOST_AHEAD, 0.0, 0.0)


def test_a_call_that_took_long_by_chance_changes_the_estimate_little() -> None:
    settled = lease_policy.estimate(lease_policy.estimate(None, 0.1), 0.001)
    assert settled < 0.06
    assert lease_policy.estimate(0.001, 1.0) < 0.06


def test_a_call_goes_where_most_of_its_data_is() -> None:
    assert lease_policy.nearest([]) is None
    assert lease_policy.nearest([(1, 10), (2, 15), (1, 10)]) == 1
