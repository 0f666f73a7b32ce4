"""Taints that clusters get by their conditions: those of the control plane itself, and those of policies."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation import tolerations
from rota.federation.affinities import Affinity
from rota.federation.clusters import Cluster

Object: TypeAlias = Mapping[str, Any]
Taints: TypeAlias = list[dict[str, Any]]

NOT_READY: Final = {"key": "cluster.karmada.io/not-ready", "effect": tolerations.NO_SCHEDULE}
UNREACHABLE: Final = {"key": "cluster.karmada.io/unreachable", "effect": tolerations.NO_SCHEDULE}


def by_readiness(cluster: Object, now: str) -> Taints:
    """The taints of a cluster as its Ready condition wants them."""
    taints: Sequence[Object] = (cluster.get("spec") or {}).get("taints") or ()
    status = (meta.condition(cluster, "Ready") or {}).get("status")
    added: list[Object] = []
    removed: list[Object] = []
    if status == "False":
        added, removed = [NOT_READY], [UNREACHABLE]
    elif status == "Unknown":
        added, removed = [UNREACHABLE], [NOT_READY]
    elif status == "True":
        removed = [NOT_READY, UNREACHABLE]
    elif status is None:
        added = [NOT_READY]
    kept = [dict(taint) for taint in taints if not _has(removed, taint)]
    return kept + [{**taint, "timeAdded": now} for taint in added if not _has(taints, taint)]


def by_policies(cluster: Object, policies: Iterable[Object], now: str) -> Taints:
    """The taints of a cluster after all policies, the oldest first; what one adds, it or a later one may remove."""
    taints: Taints = [dict(taint) for taint in (cluster.get("spec") or {}).get("taints") or ()]
    read = Cluster(cluster)
    for policy in sorted(policies, key=lambda one: meta.metadata(one).get("creationTimestamp") or ""):
        spec: Object = policy.get("spec") or {}
        if spec.get("targetClusters") is not None and not Affinity(spec["targetClusters"]).matches(read):
            continue
        wanted = spec.get("taints") or ()
        if _all_true(cluster, spec.get("addOnConditions") or ()):
            for taint in wanted:
                if not _has(taints, taint):
                    taints.append({**taint, "timeAdded": now})
        if _all_true(cluster, spec.get("removeOnConditions") or ()):
            for taint in wanted:
                place = next((at for at, one in enumerate(taints) if _same(one, taint)), None)
                if place is not None:
                    del taints[place]
    return taints


def _same(left: Object, right: Object) -> bool:
    return (left.get("key") or "") == (right.get("key") or "") and left.get("effect") == right.get("effect")


def _has(taints: Iterable[Object], taint: Object) -> bool:
    return any(_same(one, taint) for one in taints)


def _all_true(cluster: Object, matches: Sequence[Object]) -> bool:
    """Whether all conditions are as wanted; no conditions at all are never met, nor is one that the cluster lacks."""
    return bool(matches) and all(_is_true(cluster, match) for match in matches)


def _is_true(cluster: Object, match: Object) -> bool:
    found = False
    for condition in meta.conditions(cluster):
        if condition.get("type") != match.get("conditionType"):
            continue
        listed = condition.get("status") in (match.get("statusValues") or ())
        operator = match.get("operator")
        if operator == "In":
            found = found or listed
        elif operator == "NotIn":
            found = not listed
        else:
            return False
    return found
