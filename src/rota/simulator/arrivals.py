"""Arrivals only: one pod after the other through the scheduler's own cycle, until the last has arrived.

A pod that finds no node is dropped: no queue, no retries, no preemption, no ends. That is how published studies of
packing measure policies. `tuned` prepares a trace as those of OpenB do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from rota.columns.cluster import Cluster
from rota.columns.gpu_workload import Workload
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.kit.errors import UserError
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.scheduler.cycle.scheduling_cycle import SchedulingCycle
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.plugins import typical_pods
from rota.scheduler.plugins.typical_pods import TypicalPodSpec
from rota.scheduler.status.fit_errors import FitError
from rota.simulator import gpu_demand, ties
from rota.simulator.ties import TieRule
from rota.simulator.traces import Floats, Ints, Trace

#: How far the demand of a tuned trace goes, as a part of the cluster's GPUs.
TUNING_RATIO: Final = 1.3


def generator(seed: int) -> np.random.Generator:
    """The random numbers of a run; equal seeds give equal runs."""
    return np.random.Generator(np.random.PCG64(seed))


def tuned(trace: Trace, seed: int, *, ratio: float = TUNING_RATIO) -> Trace:
    """Sort the pods by name, shuffle them, and add random ones of them (or leave some out) up to a demand for GPUs.

    `ratio` is the demand as a part of the GPUs of all nodes. Added pods are drawn with replacement, and the first that
    would exceed the demand ends the trace.
    """
    rng = generator(seed)
    demand = template_demand(trace)[trace.template]
    wanted = ratio * gpu_capacity(trace)
    if not demand.any() or not wanted:
        raise UserError(f"{trace.name}: no pod or no node has a GPU", "leave out --tune")
    by_name = np.array(sorted(range(len(trace)), key=trace.names.__getitem__), dtype=np.int64)
    order = by_name[rng.permutation(len(by_name))]
    total = int(demand.sum())
    if total > wanted:
        # Pods are left out at random, one by one; the rest keeps its order.
        out: set[int] = set()
        for place in rng.permutation(len(order)).tolist():
            if total <= wanted:
                break
            out.add(place)
            total -= int(demand[order[place]])
        left = [each for place, each in enumerate(order.tolist()) if place not in out]
        return trace.with_arrivals(np.array(left, dtype=np.int64))
    added: list[int] = []
    while True:
        drawn = int(rng.integers(len(order)))
        pod = int(order[drawn])
        if total + int(demand[pod]) > wanted:
            break
        total += int(demand[pod])
        added.append(pod)
    return trace.with_arrivals(np.concatenate([order, np.array(added, dtype=np.int64)]))


def template_demand(trace: Trace) -> Ints:
    """Thousandths of GPUs that pods of each template take."""
    interner = PodInterner()
    return np.array([gpu_demand.milli(interner.pod(each).shape.requests) for each in trace.templates], dtype=np.int64)


def typical(trace: Trace) -> list[dict[str, Any]]:
    """The typical pods of a trace, as an argument of policies that take them."""
    interner = PodInterner()
    numbers = np.bincount(trace.template, minlength=len(trace.templates)).tolist()
    return typical_pods.counted(
        (interner.pod(each).shape, number) for each, number in zip(trace.templates, numbers, strict=True)
    )


def typical_workload(trace: Trace) -> Workload | None:
    """The same for measuring fragmentation; None if no pod has arrived."""
    specs = msgspec.convert(typical(trace), list[TypicalPodSpec])
    return typical_pods.workload(specs, "fragmentation") if specs else None


def reaching(trace: Trace, percents: Sequence[int]) -> dict[int, int]:
    """The number of the pod by whose arrival so many percent of the cluster's GPUs have been asked for, each once."""
    arrived = np.cumsum(template_demand(trace)[trace.template]) * 100 / max(gpu_capacity(trace), 1)
    return {int(arrived.searchsorted(each)): each for each in percents}


def gpu_capacity(trace: Trace) -> int:
    """Thousandths of GPUs of all nodes."""
    return sum(gpu_demand.capacity(node.allocatable) for node in cluster_of(trace).node_infos())


def cluster_of(trace: Trace) -> Cluster:
    """The nodes of a trace, with the pods that have a node at the beginning."""
    cluster, interner = Cluster(), PodInterner()
    for document in trace.nodes:
        cluster.set_node(read_node(document))
    for kind, document in trace.objects:
        cluster.catalog.put(kind, document)
    for each in trace.placed:
        pod = interner.pod(trace.templates[each.template])
        cluster.add_pod(_pod(pod, each.name, each.uid), each.node)
    return cluster


def _pod(like: PodInfo, name: str, uid: str = "") -> PodInfo:
    return PodInfo(uid=uid or f"{like.namespace}/{name}", name=name, shape=like.shape, kept=like.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRun:
    """What came of a run: one entry per arrived pod, in order."""

    #: The demand that had arrived, and what was allocated of the cluster, in percent of the cluster.
    arrived: Floats
    allocated: Floats
    placed: int
    failed: int
    #: Node names by pod, in order; empty where a pod found none.
    nodes: tuple[str, ...]

    def at(self, percent: int) -> float:
        """The mean allocation of the events at which this much had arrived, rounded to whole percents."""
        there = np.rint(self.arrived) == percent
        return float(self.allocated[there].mean()) if there.any() else float("nan")

    def curve(self) -> dict[int, float]:
        """`at` for every percent that occurs."""
        percents = np.rint(self.arrived).astype(np.int64)
        sums = np.bincount(percents, weights=self.allocated)
        numbers = np.bincount(percents)
        return {int(each): float(sums[each] / numbers[each]) for each in np.flatnonzero(numbers)}


#: Called with the number of pods that have arrived, and how many there are.
Progress = Callable[[int, int], None]


def run(
    trace: Trace,
    loaded: Loaded,
    *,
    seed: int,
    ties_by: TieRule = TieRule.NAME,
    progress: Progress | None = None,
    observe: Callable[[int, Cluster], None] | None = None,
) -> ArrivalRun:
    """Let all pods arrive; `observe` is called after each with its number and the cluster."""
    cache = SchedulerCache(cluster_of(trace))
    cycles = {
        name: SchedulingCycle(Framework(profile, loaded.registry), cache.cluster)
        for name, profile in loaded.configuration.profiles.items()
    }
    choose = ties.chooser(ties_by, cache.cluster, generator(seed))
    demand = template_demand(trace)
    size = max(gpu_capacity(trace), 1)
    taken = arrived = 0
    arrivals, allocations = np.empty(len(trace)), np.empty(len(trace))
    nodes: list[str] = []
    for number, pod in enumerate(_pods(trace, cache.interner)):
        cycle = cycles.get(pod.shape.scheduler_name) or next(iter(cycles.values()))
        evaluation = cycle.evaluate(pod)
        if evaluation.failure is not None:
            raise UserError(f"{pod.key}: {', '.join(evaluation.failure.reasons)}", "correct the plugin that failed")
        row = choose(evaluation, pod)
        node = cache.cluster.nodes[row] if row >= 0 else None
        wants = int(demand[trace.template[number]])
        arrived += wants
        name = ""
        if node is not None and not isinstance(cycle.reserve(cache, evaluation, pod, node.name), FitError):
            taken += wants
            name = node.name
            cache.finish_binding(pod.uid)
        nodes.append(name)
        arrivals[number], allocations[number] = arrived, taken
        if observe is not None:
            observe(number, cache.cluster)
        if progress is not None and number % 256 == 0:
            progress(number, len(trace))
    placed = sum(map(bool, nodes))
    return ArrivalRun(
        arrived=arrivals * 100 / size,
        allocated=allocations * 100 / size,
        placed=placed,
        failed=len(nodes) - placed,
        nodes=tuple(nodes),
    )


def _pods(trace: Trace, interner: PodInterner) -> Iterator[PodInfo]:
    known = [interner.pod(document, keep=True) for document in trace.templates]
    for name, template in zip(trace.names, trace.template.tolist(), strict=True):
        yield _pod(known[template], name)
