"""The categories `schedule`, `trigger` and `divide`."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rota.federation import gates
from rota.federation.clusters import Cluster
from rota.federation.placement import division, triggers
from rota.federation.placement.errors import NoClusterFits
from rota.federation.placement.fleet import Fleet, places
from rota.federation.placement.scheduler import Attempt, Outcome, Scheduler

Object: TypeAlias = Mapping[str, Any]


def _scheduled(scenario: Object) -> Outcome:
    fleet = Fleet(Cluster(obj) for obj in scenario["clusters"])
    options: Object = scenario.get("options") or {}
    scheduler = Scheduler(
        fleet,
        gates.from_names(scenario.get("featureGates")),
        keep_empty=bool(options.get("enableEmptyWorkloadPropagation")),
    )
    return scheduler.schedule(
        scenario["binding"], others=scenario.get("bindings") or (), estimates=scenario.get("estimates")
    )


def schedule(scenario: Object) -> dict[str, Any]:
    """One scheduling of a binding, with every attempt."""
    outcome = _scheduled(scenario)
    condition = {"status": "True" if outcome.scheduled else "False", "reason": outcome.reason}
    first = outcome.attempts[0].error if outcome.attempts else None
    if not isinstance(first, NoClusterFits) or outcome.scheduled or first.certain:
        condition["message"] = outcome.message
    with_terms = (scenario["binding"]["spec"].get("placement") or {}).get("clusterAffinities") is not None
    return {
        "clusters": _by_name(outcome.clusters),
        "condition": condition,
        "affinityName": outcome.affinity_name,
        "attempts": [_attempt(attempt, named=with_terms) for attempt in outcome.attempts],
    }


def _by_name(clusters: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    found = [{**target, "replicas": int(target.get("replicas") or 0)} for target in clusters]
    return sorted(found, key=lambda target: str(target.get("name", "")))


def _attempt(attempt: Attempt, *, named: bool) -> dict[str, Any]:
    names, request = attempt.context.fleet.names, attempt.context.request
    found: dict[str, Any] = {
        "feasible": sorted(names[place] for place in places(attempt.feasible)),
        "reasons": attempt.reasons(),
        "scores": {candidate.name: candidate.score for candidate in attempt.ranked},
        "error": None if attempt.error is None else str(attempt.error),
    }
    if isinstance(attempt.error, NoClusterFits) and not attempt.error.certain:
        found["error"] = "NoClusterFit"
    if attempt.ranked and (request.replicas or request.components):
        found["allocatable"] = {candidate.name: candidate.allocatable for candidate in attempt.ranked}
    if attempt.selected is not None:
        found["selected"] = [candidate.name for candidate in attempt.selected]
    if named:
        found["affinityName"] = attempt.context.observed
    return found


def trigger(scenario: Object) -> dict[str, Any]:
    """Whether the scheduler takes a binding and schedules it, and what it is afterwards."""
    binding: Object = scenario["binding"]
    terminating = {cluster.name for cluster in map(Cluster, scenario["clusters"]) if cluster.deleting}
    due = triggers.due(binding, terminating.__contains__, gates.from_names(scenario.get("featureGates")))
    observed = (binding.get("status") or {}).get("schedulerObservedGeneration") or 0
    generation = binding["metadata"].get("generation") or 0
    clusters: tuple[dict[str, Any], ...] = tuple(binding["spec"].get("clusters") or ())
    if not due:
        observed = generation
    else:
        outcome = _scheduled(scenario)
        clusters = outcome.clusters
        observed = generation if outcome.scheduled else observed
    return {
        "admitted": triggers.admitted(binding),
        "scheduled": due,
        "clusters": _by_name(clusters),
        "observedGeneration": observed,
    }


def divide(scenario: Object) -> dict[str, Any]:
    """An apportionment by weight."""
    found = division.divide(
        int(scenario["replicas"]),
        {one["name"]: int(one.get("replicas") or 0) for one in scenario["weights"]},
        {one["name"]: int(one.get("replicas") or 0) for one in scenario.get("initial") or ()},
        scenario.get("uid") or "",
    )
    return {"result": [{"name": name, "replicas": found[name]} for name in sorted(found)]}
