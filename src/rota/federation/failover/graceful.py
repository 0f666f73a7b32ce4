"""When a graceful eviction is over: the resource is healthy elsewhere, or its time has passed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rota.api import times

Object: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Assessment:
    """Tasks that go on, clusters that are cleared now, and when to look again (0: not before something changes)."""

    kept: tuple[dict[str, Any], ...]
    cleared: tuple[str, ...]
    retry_after_s: float


def assess(binding: Object, now: float, timeout_s: float) -> Assessment:
    """Judge all eviction tasks of a binding."""
    spec, status = binding.get("spec") or {}, binding.get("status") or {}
    generation = (binding.get("metadata") or {}).get("generation") or 0
    # The scheduler has seen the binding as it is, so that its result takes the eviction into account.
    settled = (status.get("schedulerObservedGeneration") or 0) == generation and _all_healthy(spec, status)
    kept: list[dict[str, Any]] = []
    cleared: list[str] = []
    for task in spec.get("gracefulEvictionTasks") or ():
        if not task.get("creationTimestamp"):
            kept.append({**task, "creationTimestamp": times.format_time(now)})
        elif _goes_on(task, now, timeout_s, settled=settled):
            kept.append(dict(task))
        else:
            cleared.append(task.get("fromCluster", ""))
    return Assessment(tuple(kept), tuple(cleared), _retry(kept, now, timeout_s))


def _all_healthy(spec: Object, status: Object) -> bool:
    health: dict[str | None, str | None] = {}
    for item in status.get("aggregatedStatus") or ():
        health.setdefault(item.get("clusterName"), item.get("health"))
    return all(health.get(target.get("name")) == "Healthy" for target in spec.get("clusters") or ())


def _goes_on(task: Object, now: float, timeout_s: float, *, settled: bool) -> bool:
    if task.get("suppressDeletion") is not None:
        return bool(task["suppressDeletion"])
    return now <= _end(task, timeout_s) and not settled


def _end(task: Object, timeout_s: float) -> float:
    grace = task.get("gracePeriodSeconds")
    return times.parse(task["creationTimestamp"]) + (timeout_s if grace is None else float(grace))


def _retry(kept: Sequence[Object], now: float, timeout_s: float) -> float:
    waiting = [_end(task, timeout_s) - now for task in kept if task.get("suppressDeletion") is None]
    return min(waiting, default=0)
