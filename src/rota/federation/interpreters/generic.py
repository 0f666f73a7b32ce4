"""A reading of kinds for which there is no rule: by the scale subresource, observedGeneration and conditions.

Off unless the gate `GenericInterpretation` is on: upstream takes such kinds for opaque.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.federation.interpreters import merged_conditions, replicas, trees

Object: TypeAlias = Mapping[str, Any]

#: Conditions that say that an object does what it should, in the order of preference.
_GOOD: Final = ("Ready", "Available", "Healthy", "Succeeded", "Complete")
#: Members of a status that cannot be added up.
_NOT_COUNTED: Final = frozenset({"observedGeneration", "conditions"})


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind has its number of replicas."""

    spec: tuple[str, ...]
    status: tuple[str, ...]


def scale_paths(definition: Object, version: str) -> ScalePaths | None:
    """The paths of a CustomResourceDefinition's scale subresource."""
    for one in (definition.get("spec") or {}).get("versions") or ():
        scale = (one.get("subresources") or {}).get("scale")
        if one.get("name") == version and scale:
            spec, status = (tuple(str(scale.get(name) or "").strip(".").split(".")) for name in _PATHS)
            return ScalePaths(spec, status)
    return None


_PATHS: Final = ("specReplicasPath", "statusReplicasPath")


def replicas_of(obj: Object, paths: ScalePaths) -> tuple[int, dict[str, Any] | None]:
    """Replicas by the scale subresource, and requirements if there is a pod template at the usual place."""
    return int(trees.get(obj, *paths.spec) or 0), replicas.requirements(
        trees.get(obj, "spec", "template", "spec") or {}
    )


def revised(obj: Object, paths: ScalePaths, count: int) -> dict[str, Any]:
    """The object with another number of replicas."""
    new = trees.changed(obj)
    trees.put(new, count, *paths.spec)
    return new


def healthy(obj: Object) -> bool | None:
    """By generation and conditions; None if the object says nothing about itself."""
    status: Object = obj.get("status") or {}
    observed = status.get("observedGeneration")
    if observed is not None and int(observed) < int(trees.get(obj, "metadata", "generation") or 0):
        return False
    conditions = {one.get("type"): one.get("status") for one in status.get("conditions") or ()}
    if any(conditions.get(kind) == "True" for kind in merged_conditions.BAD):
        return False
    good = next((kind for kind in _GOOD if kind in conditions), None)
    return None if good is None else conditions[good] == "True"


def aggregated(obj: Object, items: Sequence[Object], now: str) -> dict[str, Any] | None:
    """Counters added up, what is equal everywhere kept, and conditions merged; None if no member reports anything."""
    reported = [item["status"] for item in items if item.get("status")]
    if not reported:
        return None
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for status in reported for name in status):
        values = [status.get(name) for status in reported]
        if name in _NOT_COUNTED:
            continue
        if all(value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in values):
            found[name] = sum(value or 0 for value in values)
        elif len(reported) == len(items) and all(value == values[0] for value in values):
            found[name] = values[0]
    conditions = merged_conditions.merged(items, now)
    return {**found, "conditions": conditions} if conditions else found
