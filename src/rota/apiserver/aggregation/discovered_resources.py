"""The resources of another server in the aggregated form of discovery, from its plain list of them. Pure.

What does not have its type is left out: the document has the groups of all servers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rota.api.identifiers import GroupVersion


def discovered(at: GroupVersion, listed: Mapping[str, Any] | None, *, fresh: bool) -> dict[str, Any]:
    """A group version of the aggregated form; what was `listed` last stays there while its server does not answer."""
    resources: dict[str, dict[str, Any]] = {}
    for one in _entries(listed):
        plural, _, part = one["name"].partition("/")
        if not part:
            resources[plural] = _resource(at, one)
    for one in _entries(listed):
        plural, _, part = one["name"].partition("/")
        if part and plural in resources:
            resources[plural].setdefault("subresources", []).append(
                {"subresource": part, "responseKind": _kind(at, one), "verbs": _texts(one.get("verbs"))}
            )
    freshness = "Current" if fresh else "Stale"
    return {"version": at.version, "resources": list(resources.values()), "freshness": freshness}


def _entries(listed: Mapping[str, Any] | None) -> Iterable[Mapping[str, Any]]:
    found = (listed or {}).get("resources")
    if not isinstance(found, list):
        return ()
    return [one for one in found if isinstance(one, dict) and isinstance(one.get("name"), str) and one["name"]]


def _resource(at: GroupVersion, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "resource": one["name"],
        "responseKind": _kind(at, one),
        "scope": "Namespaced" if one.get("namespaced") else "Cluster",
        "singularResource": str(one.get("singularName") or ""),
        "verbs": _texts(one.get("verbs")),
        **{name: found for name in ("shortNames", "categories") if (found := _texts(one.get(name)))},
    }


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _kind(at: GroupVersion, one: Mapping[str, Any]) -> dict[str, str]:
    group, version = one.get("group") or at.group, one.get("version") or at.version
    return {"group": str(group), "version": str(version), "kind": str(one.get("kind") or "")}
