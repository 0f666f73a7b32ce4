"""Reconciles an existing default role or binding when a server starts. Pure.

As upstream: missing rules and subjects are added, additional ones stay, and an object with the annotation
autoupdate=false is left alone. A binding to another role than it should have is replaced, since a roleRef is immutable.
"""

from collections.abc import Mapping
from typing import Any

from rota.api import meta
from rota.apiserver.authorization import rules
from rota.apiserver.authorization.policy.objects import AUTO_UPDATE
from rota.apiserver.interfaces import Object


def reconciled(expected: Object, existing: Object) -> Object | None:
    """The object as it should be stored; None if it needs no change."""
    if meta.annotations(existing).get(AUTO_UPDATE) == "false":
        return None
    metadata = {**existing["metadata"]}
    for part in ("labels", "annotations"):
        metadata[part] = {**expected["metadata"][part], **(metadata.get(part) or {})}
    content = _binding(expected, existing) if "roleRef" in expected else _role(expected, existing)
    new = {**existing, **content, "metadata": metadata}
    return None if new == existing else new


def _role(expected: Object, existing: Object) -> Object:
    if "aggregationRule" in expected:
        return {"aggregationRule": _aggregation(expected["aggregationRule"], existing.get("aggregationRule") or {})}
    missing = rules.uncovered(rules.from_role(existing), rules.from_role(expected))
    if not missing:
        return {}
    return {"rules": [*(existing.get("rules") or ()), *(rule.to_wire() for rule in rules.joined(missing))]}


def _aggregation(expected: Mapping[str, Any], existing: Mapping[str, Any]) -> Object:
    present = existing.get("clusterRoleSelectors") or []
    return {
        "clusterRoleSelectors": [*present, *(one for one in expected["clusterRoleSelectors"] if one not in present)]
    }


def _binding(expected: Object, existing: Object) -> Object:
    if existing.get("roleRef") != expected["roleRef"]:
        return {"roleRef": expected["roleRef"], "subjects": expected.get("subjects") or []}
    present = existing.get("subjects") or []
    missing = [one for one in expected.get("subjects") or () if one not in present]
    return {"subjects": [*present, *missing]} if missing else {}
