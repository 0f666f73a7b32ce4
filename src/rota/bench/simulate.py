"""Benchmark of simulations: pods that come and go in virtual time, and OpenB's published protocol where its files are.

Times are processor times. The references are the limits that a simulation has to keep, scaled to the number of pods.
The cost of later events is compared with that of earlier ones of the same run. `ROTA_OPENB` names the folder with
OpenB's files; without it that part is left out. Every figure with a goal says in `--json` whether it is met.
"""

import os
import resource
import time
from pathlib import Path

import msgspec
import numpy as np

from rota.bench.report import Result, duration, rate
from rota.simulator import arrivals, clusters, experiment, policies, results
from rota.simulator.engine import Engine
from rota.simulator.loaders import openb
from rota.simulator.ties import TieRule
from rota.simulator.traces import Trace

NODES, PODS = 5_000, 1_000_000
QUICK_NODES, QUICK_PODS = 500, 10_000
#: Processor seconds for a million pods, and MiB of the process.
LIMIT_S, LIMIT_MIB = 180.0, 2048.0
#: Processor seconds of one seed of OpenB's default trace at 130 %.
OPENB_LIMITS_S = {"fgd": 5.0, "bestfit": 2.0}
#: Published means of OpenB's default trace at 100 and 130 % arrived load, and how far a policy may be from them.
PUBLISHED = {"random": (86.30, 87.47), "dotprod": (90.62, 90.85), "bestfit": (92.86, 93.08), "fgd": (95.23, 95.39)}
TOLERANCE = 0.5
SEEDS = 10
#: How much more a pod of the last quarter of a run may cost; a cluster that fills up makes early pods cheaper.
MOST_GROWTH = 1.25
_SHAPES = ("cpu=500m,memory=1Gi", "cpu=1,memory=2Gi", "cpu=2,memory=4Gi", "cpu=4,memory=16Gi")
_MEAN_S = 600.0
#: The part of the cluster's cpu that pods take, and what a pod takes on average.
_LOAD, _OVERLOAD, _NODE_CPU, _POD_CPU = 0.7, 1.2, 32.0, 1.875


def measure(*, store_url: str = "", quick: bool = False) -> list[Result]:
    """Measure simulations; uses no store."""
    return [*_come_and_go(quick=quick), _overloaded(quick=quick), *_openb(quick=quick)]


def _come_and_go(*, quick: bool) -> list[Result]:
    nodes, pods = (QUICK_NODES, QUICK_PODS) if quick else (NODES, PODS)
    trace = _trace(nodes, pods)
    engine = Engine(trace, policies.named(policies.DEFAULT).load({}), seed=1)
    marks: list[tuple[float, float]] = [(0.0, time.process_time())]
    meters = engine.run(lambda part, _: marks.append((part, time.process_time())))
    marks.append((1.0, time.process_time()))
    if meters.finished != pods:
        raise RuntimeError(f"{pods - meters.finished} pods of the benchmark did not end; its cluster is too small")
    taken = marks[-1][1] - marks[0][1]
    name = f"{pods:,} pods that come and go, {nodes:,} nodes"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    limit = LIMIT_S * pods / PODS
    early, late = _per_pod(marks, 0.25, 0.5, pods), _per_pod(marks, 0.75, 1.0, pods)
    return [
        _judged(
            duration(name, taken, limit, against=f"{LIMIT_S:.0f} s for {PODS:,} pods", unit="s"),
            f"under {LIMIT_S:.0f} s for {PODS:,} pods",
            met=taken < limit,
        ),
        _judged(
            duration(f"memory, {name}", memory, LIMIT_MIB, against=f"{LIMIT_MIB:.0f} MiB", unit="MiB"),
            f"under {LIMIT_MIB:.0f} MiB",
            met=memory < LIMIT_MIB,
        ),
        _judged(
            duration("a pod, late", late, early, against="early", unit="us"),
            f"at most {MOST_GROWTH:g} times a pod in the second quarter",
            met=late <= MOST_GROWTH * early,
        ),
    ]


def _judged(result: Result, goal: str, *, met: bool) -> Result:
    return msgspec.structs.replace(result, goal=goal, met=met)


def _overloaded(*, quick: bool) -> Result:
    """An attempt where a fifth more arrives than fits, so that most attempts find no node, against one that does."""
    nodes, pods = (20, 600) if quick else (50, 3_000)
    costs = []
    for load in (_LOAD, _OVERLOAD):
        engine = Engine(_trace(nodes, pods, load), policies.named(policies.DEFAULT).load({}), seed=1)
        began = time.process_time()
        meters = engine.run()
        costs.append((time.process_time() - began) / meters.attempts * 1e6)
    return duration("an attempt, overloaded", costs[1], costs[0], against="an attempt with room", unit="us")


def _per_pod(marks: list[tuple[float, float]], begin: float, end: float, pods: int) -> float:
    """Microseconds per pod between two parts of a run."""
    first = min(marks, key=lambda mark: abs(mark[0] - begin))
    last = min(reversed(marks), key=lambda mark: abs(mark[0] - end))
    return (last[1] - first[1]) / max((last[0] - first[0]) * pods, 1.0) * 1e6


def _trace(nodes: int, pods: int, load: float = _LOAD) -> Trace:
    rng = arrivals.generator(7)
    per_second = nodes * _NODE_CPU * load / _POD_CPU / _MEAN_S
    return Trace(
        name="come and go",
        nodes=clusters.nodes([f"{nodes}xcpu={_NODE_CPU:g},memory=128Gi"]),
        templates=[clusters.pod(shape) for shape in _SHAPES],
        at=np.cumsum(rng.standard_exponential(pods) / per_second),
        duration=rng.standard_exponential(pods) * _MEAN_S,
        template=rng.integers(0, len(_SHAPES), pods),
        names=[f"p{number}" for number in range(pods)],
    )


def _openb(*, quick: bool) -> list[Result]:
    folder = os.environ.get("ROTA_OPENB", "")
    if quick or not folder:
        return []
    trace = openb.load(Path(folder))
    tuned = arrivals.tuned(trace, 42)
    found = []
    for name, limit in OPENB_LIMITS_S.items():
        loaded = policies.named(name).load({"seed": 42, "typicalPods": arrivals.typical(trace)})
        began = time.process_time()
        arrivals.run(tuned, loaded, seed=42)
        taken = time.process_time() - began
        result = duration(f"OpenB at 130 %, {name}", taken, limit, against=f"{limit:.0f} s", unit="s")
        found.append(_judged(result, f"under {limit:.0f} s of processor time", met=taken < limit))
    return [*found, *_allocations(trace)]


def _allocations(trace: Trace) -> list[Result]:
    """Allocation on the default trace against the published means, and the policy that is to allocate more."""
    runner = experiment.arrivals_runner(ties=TieRule.SHUFFLED_NAME, tune=arrivals.TUNING_RATIO)
    chosen = [policies.named(name) for name in (*PUBLISHED, "cgd")]
    report = experiment.run([trace], chosen, experiment.seeds(SEEDS), runner, conditions={})
    found = []
    for summary in report.summaries:
        if summary.policy not in PUBLISHED:
            worst = min(summary.values("allocation_at_130"))
            best = PUBLISHED["fgd"][1]
            result = rate(
                f"OpenB allocation at 130 %, {summary.policy}, worst seed", worst, best, against="fgd", unit="%"
            )
            found.append(_judged(result, f"more than {best} on every seed", met=worst > best))
            continue
        for percent, mean in zip((100, 130), PUBLISHED[summary.policy], strict=True):
            value = results.mean(summary.values(f"allocation_at_{percent}"))
            name = f"OpenB allocation at {percent} %, {summary.policy}"
            result = rate(name, value, mean, against="the published mean", unit="%")
            found.append(_judged(result, f"within {TOLERANCE} of {mean}", met=abs(value - mean) <= TOLERANCE))
    return found
