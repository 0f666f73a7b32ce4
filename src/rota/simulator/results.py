"""The results of runs: figures and curves of one run, their means over seeds, and comparisons of policies. Pure.

Policies are compared on paired seeds: the same seed means the same workload, so the difference of two policies varies
less than each of them. A difference whose 95 % confidence interval includes zero is noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

#: Two-sided 95 % quantiles of Student's t by degrees of freedom.
_T95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL: Final = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A curve: what is on its axes, and its points."""

    across: str
    up: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run: a trace, a policy and a seed."""

    trace: str
    policy: str
    seed: int
    figures: Mapping[str, float]
    series: Mapping[str, Series] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The runs of one policy on one trace."""

    trace: str
    policy: str
    runs: tuple[RunResult, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the runs."""
        return tuple(run.seed for run in self.runs)

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that every run has."""
        return tuple(name for name in self.runs[0].figures if all(name in run.figures for run in self.runs))

    def values(self, figure: str) -> list[float]:
        """A figure by run."""
        return [run.figures[figure] for run in self.runs]

    def document(self) -> dict[str, Any]:
        """For programs: means under the names of the figures, what they are the means of, and curves of one seed."""
        found: dict[str, Any] = {"trace": self.trace, "policy": self.policy, "seeds": list(self.seeds)}
        found |= {name: _rounded(mean(self.values(name))) for name in self.figures}
        found["sd"] = {name: _rounded(deviation(self.values(name))) for name in self.figures}
        found["curves"] = {
            name: {"across": each.across, "up": each.up, "x": list(each.x), "y": [_rounded(value) for value in each.y]}
            for name, each in self.runs[0].series.items()
        }
        found["per_seed"] = {name: [_rounded(value) for value in self.values(name)] for name in self.figures}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A policy minus a baseline, on the seeds that both ran with."""

    trace: str
    figure: str
    policy: str
    baseline: str
    mean: float
    #: Half the width of the 95 % confidence interval; infinite with one seed.
    margin: float
    seeds: int

    @property
    def noise(self) -> bool:
        """Whether the interval includes zero."""
        return abs(self.mean) <= self.margin

    def document(self) -> dict[str, Any]:
        """For programs."""
        bounds = (
            None if math.isinf(self.margin) else [_rounded(self.mean - self.margin), _rounded(self.mean + self.margin)]
        )
        return {
            "trace": self.trace,
            "figure": self.figure,
            "policy": self.policy,
            "baseline": self.baseline,
            "difference": _rounded(self.mean),
            "interval95": bounds,
            "seeds": self.seeds,
            "noise": self.noise,
        }


def summaries(runs: Sequence[RunResult]) -> list[Summary]:
    """Runs by trace and policy, in the order in which they came."""
    grouped: dict[tuple[str, str], list[RunResult]] = {}
    for run in runs:
        grouped.setdefault((run.trace, run.policy), []).append(run)
    return [Summary(trace=trace, policy=policy, runs=tuple(each)) for (trace, policy), each in grouped.items()]


def differences(found: Sequence[Summary]) -> list[Difference]:
    """Every policy against the first of its trace, figure by figure."""
    compared: list[Difference] = []
    baselines: dict[str, Summary] = {}
    for summary in found:
        baseline = baselines.setdefault(summary.trace, summary)
        if baseline is summary:
            continue
        pairs = [(run, other) for run in summary.runs for other in baseline.runs if run.seed == other.seed]
        for figure in baseline.figures:
            values = [
                run.figures[figure] - other.figures[figure]
                for run, other in pairs
                if figure in run.figures and not math.isnan(run.figures[figure] - other.figures[figure])
            ]
            if values:
                compared.append(
                    Difference(
                        trace=summary.trace,
                        figure=figure,
                        policy=summary.policy,
                        baseline=baseline.policy,
                        mean=mean(values),
                        margin=margin(values),
                        seeds=len(values),
                    )
                )
    return compared


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return math.fsum(values) / len(values) if values else math.nan


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def margin(values: Sequence[float]) -> float:
    """Half the width of the mean's 95 % confidence interval; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    quantile = _T95[len(values) - 2] if len(values) - 2 < len(_T95) else _NORMAL
    return quantile * deviation(values) / math.sqrt(len(values))


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) or math.isinf(value) else round(value, 6)
