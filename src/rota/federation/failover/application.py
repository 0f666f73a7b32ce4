"""Evictions of applications that have been unhealthy in a cluster for longer than their policy tolerates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.federation import bindings
from rota.federation.failover import tasks
from rota.federation.gates import DEFAULT, Gates
from rota.federation.interpreters import native

Object: TypeAlias = Mapping[str, Any]

PRODUCER: Final = "resource-binding-application-failover-controller"
REASON: Final = "ApplicationFailure"


@dataclass(frozen=True, slots=True)
class Step:
    """The spec afterwards, since when clusters are unhealthy, when to look again (0: not), and what went wrong."""

    spec: tasks.Spec
    unhealthy_since: Mapping[str, float]
    retry_after_s: float = 0
    error: str | None = None


def step(binding: Object, unhealthy_since: Mapping[str, float], now: float, gates: Gates = DEFAULT) -> Step:
    """Look at a binding once."""
    spec: dict[str, Any] = dict(binding.get("spec") or {})
    behaviour = (spec.get("failover") or {}).get("application")
    items = (binding.get("status") or {}).get("aggregatedStatus") or ()
    if behaviour is None or not items or not spec.get("propagateDeps") or not _has_health(spec):
        return Step(spec, {})
    tolerated = float((behaviour.get("decisionConditions") or {}).get("tolerationSeconds") or 0)
    leaving = bindings.evicting(spec)
    known = dict(unhealthy_since)
    due: list[str] = []
    waits: list[float] = []
    for item in items:
        cluster = item.get("clusterName", "")
        if item.get("health") != "Unhealthy" or cluster in leaving:
            continue
        since = known.setdefault(cluster, now)
        if cluster in unhealthy_since and now > since + tolerated:
            due.append(cluster)
        else:
            waits.append(tolerated - int(now - since))
    before = [target.get("name", "") for target in bindings.targets(spec)]
    new: tasks.Spec = spec
    try:
        for cluster in due:
            new = tasks.evicted(new, cluster, _task(behaviour, items, cluster, before, gates))
    except tasks.StateNotKept as error:
        return Step(spec, known, error=str(error))
    remaining = set(before) - set(due)
    recovered = {item.get("clusterName") for item in items if item.get("health") in ("Healthy", "Unknown")}
    tracked = {name: since for name, since in known.items() if name in remaining and name not in recovered}
    return Step(new, tracked, min(waits, default=0))


def _has_health(spec: Object) -> bool:
    return native.kind_of(spec.get("resource") or {}) in native.HEALTH


def _task(behaviour: Object, items: Any, cluster: str, before: list[str], gates: Gates) -> dict[str, Any]:
    mode = behaviour.get("purgeMode") or ""
    task: dict[str, Any] = {"purgeMode": mode, "reason": REASON, "producer": PRODUCER}
    rules = (behaviour.get("statePreservation") or {}).get("rules") or ()
    if gates.stateful_failover_injection and rules:
        task["preservedLabelState"] = tasks.preserved_state(rules, items, cluster)
        task["clustersBeforeFailover"] = before
    if mode in (tasks.GRACEFULLY, "Graciously"):
        task["gracePeriodSeconds"] = behaviour.get("gracePeriodSeconds")
    elif mode == tasks.NEVER:
        task["suppressDeletion"] = True
    return task
