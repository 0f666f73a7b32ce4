"""Capacity that is not of nodes, such as free addresses of a pool: where a CapacitySource says that it is read.

The sum over the objects of a member becomes a resource of the cluster's summary, and workloads that the source selects
request it, so that estimation counts it like every other resource.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from rota.api import meta, quantities, selectors

Object: TypeAlias = Mapping[str, Any]

PREFIX: Final = "capacity.federation.rota.dev/"


def resource(source: Object) -> str:
    """The name of the resource that a source stands for."""
    return PREFIX + meta.name(source)


def kind(source: Object) -> tuple[str, str]:
    """The apiVersion and kind of the objects that hold the capacity."""
    objects: Object = (source.get("spec") or {}).get("objects") or {}
    return objects.get("apiVersion") or "", objects.get("kind") or ""


def amounts(source: Object, listed: Iterable[Object]) -> tuple[int, int]:
    """The total and the free amount of the objects that count; an object without a number counts as none."""
    spec: Object = source.get("spec") or {}
    objects: Object = spec.get("objects") or {}
    selector = selectors.from_object(objects.get("labelSelector") or {})
    total = free = 0
    for obj in listed:
        if objects.get("namespace") and meta.namespace(obj) != objects["namespace"]:
            continue
        if meta.is_deleting(obj) or not selector.matches(meta.labels(obj)):
            continue
        size = _number(obj, spec.get("totalPath"))
        left = _number(obj, spec.get("freePath")) if spec.get("freePath") else size - _number(obj, spec.get("usedPath"))
        total += size
        free += max(min(left, size), 0)
    return total, free


def _number(obj: Object, path: str | None) -> int:
    value: Any = obj
    for step in (path or "").strip(".").split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, list | tuple | Mapping):
        return len(value)
    try:
        return quantities.from_wire(value).value() if value is not None else 0
    except (ValueError, TypeError):
        return 0


def requested(sources: Iterable[Object], template: Object) -> dict[str, str]:
    """What one replica of a workload takes of each source that selects it."""
    pod: Object = ((template.get("spec") or {}).get("template") or {}).get("metadata") or {}
    labels = {**meta.labels(template), **(pod.get("labels") or {})}
    found = {}
    for source in sources:
        workloads: Object = (source.get("spec") or {}).get("workloads") or {}
        if selectors.from_object(workloads.get("labelSelector") or {}).matches(labels):
            found[resource(source)] = str((source.get("spec") or {}).get("perReplica") or 1)
    return found
