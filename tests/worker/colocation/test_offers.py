"""What a node sells: never more than the forecast leaves, and without a write for each small change."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rota.api.reclaimed import BATCH_CPU, BATCH_MEMORY
from rota.api.resources import CPU, MEMORY
from rota.worker.colocation import offers
from rota.worker.colocation.offers import Offers, OfferSettings

CAPACITY = 4000
SETTINGS = OfferSettings()


@given(st.lists(st.tuples(st.floats(0, 6000), st.integers(0, 2000), st.floats(0, 200)), min_size=1, max_size=60))
def test_what_is_sold_is_never_above_what_the_forecast_leaves(trace: list[tuple[float, int, float]]) -> None:
    made, now_s = Offers(SETTINGS), 0.0
    for peak, young, elapsed_s in trace:
        now_s += elapsed_s
        left = offers.left(CAPACITY, peak, young, ceiling=SETTINGS.ceiling)
        made.update(CPU, CAPACITY, left, now_s)
        assert 0 <= made.amounts()[BATCH_CPU] <= max(SETTINGS.ceiling * CAPACITY - peak - young, 0)
        assert made.amounts()[BATCH_MEMORY] == 0


def test_an_offer_falls_at_once_and_rises_in_steps() -> None:
    made = Offers(SETTINGS)
    made.update(CPU, CAPACITY, 2000, 0.0)
    assert made.amounts()[BATCH_CPU] == 2000
    made.update(CPU, CAPACITY, 1960, 1.0)
    assert made.amounts()[BATCH_CPU] == 1960, "a fall is not delayed"
    made.update(CPU, CAPACITY, 3000, 30.0)
    assert made.amounts()[BATCH_CPU] == 1960, "a rise waits"
    made.update(CPU, CAPACITY, 2100, 100.0)
    assert made.amounts()[BATCH_CPU] == 1960, "and is worth a write"
    made.update(CPU, CAPACITY, 2160, 100.0)
    assert made.amounts()[BATCH_CPU] == 2160


def test_nothing_is_left_without_a_forecast() -> None:
    assert offers.left(CAPACITY, math.nan, 0, ceiling=0.9) == 0
    assert offers.left(CAPACITY, 3700, 0, ceiling=0.9) == 0
    assert offers.left(CAPACITY, 1015, 0, ceiling=0.9) == 2560, "rounded down to hundredths of the capacity"


def test_pods_that_the_forecast_has_not_seen_count_by_request() -> None:
    young, old = {CPU: 500, MEMORY: 10}, {CPU: 1000, MEMORY: 20}
    assert offers.unmeasured([(900.0, young), (100.0, old), (950.0, {})], 1000.0) == {CPU: 500, MEMORY: 10}
