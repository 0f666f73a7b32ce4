"""What a source reports about a machine, and what is written to its node. Decisions only.

Every source's notice is written in the same form: Rota's taint with the provider as its value, an annotation with the
deadline, and the ids of received messages. The node is the only record. Repeated messages are recognized by any process
and after any restart. A deadline is only ever moved earlier. Messages about a former machine of the same name, or with
a deadline long past, are not written.
"""

import enum
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.spot import timestamps
from rota.spot.node_signals import AT_RISK, TERMINATES_AT, TERMINATING

#: The source that wrote the taint; only a polling source withdraws its own notice by itself.
SAID_BY: Final = "rota.dev/notice-from"
#: The ids of the last messages.
HEARD: Final = "rota.dev/notices-heard"

#: The number of ids that are kept: enough to recognize repeated messages, without making the node large.
_MOST_HEARD: Final = 16
#: If a machine should have ended this long ago, the notice is about something else.
_LATE_S: Final = 60.0
#: Tolerance: clocks of clouds and API servers differ, and timestamps of nodes have whole seconds.
_SKEW_S: Final = 2.0


class Kind(enum.Enum):
    """The kind of a message."""

    #: The machine will be reclaimed.
    TERMINATION = "termination"
    #: It has an elevated risk of being reclaimed.
    RISK = "risk"
    #: It stays after all.
    WITHDRAWN = "withdrawn"


#: The taint of each kind.
_KEYS: Final[Mapping[Kind, str]] = {Kind.TERMINATION: TERMINATING, Kind.RISK: AT_RISK}


class Verdict(enum.Enum):
    """What was done with a message."""

    MARKED = "marked"
    #: It was received before, or contains nothing new.
    KNOWN = "known"
    WITHDRAWN = "withdrawn"
    #: Its deadline is past.
    LATE = "late"
    #: It is about a former machine with this node's name.
    FORMER = "former"
    #: There is no such node.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A message of a source about one machine."""

    kind: Kind
    #: `webhook`, `event` or `agent`; for logs, metrics and withdrawals.
    source: str
    provider: str = ""
    #: When the machine ends, in seconds since 1970; None if unknown.
    deadline: float | None = None
    #: When it was sent; None if unknown.
    said_at: float | None = None
    #: Distinguishes this notice from others about the same machine, and is equal in repetitions; empty if there is
    #: none.
    id: str = ""
    #: The node's uid, if it was given.
    uid: str = ""
    #: Whether the machine itself was named, and not only a node, whose name may be reused.
    exact: bool = False
    #: Of a withdrawal: it withdraws only what its own source wrote,
    own: bool = False
    #: and that may be reported again;
    forgets: bool = False
    #: except for these kinds, which still hold.
    keeps: frozenset[Kind] = frozenset()

    @property
    def mark(self) -> str:
        """The id as written on a node; empty if there is none."""
        if not self.id:
            return ""
        return f"{self.source}/{hashlib.sha256(self.id.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done with an announcement, and the node's patch if there is something to write."""

    verdict: Verdict
    patch: dict[str, Any] | None = None
    deadline: float | None = None


def decide(node: Mapping[str, Any], said: Announcement, *, now: float, lead: float) -> Decision:
    """The patch of a node for an announcement; `lead` is how long the provider's machines have left."""
    if _former(node, said):
        return Decision(Verdict.FORMER)
    heard = _heard(node)
    if said.mark in heard:
        return Decision(Verdict.KNOWN)
    match said.kind:
        case Kind.WITHDRAWN:
            return _withdrawn(node, said, heard)
        case Kind.RISK:
            return _at_risk(node, said, heard, now)
        case Kind.TERMINATION:
            return _terminating(node, said, heard, now=now, lead=lead)


def told(node: Mapping[str, Any], kind: Kind) -> bool:
    """Whether a node has Rota's taint for a kind of notice."""
    return any(one.get("key") == _KEYS[kind] for one in _taints(node))


def said_by(node: Mapping[str, Any]) -> str:
    """The source of a node's notice; empty if there is none."""
    return str((node["metadata"].get("annotations") or {}).get(SAID_BY) or "")


def _terminating(
    node: Mapping[str, Any], said: Announcement, heard: Sequence[str], *, now: float, lead: float
) -> Decision:
    # a time in the future is a clock error
    begun = min(said.said_at, now) if said.said_at is not None else now
    deadline = said.deadline if said.deadline is not None else begun + lead
    if deadline < now - _LATE_S:
        return Decision(Verdict.LATE, deadline=deadline)
    annotations: dict[str, str | None] = {}
    before = timestamps.find((node["metadata"].get("annotations") or {}).get(TERMINATES_AT) or "")
    if not told(node, Kind.TERMINATION):
        taints = [*_taints(node), _taint(TERMINATING, "NoSchedule", said.provider, begun)]
        annotations |= {SAID_BY: said.source, TERMINATES_AT: times.format_time(deadline)}
        return Decision(Verdict.MARKED, _patch(node, said, heard, taints, annotations), deadline)
    if before is None or times.format_time(deadline) < times.format_time(before):
        annotations[TERMINATES_AT] = times.format_time(deadline)
        return Decision(Verdict.MARKED, _patch(node, said, heard, _taints(node), annotations), deadline)
    return Decision(Verdict.KNOWN, _remembered(node, said, heard), before)


def _at_risk(node: Mapping[str, Any], said: Announcement, heard: Sequence[str], now: float) -> Decision:
    if told(node, Kind.RISK):
        return Decision(Verdict.KNOWN, _remembered(node, said, heard))
    taints = [*_taints(node), _taint(AT_RISK, "PreferNoSchedule", said.provider, now)]
    annotations = {} if said_by(node) else {SAID_BY: said.source}
    return Decision(Verdict.MARKED, _patch(node, said, heard, taints, annotations))


def _withdrawn(node: Mapping[str, Any], said: Announcement, heard: Sequence[str]) -> Decision:
    over = {_KEYS[kind] for kind in _KEYS if kind not in said.keeps}
    left = [one for one in _taints(node) if one.get("key") not in over]
    if said.own and said_by(node) != said.source:
        return Decision(Verdict.KNOWN)
    if said.forgets:
        heard = [one for one in heard if not one.startswith(f"{said.source}/")]
    if left == _taints(node):
        return Decision(Verdict.KNOWN, _remembered(node, said, heard))
    annotations: dict[str, str | None] = {TERMINATES_AT: None} if TERMINATING in over else {}
    if not any(one.get("key") in _KEYS.values() for one in left):
        annotations[SAID_BY] = None
    return Decision(Verdict.WITHDRAWN, _patch(node, said, heard, left, annotations))


def _remembered(node: Mapping[str, Any], said: Announcement, heard: Sequence[str]) -> dict[str, Any] | None:
    """The patch that only records the message id."""
    return _patch(node, said, heard, _taints(node), {}) if said.mark else None


def _patch(
    node: Mapping[str, Any],
    said: Announcement,
    heard: Sequence[str],
    taints: Sequence[Mapping[str, Any]],
    annotations: Mapping[str, str | None],
) -> dict[str, Any]:
    changed = dict(annotations)
    remembered = [*heard, said.mark][-_MOST_HEARD:] if said.mark else list(heard)
    if remembered != _heard(node):
        changed[HEARD] = ",".join(remembered) or None
    # taints are one list: concurrent changes must not be reverted, and another machine must not get the taint
    metadata = {
        "uid": meta.uid(node),
        "resourceVersion": node["metadata"]["resourceVersion"],
        **({"annotations": changed} if changed else {}),
    }
    return {"metadata": metadata, "spec": {"taints": list(taints) or None}}


def _taint(key: str, effect: str, provider: str, added: float) -> dict[str, Any]:
    value = {"value": provider} if provider else {}
    return {"key": key, **value, "effect": effect, "timeAdded": times.format_time(added)}


def _taints(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((node.get("spec") or {}).get("taints") or ())


def _heard(node: Mapping[str, Any]) -> list[str]:
    written = (node["metadata"].get("annotations") or {}).get(HEARD) or ""
    return [one for one in written.split(",") if one]


def _former(node: Mapping[str, Any], said: Announcement) -> bool:
    """Whether a message is about a former machine with the node's name."""
    if said.uid:
        return said.uid != meta.uid(node)
    created = timestamps.find(node["metadata"].get("creationTimestamp") or "")
    if said.exact or said.said_at is None or created is None:
        return False
    return said.said_at < created - _SKEW_S
