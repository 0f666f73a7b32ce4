"""Evictions from clusters with NoExecute taints that a placement does not tolerate, or not for longer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import meta, times
from rota.federation import bindings, tolerations
from rota.federation.clusters import Cluster
from rota.federation.failover import tasks
from rota.federation.gates import DEFAULT, Gates
from rota.federation.placement.triggers import APPLIED_PLACEMENT

Object: TypeAlias = Mapping[str, Any]

PRODUCER: Final = "TaintManager"
REASON: Final = "TaintUntolerated"
FOREVER: Final = -1.0


class NoPlacement(ValueError):
    """The binding has not been placed yet, so nothing is known about what it tolerates."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a cluster has to be left now, or else for how long its taints are tolerated (-1: for ever)."""

    evict: bool
    tolerated_s: float


def judge(binding: Object, cluster: Cluster, now: float, *, enabled: bool) -> Verdict:
    """Whether a binding has to leave a cluster, by the placement that was applied last."""
    applied = meta.annotations(binding).get(APPLIED_PLACEMENT)
    if not applied:
        raise NoPlacement("the applied placement of the binding must not be empty")
    try:
        placement: Object = msgspec.json.decode(applied) or {}
    except msgspec.DecodeError as error:
        raise NoPlacement(f"the applied placement of the binding cannot be read: {error}") from error
    taints = [taint for taint in cluster.taints if taint.get("effect") == tolerations.NO_EXECUTE]
    if not enabled or not taints:
        return Verdict(evict=False, tolerated_s=FOREVER)
    given = placement.get("clusterTolerations") or ()
    used = [next((one for one in given if tolerations.tolerates(one, taint)), None) for taint in taints]
    ends = []
    for toleration in used:
        if toleration is None:
            return Verdict(evict=True, tolerated_s=0)
        if toleration.get("tolerationSeconds") is None:
            continue
        ends += [
            times.parse(taint["timeAdded"]) + float(toleration["tolerationSeconds"])
            for taint in taints
            if taint.get("timeAdded") and tolerations.tolerates(toleration, taint)
        ]
    if not ends:
        return Verdict(evict=False, tolerated_s=FOREVER)
    remaining = min(ends) - now
    return Verdict(evict=remaining <= 0, tolerated_s=max(remaining, 0))


def evicted(binding: Object, cluster: str, default_mode: str, gates: Gates = DEFAULT) -> tasks.Spec:
    """The binding's spec after an eviction."""
    spec: Object = binding.get("spec") or {}
    of_cluster = (spec.get("failover") or {}).get("cluster")
    if of_cluster is not None:
        mode = of_cluster.get("purgeMode") or tasks.GRACEFULLY
    else:
        mode = tasks.DIRECTLY if default_mode == tasks.DIRECTLY else tasks.GRACEFULLY
    task: dict[str, Any] = {"purgeMode": mode, "reason": REASON, "producer": PRODUCER}
    rules = ((of_cluster or {}).get("statePreservation") or {}).get("rules") or ()
    if gates.stateful_failover_injection and rules:
        items = (binding.get("status") or {}).get("aggregatedStatus") or ()
        task["preservedLabelState"] = tasks.preserved_state(rules, items, cluster)
    return tasks.evicted(spec, cluster, task)


def concerns(binding: Object, cluster: str) -> bool:
    """Whether a binding has a cluster among its targets and is not being deleted."""
    return not meta.is_deleting(binding) and cluster in bindings.assigned(binding.get("spec") or {})
