"""Replicas that a cluster cannot schedule are taken back, so that the scheduler places them elsewhere."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from rota.api import meta
from rota.federation import bindings
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


def _ready(binding: Object) -> dict[str, int]:
    """Ready replicas of the clusters that report them."""
    return {
        item.get("clusterName", ""): int(item["status"]["readyReplicas"])
        for item in (binding.get("status") or {}).get("aggregatedStatus") or ()
        if (item.get("status") or {}).get("readyReplicas") is not None
    }
