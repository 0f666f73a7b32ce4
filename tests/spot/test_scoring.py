"""How likely machines go, and how good a node is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.spot import scoring
from rota.spot.node_readings import Capacity
from rota.spot.policies import PREFER, Policy, SpotPreference
from rota.spot.risks import Risks
from rota.spot.scoring import Candidate

HOUR = 3600.0
SPOT = Candidate(capacity=Capacity.SPOT, risk=0.05, price=0.3, load=0.5, distance=0.5)
STAYING = Candidate(capacity=Capacity.ON_DEMAND, price=1.0, load=0.5, distance=0.5)


def scored(candidate: Candidate, policy: Policy = PREFER) -> float:
    return scoring.score(candidate, policy, highest_price=1.0)


def test_spot_wins_where_it_is_preferred_and_not_where_it_is_not() -> None:
    assert scored(SPOT) > scored(STAYING)
    never = Policy(preference=SpotPreference.NEVER)
    equal = replace(SPOT, price=1.0)
    assert scored(equal, never) < scored(STAYING, never)


def test_of_two_spot_machines_the_surer_cheaper_emptier_nearer_one_wins() -> None:
    for worse in (
        replace(SPOT, risk=0.5),
        replace(SPOT, risky=True),
        replace(SPOT, price=0.9),
        replace(SPOT, load=0.9),
        replace(SPOT, distance=1.0),
    ):
        assert scored(worse) < scored(SPOT)


def test_what_is_not_known_is_neither_best_nor_worst() -> None:
    values = (0.0, None, 1.0)
    for good, unknown, bad in (
        [replace(SPOT, price=value) for value in values],
        [replace(SPOT, load=value) for value in values],
        [replace(SPOT, distance=value) for value in values],
    ):
        assert scored(good) > scored(unknown) > scored(bad)


@given(st.sampled_from(Capacity), st.floats(0, 1), st.none() | st.floats(0, 5), st.none() | st.floats(0, 2))
def test_a_score_is_between_nothing_and_one(
    capacity: Capacity, risk: float, price: float | None, load: float | None
) -> None:
    assert 0 <= scored(Candidate(capacity=capacity, risk=risk, price=price, load=load)) <= 1


def test_a_pool_that_was_interrupted_is_riskier_and_that_is_forgotten() -> None:
    risks = Risks()
    for pool in ("a", "b"):
        risks.machines(pool, 10, now=0)
    risks.interrupted("a", now=10 * HOUR)
    soon = risks.risk("a", now=10 * HOUR)
    assert soon > risks.risk("b", now=10 * HOUR) > 0
    assert risks.risk("a", now=100 * HOUR) < soon


def test_risk_does_not_depend_on_the_polling_rate() -> None:
    often, once = Risks(), Risks()
    for risks in (often, once):
        risks.machines("a", 7, now=0)
    for hour in range(48):
        often.risk("a", now=hour * HOUR)
    assert often.risk("a", now=48 * HOUR) == pytest.approx(once.risk("a", now=48 * HOUR))


def test_machines_that_stay_make_a_pool_surer_than_what_is_believed_of_an_unknown_one() -> None:
    risks = Risks()
    risks.machines("a", 100, now=0)
    assert risks.risk("a", now=24 * HOUR) < risks.risk("never seen", now=24 * HOUR)
