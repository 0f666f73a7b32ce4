"""Accessors for the spec of a ResourceBinding, and small changes of it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rota.api import times

Spec: TypeAlias = Mapping[str, Any]
#: A cluster with its replicas, as in `spec.clusters`.
Target: TypeAlias = dict[str, Any]

DUPLICATED = "Duplicated"
DIVIDED = "Divided"
AGGREGATED = "Aggregated"
WEIGHTED = "Weighted"


def replicas(spec: Spec) -> int:
    """The desired number of replicas in all clusters."""
    return int(spec.get("replicas") or 0)


def targets(spec: Spec) -> Sequence[Mapping[str, Any]]:
    """The clusters that the scheduler chose."""
    return spec.get("clusters") or ()


def assigned(spec: Spec) -> dict[str, int]:
    """The replicas of each target cluster; of a name that stands twice the first counts."""
    found: dict[str, int] = {}
    for target in targets(spec):
        found.setdefault(target.get("name", ""), int(target.get("replicas") or 0))
    return found


def is_workload(spec: Spec) -> bool:
    """Whether the resource runs pods."""
    return bool(replicas(spec) > 0 or spec.get("replicaRequirements") is not None or spec.get("components"))


def scheduling_type(placement: Mapping[str, Any]) -> str:
    """Duplicated (the default) or Divided."""
    strategy = placement.get("replicaScheduling")
    return DUPLICATED if strategy is None else strategy.get("replicaSchedulingType") or ""


def evicting(spec: Spec) -> set[str]:
    """The clusters that the resource is being moved out of."""
    return {task.get("fromCluster", "") for task in spec.get("gracefulEvictionTasks") or ()}


def reschedule_requested(spec: Spec, status: Mapping[str, Any]) -> bool:
    """Whether a fresh placement was asked for since the last one; a binding that never had one is not concerned."""
    asked, last = spec.get("rescheduleTriggeredAt"), status.get("lastScheduledTime")
    return bool(asked and last and times.parse(asked) > times.parse(last))


def sum_of_replicas(clusters: Sequence[Mapping[str, Any]]) -> int:
    """All replicas that clusters have together."""
    return sum(int(target.get("replicas") or 0) for target in clusters)
