"""Aggregated ClusterRoles: the rules of all roles that their selectors choose. Pure.

The API server fills its default roles in this way when it starts, and a controller keeps every aggregated role so.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rota.api import meta, selectors


def aggregated_rules(role: Mapping[str, Any], among: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rules that an aggregated role should have: selector by selector, roles by name, no rule twice."""
    chosen: list[dict[str, Any]] = []
    ordered = sorted(among, key=meta.name)
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        matching = selectors.from_object(selector)
        for other in ordered:
            if meta.name(other) != meta.name(role) and matching.matches(meta.labels(other)):
                chosen += [rule for rule in other.get("rules") or () if rule not in chosen]
    return chosen
