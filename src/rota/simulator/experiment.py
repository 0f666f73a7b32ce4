"""An experiment: traces, policies and seeds in, one result per run out. An interruption keeps the runs made so far."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rota.columns.cluster import Cluster
from rota.columns.gpu_workload import WorkloadColumns
from rota.scheduler.plugins import power_aware
from rota.scheduler.plugins.power_aware import PowerAwareArgs
from rota.simulator import arrivals
from rota.simulator.engine import Engine, Options
from rota.simulator.policies import Policy
from rota.simulator.results import Difference, RunResult, Series, Summary, differences, summaries
from rota.simulator.ties import TieRule
from rota.simulator.traces import Trace

#: The arrived loads, in percent of the cluster, at which power is measured.
POWER_AT: Final = (50, 100)
_ARRIVED: Final = "arrived load (% of the cluster)"
#: Loads above this are not sampled.
_MOST_PERCENT: Final = 1000
#: The first seed of the published runs of OpenB; n seeds are this one and those that follow.
FIRST_SEED: Final = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an experiment is."""

    trace: str
    policy: str
    seed: int
    #: Runs that are done, and all of them.
    done: int
    runs: int
    #: The part of the present run that is done.
    part: float
    #: The virtual time in seconds, where there is one.
    time_s: float = 0.0


@dataclass(slots=True)
class Report:
    """What an experiment has found so far."""

    #: The rules and models that the figures depend on.
    conditions: dict[str, Any]
    runs: list[RunResult] = field(default_factory=list)
    #: Whether it was ended before its last run.
    interrupted: bool = False
    #: Whether the only run was cut off; its figures are those of the virtual time until then.
    partial: bool = False

    @property
    def summaries(self) -> list[Summary]:
        """The runs by trace and policy."""
        return summaries(self.runs)

    @property
    def differences(self) -> list[Difference]:
        """Every policy against the first."""
        return differences(self.summaries)

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "results": [{**each.document(), **self.conditions} for each in self.summaries],
            "comparisons": [each.document() for each in self.differences],
            "interrupted": self.interrupted,
            "partial": self.partial,
        }


#: Called now and then while runs go on.
Watcher = Callable[[Progress], None]
#: Called by a run with the part of it that is done, and the virtual time.
Advance = Callable[[float, float], None]
#: One run: a trace, a policy and a seed.
Runner = Callable[[Trace, Policy, int, Advance], RunResult]


class InterruptedRun(Exception):
    """A run was cut off; the result has its figures until then."""

    def __init__(self, result: RunResult) -> None:
        super().__init__("interrupted")
        self.result: Final = result


def seeds(number: int, first: int = FIRST_SEED) -> tuple[int, ...]:
    """A number of seeds."""
    return tuple(range(first, first + number))


def run(
    traces: Sequence[Trace],
    policies: Sequence[Policy],
    seeds: Sequence[int],
    runner: Runner,
    *,
    conditions: dict[str, Any],
    watch: Watcher | None = None,
) -> Report:
    """Make all runs, seed by seed, so that an interrupted experiment has compared all policies on the same seeds."""
    report = Report(conditions=conditions)
    planned = list(_planned(traces, policies, seeds))
    try:
        for trace, policy, seed in planned:

            def advance(
                part: float, time_s: float, run: tuple[str, str, int] = (trace.name, policy.name, seed)
            ) -> None:
                if watch is not None:
                    name, by, number = run
                    watch(
                        Progress(
                            trace=name,
                            policy=by,
                            seed=number,
                            done=len(report.runs),
                            runs=len(planned),
                            part=part,
                            time_s=time_s,
                        )
                    )

            report.runs.append(runner(trace, policy, seed, advance))
    except InterruptedRun as cut:
        # Means of whole runs and of a part of one would not be comparable.
        report.interrupted, report.partial = True, not report.runs
        if report.partial:
            report.runs.append(cut.result)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


def _planned(
    traces: Sequence[Trace], policies: Sequence[Policy], seeds: Sequence[int]
) -> Iterator[tuple[Trace, Policy, int]]:
    for trace in traces:
        for seed in seeds:
            for policy in policies:
                yield trace, policy, seed


def arrivals_runner(*, ties: TieRule, tune: float | None, percents: Sequence[int] = (100, 130)) -> Runner:
    """Runs of arrivals only, on a trace tuned to a demand for GPUs, or as it is."""

    def one(trace: Trace, policy: Policy, seed: int, advance: Advance) -> RunResult:
        workload = trace if tune is None else arrivals.tuned(trace, seed, ratio=tune)
        sampled = _Sampled(trace, workload)

        outcome = arrivals.run(
            workload,
            policy.load(arguments(trace, seed)),
            seed=seed,
            ties_by=ties,
            progress=lambda done, of: advance(done / max(of, 1), 0.0),
            observe=sampled.observe,
        )
        curve = outcome.curve()
        figures = {f"allocation_at_{each}": outcome.at(each) for each in percents}
        figures |= {f"fragmentation_at_{each}": sampled.at("fragmentation", each) for each in percents}
        figures |= {f"kilowatts_at_{each}": sampled.at("power", each) for each in POWER_AT}
        figures |= {
            "allocation_at_end": float(outcome.allocated[-1]),
            "placed": float(outcome.placed),
            "failed": float(outcome.failed),
        }
        allocation = Series(
            across=_ARRIVED,
            up="allocated (% of the cluster)",
            x=tuple(map(float, curve)),
            y=tuple(curve.values()),
        )
        return RunResult(
            trace=trace.name,
            policy=policy.name,
            seed=seed,
            figures=figures,
            series={"allocation": allocation, **sampled.series()},
        )

    return one


class _Sampled:
    """Fragmentation and power, sampled when the arrived load reaches each whole percent."""

    def __init__(self, trace: Trace, workload: Trace) -> None:
        capacity = arrivals.gpu_capacity(workload)
        typical = arrivals.typical_workload(trace) if capacity else None
        self._capacity: Final = max(capacity, 1)
        self._columns: Final = None if typical is None else WorkloadColumns(typical, with_capacity=False)
        self._due: Final = arrivals.reaching(workload, range(1, _MOST_PERCENT)) if capacity else {}
        self._found: Final[dict[str, dict[int, float]]] = {"fragmentation": {}, "power": {}}

    def observe(self, number: int, cluster: Cluster) -> None:
        """Called after each arrival."""
        percent = self._due.get(number)
        if percent is None:
            return
        self._found["power"][percent] = power_aware.watts(cluster, PowerAwareArgs()) / 1000
        if self._columns is not None:
            lost = self._columns.before(cluster, cluster.rows).fragmentation
            self._found["fragmentation"][percent] = (
                100 * float(lost[cluster.alive[: cluster.size]].sum()) / self._capacity
            )

    def at(self, name: str, percent: int) -> float:
        """The value at a percent of arrived load, or the last one before it if a single pod passed over it."""
        return next((self._found[name][each] for each in range(percent, 0, -1) if each in self._found[name]), math.nan)

    def series(self) -> dict[str, Series]:
        """Both as curves."""
        names = {"fragmentation": "fragmented (% of the cluster's GPUs)", "power": "power (kW)"}
        return {
            name: Series(across=_ARRIVED, up=up, x=tuple(map(float, found)), y=tuple(found.values()))
            for name, up in names.items()
            if (found := self._found[name])
        }


def engine_runner(options: Options) -> Runner:
    """Runs in virtual time, with queue, retries, ends and the models of the options."""

    def one(trace: Trace, policy: Policy, seed: int, advance: Advance) -> RunResult:
        engine = Engine(trace, policy.load(arguments(trace, seed)), seed=seed, options=options)

        def result() -> RunResult:
            meters = engine.meters
            figures = meters.figures() | {"waiting_at_end": float(sum(1 for _ in engine.waiting()))}
            return RunResult(
                trace=trace.name, policy=policy.name, seed=seed, figures=figures, series=dict(meters.series())
            )

        try:
            engine.run(advance)
        except KeyboardInterrupt:
            raise InterruptedRun(result()) from None
        return result()

    return one


def arguments(trace: Trace, seed: int) -> dict[str, Any]:
    """What plugins are told if they take it and their configuration does not say: the seed, and the kinds of pods."""
    return {"seed": seed, "typicalPods": arrivals.typical(trace)}
