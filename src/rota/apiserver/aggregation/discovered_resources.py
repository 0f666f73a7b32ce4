"""The resources of another server in the aggregated form of discovery, from its plain list of them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from rota.api.identifiers import GroupVersion


def discovered(at: GroupVersion, listed: Mapping[str, Any] | None, *, fresh: bool) -> dict[str, Any]:
    """A group version of the aggregated form; what was `listed` last stays there while its server does not answer."""
    resources: dict[str, dict[str, Any]] = {}
    for one in _entries(listed):
        plural, _, part = str(one["name"]).partition("/")
        if not part:
            resources[plural] = _resource(at, one)
    for one in _entries(listed):
        plural, _, part = str(one["name"]).partition("/")
        if part and plural in resources:
            resources[plural].setdefault("subresources", []).append(
                {"subresource": part, "responseKind": _kind(at, one), "verbs": list(one.get("verbs") or ())}
            )
    freshness = "Current" if fresh else "Stale"
    return {"version": at.version, "resources": list(resources.values()), "freshness": freshness}


def _entries(listed: Mapping[str, Any] | None) -> Iterable[Mapping[str, Any]]:
    found = (listed or {}).get("resources")
    return [one for one in found or () if isinstance(one, dict) and one.get("name")] if isinstance(found, list) else ()


def _resource(at: GroupVersion, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "resource": one["name"],
        "responseKind": _kind(at, one),
        "scope": "Namespaced" if one.get("namespaced") else "Cluster",
        "singularResource": one.get("singularName") or "",
        "verbs": list(one.get("verbs") or ()),
        **{name: list(one[name]) for name in ("shortNames", "categories") if one.get(name)},
    }


def _kind(at: GroupVersion, one: Mapping[str, Any]) -> dict[str, str]:
    group, version = one.get("group") or at.group, one.get("version") or at.version
    return {"group": str(group), "version": str(version), "kind": str(one.get("kind") or "")}
