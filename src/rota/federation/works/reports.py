"""What member clusters report about a binding's resource, collected from its Works."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import meta
from rota.federation import object_names

Object: TypeAlias = Mapping[str, Any]

FULLY_APPLIED: Final = ("FullyAppliedSuccess", "All works have been successfully applied")
NOT_FULLY_APPLIED: Final = (
    "FullyAppliedFailed",
    "Failed to apply all works, see status.aggregatedStatus for details",
)
#: The largest status of one cluster; a hundred of them fit in a binding if most are small.
LARGEST_BYTES: Final = 64 * 1024
_DIRECT: Final = frozenset({"Directly", "Immediately"})


class CannotCollect(ValueError):
    """A Work does not carry the binding's resource, or is in a namespace of no cluster."""


def collect(works: Iterable[Object], reference: Object) -> list[dict[str, Any]]:
    """One item for each cluster, by its name; Works that are being deleted do not count."""
    found = [_item(work, reference) for work in works if not meta.is_deleting(work)]
    return sorted(found, key=lambda item: str(item["clusterName"]))


def _item(work: Object, reference: Object) -> dict[str, Any]:
    ordinal = _ordinal(work, reference)
    cluster = object_names.cluster_of(meta.namespace(work))
    if cluster is None:
        raise CannotCollect(f"Work {meta.qualified_name(work)} is not in the namespace of a cluster")
    condition = meta.condition(work, "Applied") or {}
    item: dict[str, Any] = {"clusterName": cluster, "health": "Unknown"}
    if condition.get("status") != "True":
        if condition.get("message"):
            item["appliedMessage"] = condition["message"]
        return item
    item["applied"] = True
    for reported in (work.get("status") or {}).get("manifestStatuses") or ():
        if _is_about(reported.get("identifier") or {}, ordinal, reference):
            item["status"] = reported.get("status")
            item["health"] = reported.get("health") or ""
            break
    return {name: value for name, value in item.items() if value is not None and value != ""}


def oversized(item: Object) -> str | None:
    """Why the status of an item is too large to be kept beside those of other clusters; None if it is not."""
    size = len(msgspec.json.encode(item.get("status")))
    return f"it has {size} bytes, and {LARGEST_BYTES} are allowed" if size > LARGEST_BYTES else None


def without_status(item: Object, why: str) -> dict[str, Any]:
    """An item whose status cannot be used: its health is unknown, with the reason."""
    kept = {name: value for name, value in item.items() if name != "status"}
    return {**kept, "health": "Unknown", "appliedMessage": f"the reported status cannot be used: {why}"[:1024]}


def _ordinal(work: Object, reference: Object) -> int:
    manifests = ((work.get("spec") or {}).get("workload") or {}).get("manifests") or ()
    for place, manifest in enumerate(manifests):
        if (
            manifest.get("apiVersion") == reference.get("apiVersion")
            and manifest.get("kind") == reference.get("kind")
            and meta.namespace(manifest) == (reference.get("namespace") or "")
            and meta.name(manifest) == reference.get("name")
        ):
            return place
    raise CannotCollect(
        f"Work {meta.qualified_name(work)} does not carry {reference.get('kind')} {reference.get('name')}"
    )


def _is_about(identifier: Object, ordinal: int, reference: Object) -> bool:
    group, _, version = (reference.get("apiVersion") or "").rpartition("/")
    return (
        int(identifier.get("ordinal") or 0) == ordinal
        and (identifier.get("group") or "") == group
        and identifier.get("version") == version
        and identifier.get("kind") == reference.get("kind")
        and (identifier.get("namespace") or "") == (reference.get("namespace") or "")
        and identifier.get("name") == reference.get("name")
    )


def existing_clusters(spec: Object) -> set[str]:
    """The clusters that should have the resource: targets, those of dependents, and those it leaves gracefully."""
    found = {target.get("name", "") for target in spec.get("clusters") or ()}
    for snapshot in spec.get("requiredBy") or ():
        found |= {target.get("name", "") for target in snapshot.get("clusters") or ()}
    for task in spec.get("gracefulEvictionTasks") or ():
        if task.get("purgeMode") not in _DIRECT:
            found.add(task.get("fromCluster", ""))
    return found


def directly_left(spec: Object) -> set[str]:
    """The clusters that have to give up the resource before others get it."""
    tasks = spec.get("gracefulEvictionTasks") or ()
    return {task.get("fromCluster", "") for task in tasks if task.get("purgeMode") in _DIRECT}


def fully_applied(spec: Object, items: Iterable[Object]) -> bool:
    """Whether every cluster that should have the resource has it, and no other."""
    expected, reported = existing_clusters(spec), list(items)
    return (
        bool(expected)
        and len(expected) == len(reported)
        and all(item.get("applied") and item.get("clusterName") in expected for item in reported)
    )
