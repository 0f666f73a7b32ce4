"""Laws of the quota of batch pods: it converges, does not oscillate, and never exceeds what others leave."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.worker.colocation.quota import QuotaController, QuotaSettings

CAPACITY = 8000.0
SETTINGS = QuotaSettings()
LOADS = st.floats(0, 1.2 * CAPACITY)


def controller() -> QuotaController:
    return QuotaController(CAPACITY, SETTINGS)


def changes(quotas: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(quotas) if after != before]


def settled(made: QuotaController, load: float) -> list[float]:
    """The quotas of enough steps with one load to cross the whole range."""
    steps = int(SETTINGS.hold_s + 1 / SETTINGS.rate) + 2
    return [made.step(load, 1.0) for _ in range(steps)]


@given(st.lists(LOADS, max_size=60), LOADS)
def test_after_any_history_a_constant_load_leads_to_its_target_in_one_direction(
    history: list[float], load: float
) -> None:
    made = controller()
    for each in history:
        made.step(each, 1.0)
    before = made.quota
    quotas = settled(made, load)
    assert made.target(load) - SETTINGS.deadband * CAPACITY <= quotas[-1] <= made.target(load)
    signs = {change > 0 for change in changes([before, *quotas])}
    assert len(signs) <= 1, "a step of the load moves the quota in one direction"
    assert not changes(settled(made, load)), "and then it stays"


@given(st.lists(st.tuples(LOADS, st.floats(0.01, 5.0)), min_size=1, max_size=80))
def test_a_quota_never_exceeds_what_others_leave_and_rises_at_a_bounded_rate(
    trace: list[tuple[float, float]],
) -> None:
    made = controller()
    for load, elapsed_s in trace:
        before = made.quota
        quota = made.step(load, elapsed_s)
        assert SETTINGS.least * CAPACITY <= quota <= made.target(load)
        assert quota - before <= SETTINGS.rate * CAPACITY * elapsed_s + 1e-6


@given(LOADS, st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_variation_within_the_deadband_settles_at_its_lowest_target(load: float, noise: list[float]) -> None:
    made = controller()
    settled(made, 0.0)
    settled(made, load + 0.5 * SETTINGS.deadband * CAPACITY)
    quotas = [made.step(load + each * SETTINGS.deadband * CAPACITY, 1.0) for each in noise]
    assert all(change < 0 for change in changes(quotas))


@given(st.lists(st.tuples(st.floats(0, CAPACITY), st.integers(1, 12)), min_size=1, max_size=12))
def test_with_a_service_that_batch_slows_down_the_service_gets_its_demand(trace: list[tuple[float, int]]) -> None:
    """A closed loop: what others use is their demand, or what batch leaves them if that is less."""
    made = controller()
    used = 0.0
    for demand, seconds in trace:
        for _ in range(seconds):
            used = min(demand, CAPACITY - made.quota)
            made.step(used, 1.0)
    demand = trace[-1][0]
    for _ in range(60):
        used = min(demand, CAPACITY - made.quota)
        made.step(used, 1.0)
    assert used == pytest.approx(min(demand, CAPACITY - SETTINGS.least * CAPACITY))
    assert not changes([made.step(used, 1.0) for _ in range(20)])


def test_a_rise_waits_after_a_cut() -> None:
    made = controller()
    settled(made, 0.0)
    made.step(5000.0, 1.0)
    assert made.step(0.0, 1.0) == made.target(5000.0)
    assert made.step(0.0, 1.0) == made.target(5000.0) + SETTINGS.rate * CAPACITY


def test_a_machine_without_cores_is_refused() -> None:
    with pytest.raises(ValueError, match="above zero"):
        QuotaController(0, SETTINGS)
