"""Compares sides in alternating rounds: the method of all benchmarks with a peer.

The speed of a machine changes while it is measured. So the sides take turns, each round gives one ratio of values that
were measured shortly after each other, and the figure is the median of these ratios. Warm-up rounds do not count. If
the middle half of the ratios is spread too far, the figure says that nothing can be concluded from it.
"""

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import UNSET

from rota.bench.report import Result

#: Rounds that a figure needs.
ROUNDS: Final = 5
#: The middle half of the ratios may differ by this part of their median.
WIDEST: Final = 0.25

Measure = Callable[[], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Paired:
    """The values of two sides, round by round."""

    ours: Sequence[float]
    theirs: Sequence[float]

    def ratios(self, *, more_is_better: bool) -> list[float]:
        """Our advantage in each round; above 1 is better."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return [(our / their if more_is_better else their / our) for our, their in pairs if our and their]


def alternate(
    sides: Mapping[str, Measure], *, rounds: int = ROUNDS, warm_up: int = 1
) -> dict[str, dict[str, list[float]]]:
    """Let all sides measure in turns, in reverse order every other round; the values by side and name."""
    found: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    for number in range(-warm_up, rounds):
        order = list(sides) if number % 2 == 0 else list(reversed(list(sides)))
        for side in order:
            for name, value in sides[side]().items():
                if number >= 0:
                    found[side].setdefault(name, []).append(value)
    return found


def spread(values: Sequence[float]) -> float:
    """The width of the middle half of the values, as a part of their median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0


def compared(
    name: str, pair: Paired, *, unit: str, against: str, more_is_better: bool = True, goal: float | None = None
) -> Result:
    """A figure of our median value, with the median ratio to the other side, its spread, and the goal for it."""
    ratios = pair.ratios(more_is_better=more_is_better)
    wide = spread(ratios)
    ratio = statistics.median(ratios) if ratios else None
    conclusive = len(ratios) >= ROUNDS and wide <= WIDEST
    judged = goal is not None and ratio is not None and conclusive
    return Result(
        name=name,
        value=statistics.median(pair.ours),
        unit=unit,
        against=against,
        ratio=ratio,
        goal=UNSET if goal is None else f"a ratio of {goal:g}",
        met=ratio >= goal if judged and ratio is not None and goal is not None else UNSET,
        spread=wide,
        rounds=len(ratios),
        conclusive=conclusive,
    )


def alone(name: str, values: Sequence[float], *, unit: str) -> Result:
    """A figure without another side, with the spread of its rounds."""
    return Result(name=name, value=statistics.median(values), unit=unit, spread=spread(values), rounds=len(values))


def processor_s(mark: str) -> float:
    """The processor time of all processes with this text in their environment, and of the children that have ended."""
    total, ticks = 0, os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if mark.encode() not in (folder / "environ").read_bytes():
                continue
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (OSError, ValueError):
            continue  # it has ended, or belongs to another user
        total += sum(int(one) for one in fields[11:15])
    return total / ticks
