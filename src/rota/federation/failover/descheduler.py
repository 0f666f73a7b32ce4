"""Replicas that a cluster cannot schedule are taken back and placed elsewhere.

The summary of a cluster counts resources, not which nodes a pod may use. After its replicas were taken back the cluster
looks free again, and an ordinary scheduling would return them to it. So the new placement is made here, with the
clusters that could not schedule replicas granting none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from rota.api import meta
from rota.federation import bindings
from rota.federation.placement.scheduler import Scheduler
from rota.federation.placement.triggers import APPLIED_PLACEMENT

Object: TypeAlias = Mapping[str, Any]


def considered(binding: Object) -> bool:
    """Whether a binding is looked at: a Deployment that is divided by what clusters have free."""
    resource = (binding.get("spec") or {}).get("resource") or {}
    if (resource.get("apiVersion"), resource.get("kind")) != ("apps/v1", "Deployment"):
        return False
    try:
        placement = msgspec.json.decode(meta.annotations(binding).get(APPLIED_PLACEMENT) or "null")
    except msgspec.DecodeError:
        return False
    strategy = (placement or {}).get("replicaScheduling")
    if strategy is None or strategy.get("replicaSchedulingType") != bindings.DIVIDED:
        return False
    if strategy.get("replicaDivisionPreference") == bindings.AGGREGATED:
        return True
    return strategy.get("replicaDivisionPreference") == bindings.WEIGHTED and bool(
        (strategy.get("weightPreference") or {}).get("dynamicWeight")
    )


def reduced(binding: Object, unschedulable: Mapping[str, int]) -> list[dict[str, Any]]:
    """The targets, each without the replicas that its cluster cannot schedule but with all that are ready there."""
    ready = _ready(binding)
    found = []
    for target in bindings.targets(binding.get("spec") or {}):
        name, wanted = target.get("name", ""), int(target.get("replicas") or 0)
        running = ready.get(name, -1)
        stuck = unschedulable.get(name, -1) if running < wanted else 0
        count = wanted
        if 0 < stuck <= wanted:
            count = wanted - stuck
            if count < running <= wanted:
                count = running
        found.append({**target, "replicas": count})
    return found


def moved(
    binding: Object, unschedulable: Mapping[str, int], scheduler: Scheduler, others: Sequence[Object] = ()
) -> list[bindings.Target] | None:
    """The targets with all replicas placed where they can run; None if no other cluster has room for them."""
    spec = {**(binding.get("spec") or {}), "clusters": reduced(binding, unschedulable)}
    none_more = {name: 0 for name, count in unschedulable.items() if count > 0}
    outcome = scheduler.schedule({**binding, "spec": spec}, others=others, estimates=none_more)
    return list(outcome.clusters) if outcome.scheduled else None


def _ready(binding: Object) -> dict[str, int]:
    """Ready replicas of the clusters that report them."""
    return {
        item.get("clusterName", ""): int(item["status"]["readyReplicas"])
        for item in (binding.get("status") or {}).get("aggregatedStatus") or ()
        if (item.get("status") or {}).get("readyReplicas") is not None
    }
