"""Parts of an object's metadata and status that many places read and write: owners, finalizers, conditions.

Objects are plain wire objects. Functions that change something give back a new value and leave their argument
alone; times are arguments, already written out by `times`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Object: TypeAlias = Mapping[str, Any]
Condition: TypeAlias = Mapping[str, Any]


def metadata(obj: Object) -> Object:
    """The metadata; empty if there is none."""
    return obj.get("metadata") or {}


def name(obj: Object) -> str:
    """The name; empty if there is none."""
    return str(metadata(obj).get("name") or "")


def namespace(obj: Object) -> str:
    """The namespace; empty for cluster-scoped objects."""
    return str(metadata(obj).get("namespace") or "")


def uid(obj: Object) -> str:
    """The uid; empty before the object is created."""
    return str(metadata(obj).get("uid") or "")


def labels(obj: Object) -> Mapping[str, str]:
    """The labels; empty if there are none."""
    return metadata(obj).get("labels") or {}


def annotations(obj: Object) -> Mapping[str, str]:
    """The annotations; empty if there are none."""
    return metadata(obj).get("annotations") or {}


def is_deleting(obj: Object) -> bool:
    """Whether the object was deleted and only waits for finalizers or its grace period."""
    return metadata(obj).get("deletionTimestamp") is not None


def qualified_name(obj: Object) -> str:
    """`namespace/name`, or the name alone for cluster-scoped objects."""
    return f"{namespace(obj)}/{name(obj)}" if namespace(obj) else name(obj)


def owner_references(obj: Object) -> Sequence[Object]:
    """The owners of an object."""
    return metadata(obj).get("ownerReferences") or ()


def controller_of(obj: Object) -> Object | None:
    """The owner that manages the object, if there is one."""
    return next((one for one in owner_references(obj) if one.get("controller")), None)


def controller_reference(owner: Object) -> dict[str, Any]:
    """The reference by which an owner manages what it makes; the owner must carry its apiVersion and kind."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name(owner),
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def finalizers(obj: Object) -> Sequence[str]:
    """What must be done before the object goes."""
    return metadata(obj).get("finalizers") or ()


def conditions(obj: Object) -> Sequence[Condition]:
    """The conditions of the status."""
    return (obj.get("status") or {}).get("conditions") or ()


def condition(obj: Object, condition_type: str) -> Condition | None:
    """One condition by its type."""
    return next((one for one in conditions(obj) if one.get("type") == condition_type), None)


def is_condition_true(obj: Object, condition_type: str) -> bool:
    """Whether a condition is there and true."""
    found = condition(obj, condition_type)
    return found is not None and found.get("status") == "True"


def with_condition(present: Sequence[Condition], new: Condition, *, now: str) -> list[dict[str, Any]]:
    """The conditions with one set: `lastTransitionTime` becomes `now` only if the status changes.

    Whatever the former condition of this type held besides is kept unless `new` says otherwise.
    """
    replaced = [dict(one) for one in present]
    for position, old in enumerate(replaced):
        if old.get("type") == new["type"]:
            same = old.get("status") == new.get("status")
            since = old.get("lastTransitionTime") if same else None
            replaced[position] = {**old, **new, "lastTransitionTime": since or now}
            return replaced
    return [*replaced, {**new, "lastTransitionTime": now}]


def without_condition(present: Sequence[Condition], condition_type: str) -> list[dict[str, Any]]:
    """The conditions without those of a type."""
    return [dict(one) for one in present if one.get("type") != condition_type]
