"""Benchmark of simulations: pods that come and go in virtual time, and OpenB's published protocol where its files are.

Times are processor times. The references are the limits that a simulation has to keep, scaled to the number of pods.
The cost of later events is compared with that of earlier ones of the same run. `ROTA_OPENB` names the folder with
OpenB's files; without it that part is left out.
"""

import os
import resource
import time
from pathlib import Path

import numpy as np

from rota.bench.report import Result, duration
from rota.simulator import arrivals, clusters, policies
from rota.simulator.engine import Engine
from rota.simulator.loaders import openb
from rota.simulator.traces import Trace

NODES, PODS = 5_000, 1_000_000
QUICK_NODES, QUICK_PODS = 500, 10_000
#: Processor seconds for a million pods, and MiB of the process.
LIMIT_S, LIMIT_MIB = 180.0, 2048.0
#: Processor seconds of one seed of OpenB's default trace at 130 %.
OPENB_LIMITS_S = {"fgd": 5.0, "bestfit": 2.0}
_SHAPES = ("cpu=500m,memory=1Gi", "cpu=1,memory=2Gi", "cpu=2,memory=4Gi", "cpu=4,memory=16Gi")
_MEAN_S = 600.0
#: The part of the cluster's cpu that pods take, and what a pod takes on average.
_LOAD, _NODE_CPU, _POD_CPU = 0.7, 32.0, 1.875


def measure(*, store_url: str = "", quick: bool = False) -> list[Result]:
    """Measure simulations; uses no store."""
    return [*_come_and_go(quick=quick), *_openb(quick=quick)]


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
    return [
        duration(name, taken, LIMIT_S * pods / PODS, against=f"{LIMIT_S:.0f} s for {PODS:,} pods", unit="s"),
        Result(
            name=f"memory, {name}", value=memory, unit="MiB", against=f"{LIMIT_MIB:.0f} MiB", ratio=LIMIT_MIB / memory
        ),
        duration(
            "a pod, late",
            _per_pod(marks, 0.75, 1.0, pods),
            _per_pod(marks, 0.25, 0.5, pods),
            against="early",
            unit="us",
        ),
    ]


def _per_pod(marks: list[tuple[float, float]], begin: float, end: float, pods: int) -> float:
    """Microseconds per pod between two parts of a run."""
    first = min(marks, key=lambda mark: abs(mark[0] - begin))
    last = min(reversed(marks), key=lambda mark: abs(mark[0] - end))
    return (last[1] - first[1]) / max((last[0] - first[0]) * pods, 1.0) * 1e6


def _trace(nodes: int, pods: int) -> Trace:
    rng = arrivals.generator(7)
    rate = nodes * _NODE_CPU * _LOAD / _POD_CPU / _MEAN_S
    return Trace(
        name="come and go",
        nodes=clusters.nodes([f"{nodes}xcpu={_NODE_CPU:g},memory=128Gi"]),
        templates=[clusters.pod(shape) for shape in _SHAPES],
        at=np.cumsum(rng.standard_exponential(pods) / rate),
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
        found.append(duration(f"OpenB at 130 %, {name}", taken, limit, against=f"{limit:.0f} s", unit="s"))
    return found
