"""Which remedies a cluster's conditions call for."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from rota.api import meta

Object: TypeAlias = Mapping[str, Any]


def actions(cluster: Object, remedies: Iterable[Object]) -> list[str]:
    """The actions of all remedies that are for the cluster and whose conditions it meets, each once, sorted."""
    found: set[str] = set()
    for remedy in remedies:
        spec: Object = remedy.get("spec") or {}
        affinity = spec.get("clusterAffinity")
        if affinity is not None and meta.name(cluster) not in (affinity.get("clusterNames") or ()):
            continue
        if _is_called_for(cluster, spec.get("decisionMatches")):
            found.update(spec.get("actions") or ())
    return sorted(found)


def _is_called_for(cluster: Object, matches: Iterable[Object] | None) -> bool:
    """Whether one of the matches is met; without a list every cluster is meant."""
    if matches is None:
        return True
    for match in matches:
        wanted = match.get("clusterConditionMatch")
        condition = None if wanted is None else meta.condition(cluster, wanted.get("conditionType", ""))
        if wanted is None or condition is None:
            continue
        same = wanted.get("conditionStatus") == condition.get("status")
        if (wanted.get("operator") == "Equal" and same) or (wanted.get("operator") == "NotEqual" and not same):
            return True
    return False
