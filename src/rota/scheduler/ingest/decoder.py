"""Decodes API objects into what the scheduler keeps of them. Never raises: an object that cannot be decoded is a value.

Of a pod only the fields that placement reads are kept. Pods without a node, and nodes, keep their whole documents as
well, for extenders and plugins. An object that cannot be decoded is `Unreadable` with the path of the error, so that it
is reported for this object and does not delay others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from rota.columns import members, objects
from rota.columns.members import GroupMember
from rota.columns.objects import MalformedObjectError
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.scheduler.ingest import related_objects
from rota.scheduler.ingest.shape_cache import ShapeCache

Document = Mapping[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """An object that cannot be decoded."""

    #: The fields that an event about it needs.
    reference: Document
    problem: str
    #: Of a pod: its scheduler and its node.
    scheduler_name: str = ""
    node_name: str = ""


class Ended:
    """A pod that has ended: it uses no resources of a node and is not scheduled again."""


class EndedMember(Ended):
    """An ended pod of a group, which counts for the group's minimum and progress."""

    __slots__ = ("info", "member")

    def __init__(self, info: PodInfo, member: GroupMember) -> None:
        self.info: Final = info
        self.member: Final = member


ENDED: Final = Ended()
#: The phase as it is written in a pod; inside a string its quotes would be escaped.
_PHASES: Final = (b'"phase":"Succeeded"', b'"phase":"Failed"')


class NodeRecord(NamedTuple):
    """A node as placement sees it, and its whole document."""

    view: objects.Node
    raw: bytes


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _Metadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class NodeReport(msgspec.Struct, frozen=True):
    """Fields of a node that placement does not read but plugins may subscribe to."""

    metadata: _Metadata = _Metadata()
    status: _Status = _Status()


_report_decoder: Final = msgspec.json.Decoder(NodeReport)


def report(node: NodeRecord) -> NodeReport:
    """The annotations and the conditions of a node, without the times of the conditions."""
    return _report_decoder.decode(node.raw)


def pods(interner: PodInterner) -> Callable[[bytes], PodInfo | Ended | Unreadable]:
    """A decoder of pods; those without a node keep their documents."""

    templates = ShapeCache()

    def read(raw: bytes) -> PodInfo | Ended | Unreadable:
        member = members.of_wire(raw)
        if member is None:
            return read_alone(raw)
        if member.over:
            try:
                return EndedMember(interner.pod_from_wire(raw), member)
            except (MalformedObjectError, ValueError):
                return ENDED
        found = read_alone(raw)
        return msgspec.structs.replace(found, member=member) if isinstance(found, PodInfo) else found

    def read_alone(raw: bytes) -> PodInfo | Ended | Unreadable:
        parts = templates.split(raw)
        if parts is not None:
            known = templates.find(parts, raw)
            if known is not None:
                return known
        if (_PHASES[0] in raw or _PHASES[1] in raw) and _has_ended(msgspec.json.decode(raw)):
            return ENDED
        try:
            info = interner.pod_from_wire(raw, keep_waiting=True)
        except (MalformedObjectError, ValueError) as error:
            return _unreadable(msgspec.json.decode(raw), "Pod", error)
        if parts is not None:
            templates.learn(parts, info)
        return info

    return read


def nodes(raw: bytes) -> NodeRecord | Unreadable:
    """Decode a node."""
    document = msgspec.json.decode(raw)
    return _read(document, "Node", lambda: NodeRecord(read_node(document), raw))


def others(kind: str) -> Callable[[bytes], Document | Unreadable]:
    """A decoder of another kind: the document itself, validated for what plugins read."""

    def checked(document: Document) -> Document:
        related_objects.check(document, kind, path=kind)
        return document

    def read(raw: bytes) -> Document | Unreadable:
        document: Document = msgspec.json.decode(raw)
        return _read(document, kind, lambda: checked(document))

    return read


def checked(kind: str, check: Callable[[Document, str], None]) -> Callable[[bytes], Document | Unreadable]:
    """A decoder of a kind that `check(document, path)` validates."""

    def read(raw: bytes) -> Document | Unreadable:
        document: Document = msgspec.json.decode(raw)

        def valid() -> Document:
            check(document, kind)
            return document

        return _read(document, kind, valid)

    return read


def _has_ended(document: Document) -> bool:
    status = document.get("status")
    return isinstance(status, dict) and status.get("phase") in {"Succeeded", "Failed"}


def _read(document: Document, kind: str, reading: Callable[[], _T]) -> _T | Unreadable:
    try:
        return reading()
    except (MalformedObjectError, ValueError) as error:
        return _unreadable(document, kind, error)


def _unreadable(document: Document, kind: str, error: Exception) -> Unreadable:
    spec = document.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    reference = {"apiVersion": "v1", "kind": kind, "metadata": document.get("metadata") or {}}
    return Unreadable(
        reference=reference,
        problem=str(error),
        scheduler_name=str(spec.get("schedulerName") or ""),
        node_name=str(spec.get("nodeName") or ""),
    )
