"""The category `evict`: evictions, taints, and the health of clusters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import times
from rota.federation import gates
from rota.federation.clusters import Cluster
from rota.federation.failover import (
    application,
    cluster_health,
    cluster_taints,
    descheduler,
    graceful,
    remedies,
    taint_evictions,
    tasks,
)

Object: TypeAlias = Mapping[str, Any]


def evict(scenario: Object) -> dict[str, Any]:
    """One decision of the kind that the scenario names."""
    kind = _KINDS.get(scenario["kind"])
    if kind is None:
        raise ValueError(f"the kind {scenario['kind']!r} is not known; use one of {', '.join(_KINDS)}")
    return kind(scenario)


def _clusters(spec: Object) -> list[dict[str, Any]]:
    return [{**target, "replicas": int(target.get("replicas") or 0)} for target in spec.get("clusters") or ()]


def _graceful(scenario: Object) -> dict[str, Any]:
    found = graceful.assess(scenario["binding"], times.parse(scenario["now"]), float(scenario["timeoutSeconds"]))
    return {"kept": list(found.kept), "evicted": list(found.cleared), "retryAfterSeconds": _whole(found.retry_after_s)}


def _whole(seconds: float) -> float:
    return int(seconds) if seconds == int(seconds) else seconds


def _taint(scenario: Object) -> dict[str, Any]:
    binding, cluster = scenario["binding"], Cluster(scenario["cluster"])
    spec: Object = binding.get("spec") or {}
    found: dict[str, Any] = {"evict": False, "tolerationSeconds": -1}
    try:
        verdict = taint_evictions.judge(
            binding, cluster, times.parse(scenario["now"]), enabled=bool(scenario.get("enabled"))
        )
        found = {"evict": verdict.evict, "tolerationSeconds": _whole(verdict.tolerated_s)}
        if verdict.evict and taint_evictions.concerns(binding, cluster.name):
            on = gates.from_names(scenario.get("featureGates"))
            spec = taint_evictions.evicted(binding, cluster.name, scenario.get("purgeMode") or "", on)
    except taint_evictions.NoPlacement as error:
        found |= {"error": str(error), "syncError": str(error)}
    except tasks.StateNotKept as error:
        found["syncError"] = str(error)
    return found | {"clusters": _clusters(spec), "tasks": list(spec.get("gracefulEvictionTasks") or ())}


def _application(scenario: Object) -> dict[str, Any]:
    since = {name: times.parse(when) for name, when in (scenario.get("unhealthySince") or {}).items()}
    on = gates.from_names(scenario.get("featureGates"))
    found = application.step(scenario["binding"], since, times.parse(scenario["now"]), on)
    return {
        "clusters": _clusters(found.spec),
        "tasks": list(found.spec.get("gracefulEvictionTasks") or ()),
        "retryAfterSeconds": _whole(found.retry_after_s),
        "tracked": sorted(found.unhealthy_since),
        "error": found.error,
    }


def _without_times(taints: Sequence[Object]) -> list[dict[str, Any]]:
    return [{name: value for name, value in taint.items() if name != "timeAdded" and value} for taint in taints]


def _cluster_taint_policy(scenario: Object) -> dict[str, Any]:
    return {"taints": _without_times(cluster_taints.by_policies(scenario["cluster"], scenario["policies"], ""))}


def _condition(scenario: Object) -> dict[str, Any]:
    return {"taints": _without_times(cluster_taints.by_readiness(scenario["cluster"], ""))}


def _remedy(scenario: Object) -> dict[str, Any]:
    return {"actions": remedies.actions(scenario["cluster"], scenario["remedies"])}


def _deschedule(scenario: Object) -> dict[str, Any]:
    binding: Object = scenario["binding"]
    looked_at = descheduler.considered(binding)
    reduced = descheduler.reduced(binding, scenario.get("unschedulable") or {}) if looked_at else None
    return {
        "considered": looked_at,
        "clusters": _clusters({"clusters": reduced} if reduced is not None else binding.get("spec") or {}),
    }


def _threshold(scenario: Object) -> dict[str, Any]:
    threshold = cluster_health.Threshold(float(scenario["successSeconds"]), float(scenario["failureSeconds"]))
    current: str | None = None
    found = []
    for observation in scenario["observations"]:
        current = threshold.published(current, observation["status"], float(observation["at"]))
        found.append(current)
    return {"statuses": found}


def _lease(scenario: Object) -> dict[str, Any]:
    monitor = cluster_health.Monitor(0, float(scenario["graceSeconds"]), float(scenario["startupGraceSeconds"]))
    ready: cluster_health.Condition | None = None
    renewed: float | None = None
    found = []
    for step in scenario["steps"]:
        now = float(step["at"])
        if step.get("lease") is not None:
            renewed = now
        if step.get("ready") is not None:
            ready = cluster_health.Condition(step["ready"])
        ready = monitor.check(ready, renewed, now, pushed=scenario.get("syncMode") == "Push")
        found.append("" if ready is None else ready.status)
    return {"statuses": found}


_KINDS: Final[Mapping[str, Callable[[Object], dict[str, Any]]]] = {
    "graceful": _graceful,
    "taint": _taint,
    "application": _application,
    "clustertaintpolicy": _cluster_taint_policy,
    "condition": _condition,
    "remedy": _remedy,
    "deschedule": _deschedule,
    "threshold": _threshold,
    "lease": _lease,
}
