"""Parses webhook requests: Rota's own form and those of the clouds. Pure.

* Rota: `{"node" | "providerID" | "instance", "kind", "deadline" | "in", "provider", "id", "uid", "time"}`, one or many
  under `notices`, bare or as the data of a CloudEvent of type `dev.rota.notice`;
* AWS: EventBridge's events about spot interruptions, rebalance recommendations and ending instances;
* Google Cloud: the audit log's entry about a preempted instance, bare or pushed by Pub/Sub;
* Azure: the document of Scheduled Events.

Input is not trusted: any other form is `Malformed`, with a message that says where. A valid message that is not a
notice is ignored.
"""

import base64
import binascii
import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import msgspec

from rota.api import names
from rota.notices.announcements import Announcement, Kind
from rota.spot import timestamps
from rota.spot.node_signals import NodeSignals

WEBHOOK: Final = "webhook"
#: The type of a CloudEvent whose data has Rota's form.
CLOUD_EVENT: Final = "dev.rota.notice"
#: The largest number of notices in one request.
MOST: Final = 1000
#: A deadline further in the future is an error of clock or unit.
_LONGEST_S: Final = 7 * 86_400.0

_Text = Annotated[str, msgspec.Meta(max_length=512)]
_S = TypeVar("_S", bound=msgspec.Struct)


class Malformed(ValueError):
    """The request has no supported form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine of a notice: by the name of its node, or by its name in the cloud."""

    node: str = ""
    #: The node's `spec.providerID`.
    provider_id: str = ""
    #: The last part of it, by which clouds name instances in messages.
    instance: str = ""

    def __str__(self) -> str:
        return self.node or self.provider_id or self.instance


@dataclass(frozen=True, slots=True)
class Message:
    """A notice about one machine."""

    machine: Machine
    said: Announcement


class _Own(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Kind
    node: _Text = ""
    uid: _Text = ""
    provider_id: _Text = msgspec.field(name="providerID", default="")
    instance: _Text = ""
    provider: _Text = ""
    deadline: _Text = ""
    in_s: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_S)] | None = msgspec.field(name="in", default=None)
    id: _Text = ""
    time: _Text = ""


class _CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    id: _Text
    source: _Text
    type: _Text
    time: _Text = ""
    data: Any = None


class _EventBridge(msgspec.Struct, frozen=True, kw_only=True):
    id: _Text
    source: _Text
    detail_type: _Text = msgspec.field(name="detail-type")
    time: _Text = ""
    detail: dict[str, Any] = {}


class _LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    payload: dict[str, Any] = msgspec.field(name="protoPayload")
    timestamp: _Text = ""
    insert_id: _Text = msgspec.field(name="insertId", default="")


class _ScheduledEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of Azure."""

    id: _Text = msgspec.field(name="EventId")
    type: _Text = msgspec.field(name="EventType")
    resources: Annotated[list[_Text], msgspec.Meta(max_length=MOST)] = msgspec.field(name="Resources")
    not_before: _Text = msgspec.field(name="NotBefore", default="")
    status: _Text = msgspec.field(name="EventStatus", default="")


class ScheduledEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The document of Azure's Scheduled Events, which the machine's own endpoint serves as well."""

    events: Annotated[list[_ScheduledEvent], msgspec.Meta(max_length=MOST)] = msgspec.field(name="Events")

    def about(self, source: str) -> Iterator[tuple[str, Announcement]]:
        """The notices in it, each with the machine's name at Azure."""
        for one in self.events:
            kind = AZURE.get(one.type)
            if kind is None or one.status not in {"", "Scheduled", "Started"}:
                continue
            deadline = timestamps.find(one.not_before) if kind is Kind.TERMINATION else None
            for name in one.resources:
                yield (
                    name,
                    Announcement(kind=kind, source=source, provider="azure", deadline=deadline, id=one.id, exact=True),
                )


class _Event(enum.Enum):
    """EventBridge's event types about the end of a machine."""

    INTERRUPTION = "EC2 Spot Instance Interruption Warning"
    REBALANCE = "EC2 Instance Rebalance Recommendation"
    STATE = "EC2 Instance State-change Notification"


#: The meaning of Azure's event types; a frozen machine continues.
AZURE: Final[Mapping[str, Kind]] = {
    "Preempt": Kind.TERMINATION,
    "Terminate": Kind.TERMINATION,
    "Redeploy": Kind.RISK,
    "Reboot": Kind.RISK,
}
_ENDING_STATES: Final = frozenset({"stopping", "shutting-down"})
_PREEMPTED: Final = "compute.instances.preempted"


def read(body: bytes, headers: Mapping[str, str], *, marks: NodeSignals, now: float) -> list[Message]:
    """The notices in a request; `Malformed` if it has no supported form. Header names are in lower case."""
    try:
        document = msgspec.json.decode(body)
        if headers.get("ce-specversion"):
            # the binary form of a CloudEvent: its attributes are headers
            attributes = {name: headers.get(f"ce-{name}", "") for name in ("id", "source", "type", "time")}
            document = {"specversion": headers["ce-specversion"], **attributes, "data": document}
        found = list(_messages(document, now))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Malformed(" ".join(str(problem).split())[:300] or "the body cannot be read") from None
    for one in found:
        _check(one, marks, now)
    return found


def _check(message: Message, marks: NodeSignals, now: float) -> None:
    said = message.said
    if said.provider and said.provider not in marks.providers:
        known = ", ".join(sorted(marks.providers))
        raise Malformed(f"unknown provider {said.provider[:60]!r}: the table of marks has {known}; --marks adds to it")
    if said.deadline is not None and said.deadline > now + _LONGEST_S:
        raise Malformed(f"the deadline of {message.machine} is more than {_LONGEST_S / 86_400:.0f} days away")


def _messages(document: Any, now: float) -> Iterator[Message]:
    if not isinstance(document, dict):
        raise Malformed("the body is no JSON object")
    if "specversion" in document:
        event = _converted(document, _CloudEvent)
        if event.type == CLOUD_EVENT:
            yield from _own(event.data, now, id_=f"{event.source} {event.id}", time=event.time)
        elif isinstance(event.data, dict) and "specversion" not in event.data:
            yield from _messages(event.data, now)
    elif "detail-type" in document:
        yield from _event_bridge(_converted(document, _EventBridge))
    elif "Events" in document:
        for name, said in _converted(document, ScheduledEvents).about(WEBHOOK):
            yield Message(Machine(instance=name), said)
    elif "protoPayload" in document:
        yield from _log_entry(_converted(document, _LogEntry))
    elif isinstance(document.get("message"), dict):
        yield from _pushed(document["message"])
    else:
        yield from _own(document, now)


def _own(data: Any, now: float, *, id_: str = "", time: str = "") -> Iterator[Message]:
    listed: Sequence[Any] = data["notices"] if isinstance(data, dict) and "notices" in data else [data]
    if not isinstance(listed, list) or len(listed) > MOST:
        raise Malformed(f"notices is no list of at most {MOST}")
    for number, one in enumerate(listed):
        notice = _converted(one, _Own)
        machine = Machine(node=notice.node, provider_id=notice.provider_id, instance=notice.instance)
        if [notice.node, notice.provider_id, notice.instance].count("") != 2:
            raise Malformed("a notice names its machine by one of node, providerID and instance")
        if notice.node and names.check_dns1123_subdomain(notice.node):
            raise Malformed(f"{notice.node[:60]!r} is no name of a node")
        if notice.deadline and notice.in_s is not None:
            raise Malformed(f"the notice about {machine} has both a deadline and 'in'")
        deadline = _moment(notice.deadline, "deadline") if notice.deadline else None
        if notice.in_s is not None:
            deadline = now + notice.in_s
        told = notice.time or time
        said = Announcement(
            kind=notice.kind,
            source=WEBHOOK,
            provider=notice.provider,
            deadline=deadline,
            said_at=_moment(told, "time") if told else None,
            id=notice.id or (f"{id_} {number}" if id_ else _made_up(notice)),
            uid=notice.uid,
            exact=not notice.node,
        )
        yield Message(machine, said)


def _made_up(notice: _Own) -> str:
    """The id of a notice without one: its deadline. Without a deadline there is none."""
    return f"{notice.kind.value} {notice.deadline}" if notice.deadline else ""


def _event_bridge(event: _EventBridge) -> Iterator[Message]:
    try:
        kind = _Event(event.detail_type)
    except ValueError:
        return
    instance = event.detail.get("instance-id")
    if not isinstance(instance, str) or not instance:
        raise Malformed("detail.instance-id is missing")
    if kind is _Event.STATE and event.detail.get("state") not in _ENDING_STATES:
        return
    said_at = timestamps.find(event.time)
    said = Announcement(
        kind=Kind.RISK if kind is _Event.REBALANCE else Kind.TERMINATION,
        source=WEBHOOK,
        provider="aws",
        deadline=said_at if kind is _Event.STATE else None,
        said_at=said_at,
        id=event.id,
        exact=True,
    )
    yield Message(Machine(instance=instance[:512]), said)


def _pushed(message: Mapping[str, Any]) -> Iterator[Message]:
    """A Pub/Sub push message: an audit log entry, wrapped."""
    try:
        entry = msgspec.json.decode(base64.b64decode(str(message.get("data") or ""), validate=True))
    except (binascii.Error, ValueError):
        raise Malformed("message.data is no JSON in base64") from None
    if isinstance(entry, dict) and "protoPayload" in entry:
        yield from _log_entry(_converted(entry, _LogEntry))


def _log_entry(entry: _LogEntry) -> Iterator[Message]:
    if entry.payload.get("methodName") != _PREEMPTED:
        return
    parts = str(entry.payload.get("resourceName") or "").split("/")
    # projects/PROJECT/zones/ZONE/instances/NAME
    if len(parts) != 6 or [parts[0], parts[2], parts[4]] != ["projects", "zones", "instances"]:
        raise Malformed("protoPayload.resourceName is no instance")
    said = Announcement(
        kind=Kind.TERMINATION,
        source=WEBHOOK,
        provider="gcp",
        said_at=timestamps.find(entry.timestamp),
        id=entry.insert_id or entry.timestamp,
    )
    yield Message(Machine(provider_id=f"gce://{parts[1]}/{parts[3]}/{parts[5]}"), said)


def _converted(value: Any, kind: type[_S]) -> _S:
    return msgspec.convert(value, kind)


def _moment(text: str, what: str) -> float:
    moment = timestamps.find(text)
    if moment is None:
        raise Malformed(f"{what} {text[:60]!r} is no time; write it like 2006-01-02T15:04:05Z")
    return moment
