"""Benchmark of the scheduling queue: pods are added, popped, returned and activated, with very many of them in the
queue.

The reference is a bare heap: the same pods are pushed and popped. No store is used. Rates are per second of
processor time, which depends less on other load.
"""

import gc
import heapq
import time
from collections.abc import Callable, Iterable

from rota.bench.report import Result, median, rate
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Resource
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.queue.scheduling_queue import SchedulingQueue

PODS = 10_000
TEMPLATES = 10
ROUNDS = 5
AGAINST = "a bare heap, in and out"
#: The plugins that reject most pods that wait for long.
REJECTORS = frozenset({"NodeResourcesFit", "NodeAffinity"})
POD_DELETED = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
CLASS_ADDED = ClusterEvent(Resource.STORAGE_CLASS, Action.ADD)


def measure(*, store_url: str = "", quick: bool = False) -> list[Result]:
    """Measure the queue; see `rota bench`."""
    loaded = third_party.default(builtin.registry())
    profile = loaded.configuration.first
    framework = Framework(profile, loaded.registry)
    pods = list(_pods())
    rounds = [_round(framework, pods) for _ in range(2 if quick else ROUNDS)]
    reference = median([_bare(pods) for _ in rounds])
    return [
        rate(f"{step}, {PODS:,} pods", median([steps[step] for steps in rounds]), reference, against=AGAINST)
        for step in rounds[0]
    ]


def _round(framework: Framework, pods: list[PodInfo]) -> dict[str, float]:
    queue = SchedulingQueue({framework.profile_name: framework})
    deleted = PodInterner().pod(_manifest("deleted", 0) | {"spec": {"containers": [], "nodeName": "n"}})

    def add() -> None:
        for pod in pods:
            queue.add(pod, 0.0)

    def take_out() -> None:
        while queue.pop(1.0) is not None:
            pass

    def put_back() -> None:
        for pod in pods:
            queue.requeue(pod.uid, now=1.0, unschedulable_plugins=REJECTORS)

    def finish() -> None:
        while (queued := queue.pop(20.0)) is not None:
            queue.done(queued.pod.uid)
            queue.delete(queued.pod.uid)

    return {
        "added": _per_s(add),
        "taken out": _per_s(take_out),
        "put back as unschedulable": _per_s(put_back),
        "not woken by an event": _per_s(lambda: queue.move(CLASS_ADDED, None, None, now=2.0)),
        "woken by an event": _per_s(lambda: queue.move(POD_DELETED, deleted, None, now=20.0)),
        "taken out, bound and gone": _per_s(finish),
    }


def _bare(pods: list[PodInfo]) -> float:
    def in_and_out() -> None:
        heap: list[tuple[int, int, PodInfo]] = []
        for turn, pod in enumerate(pods):
            heapq.heappush(heap, (-pod.priority, turn, pod))
        while heap:
            heapq.heappop(heap)

    return _per_s(in_and_out)


def _per_s(work: Callable[[], object]) -> float:
    gc.disable()
    try:
        start = time.process_time()
        work()
        return PODS / max(time.process_time() - start, 1e-9)
    finally:
        gc.enable()


def _pods() -> Iterable[PodInfo]:
    interner = PodInterner()
    return (interner.pod(_manifest(f"pod-{number}", number % TEMPLATES)) for number in range(PODS))


def _manifest(name: str, template: int) -> dict[str, object]:
    container = {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": str(template)}},
        "spec": {"containers": [container], "nodeSelector": {"disk": "ssd"}},
    }
