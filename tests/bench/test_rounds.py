"""Figures of alternating rounds: medians of ratios, and when nothing can be concluded."""

import os
import subprocess
import sys

import pytest

from rota.bench import rounds
from rota.bench.rounds import Paired


def test_sides_take_turns_and_warm_up_does_not_count() -> None:
    order: list[str] = []

    def side(name: str) -> rounds.Measure:
        def measure() -> dict[str, float]:
            order.append(name)
            return {"value": float(len(order))}

        return measure

    found = rounds.alternate({"a": side("a"), "b": side("b")}, rounds=2)
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert found == {"a": {"value": [3.0, 6.0]}, "b": {"value": [4.0, 5.0]}}


def test_a_slow_minute_for_both_sides_does_not_change_the_ratio() -> None:
    pair = Paired([100, 50, 102, 98, 10], [50, 25, 51, 49, 5])
    figure = rounds.compared("calls", pair, unit="1/s", against="another", goal=1.5)
    assert (figure.ratio, figure.spread, figure.conclusive, figure.rounds) == (2.0, 0.0, True, 5)


@pytest.mark.parametrize(
    ("ours", "conclusive"),
    [([1, 1.05, 1.1, 1, 1], True), ([1, 2, 3, 1, 2], False), ([1, 1, 1, 1], False)],
)
def test_too_wide_a_spread_or_too_few_rounds_allow_no_conclusion(ours: list[float], conclusive: bool) -> None:
    figure = rounds.compared("calls", Paired(ours, [1.0] * len(ours)), unit="1/s", against="another")
    assert figure.conclusive is conclusive


def test_less_is_better_for_times() -> None:
    figure = rounds.compared("trip", Paired([2.0] * 5, [6.0] * 5), unit="ms", against="x", more_is_better=False)
    assert figure.ratio == 3.0


def test_processor_time_is_that_of_all_marked_processes() -> None:
    program = "import sys; sum(range(30_000_000)); print('done', flush=True); sys.stdin.read()"
    mark = f"mark-{os.getpid()}"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, env={**os.environ, "MARK": mark}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert rounds.processor_s(mark) > 0.05
        process.communicate()
    assert rounds.processor_s(mark) == 0.0
