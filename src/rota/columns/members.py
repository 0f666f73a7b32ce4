"""What batch scheduling reads of a pod beside its shape: its group, its age, its phase and its annotations.

Pods of one template differ in these fields, so they are not part of the shape. Only pods that name a group have such a
record.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

#: The annotations that name a pod's group; the first one counts.
GROUPS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
#: What the bytes of every pod with a group contain.
_MARK: Final = b'/group-name"'
#: The phases of a pod that has ended.
OVER: Final = frozenset({"Succeeded", "Failed"})


class GroupMember(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod as a member of its group."""

    #: The name of the group, "" without one.
    group: str = ""
    #: RFC 3339, or "".
    created: str = ""
    phase: str = ""
    leaving: bool = False
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    priority: int | None = None
    priority_class: str = ""
    #: When the pod got its node; RFC 3339, or "".
    scheduled_at: str = ""

    @property
    def over(self) -> bool:
        """Whether the pod has ended."""
        return self.phase in OVER


class _Meta(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None  # noqa: N815 - the wire's name
    deletionTimestamp: str | None = None  # noqa: N815


class _Spec(msgspec.Struct, gc=False):
    priority: int | None = None
    priorityClassName: str | None = None  # noqa: N815


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    lastTransitionTime: str | None = None  # noqa: N815


class _Status(msgspec.Struct, gc=False):
    phase: str | None = None
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_decode: Final = msgspec.json.Decoder(_Pod).decode


def of_document(pod: Mapping[str, Any]) -> GroupMember:
    """Read a pod from plain JSON data."""
    return _member(msgspec.convert(pod, _Pod))


def of_wire(raw: bytes) -> GroupMember | None:
    """Read a pod from JSON bytes; None if it names no group."""
    if _MARK not in raw:
        return None
    try:
        found = _member(_decode(raw))
    except msgspec.MsgspecError:
        return None
    return found if found.group else None


def _member(pod: _Pod) -> GroupMember:
    meta, spec, status = pod.metadata, pod.spec or _Spec(), pod.status or _Status()
    annotations = meta.annotations or {}
    return GroupMember(
        group=next((annotations[name] for name in GROUPS if annotations.get(name)), ""),
        created=meta.creationTimestamp or "",
        phase=status.phase or "",
        leaving=meta.deletionTimestamp is not None,
        annotations=annotations,
        priority=spec.priority,
        priority_class=spec.priorityClassName or "",
        scheduled_at=_scheduled(status.conditions or ()),
    )


def _scheduled(conditions: list[_Condition] | tuple[()]) -> str:
    for each in conditions:
        if each.type == "PodScheduled" and each.status == "True":
            return each.lastTransitionTime or ""
    return ""
