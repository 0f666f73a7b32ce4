"""Means, intervals and comparisons on paired seeds."""

import math

import pytest

from rota.simulator import results
from rota.simulator.results import RunResult


def runs(policy: str, *values: float) -> list[RunResult]:
    return [RunResult(trace="t", policy=policy, seed=seed, figures={"x": value}) for seed, value in enumerate(values)]


def test_a_constant_difference_is_no_noise_although_the_figures_vary() -> None:
    found = results.summaries([*runs("a", 10, 50, 90), *runs("b", 11, 51, 91)])
    (difference,) = results.differences(found)
    assert difference.mean == pytest.approx(1)
    assert not difference.noise


def test_a_difference_smaller_than_its_interval_is_noise() -> None:
    found = results.summaries([*runs("a", 10, 50, 90), *runs("b", 12, 40, 95)])
    (difference,) = results.differences(found)
    assert difference.noise
    assert difference.document()["noise"] is True


def test_one_seed_says_nothing_about_a_difference() -> None:
    (difference,) = results.differences(results.summaries([*runs("a", 1), *runs("b", 2)]))
    assert math.isinf(difference.margin)
    assert difference.noise
    assert difference.document()["interval95"] is None


def test_the_interval_is_that_of_students_distribution() -> None:
    # Ten values 0..9: deviation 3.0277, quantile 2.262.
    assert results.margin(list(map(float, range(10)))) == pytest.approx(2.262 * 3.02765 / math.sqrt(10), abs=1e-4)
