"""What the signals of a node say: whether it is a spot machine, and whether and when it ends.

Everything is read from the node object, so that extender, controller and simulator agree. A notice is identified by its
node's uid, not by the name: clouds reuse the names of ended machines.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.spot import timestamps
from rota.spot.node_signals import TERMINATING, Means, NodeSignal, NodeSignals, Place

_ZONE: Final = "topology.kubernetes.io/zone"
_TYPE: Final = "node.kubernetes.io/instance-type"
#: The assumed time that is left after a notice without a time.
_USUAL_LEAD_S: Final = 30.0


class Capacity(enum.Enum):
    """The capacity type of a machine. Machines without a signal count as on-demand."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    UNKNOWN = "unknown"

    @property
    def leaves(self) -> bool:
        """Whether it may be reclaimed at any time."""
        return self is Capacity.SPOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The announcement that a machine will be reclaimed."""

    node: str
    uid: str
    provider: str
    #: The key of the signal.
    mark: str
    #: When it was given, and when the machine ends; seconds since 1970.
    since: float
    deadline: float
    #: The provider respects budgets: the deadline is when all evictions should have been requested, and nothing ends
    #: then.
    waits: bool = False

    def left(self, now: float) -> float:
        """Remaining seconds."""
        return max(0.0, self.deadline - now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that the signals of one node say."""

    capacity: Capacity
    notice: Notice | None
    #: The key of a signal of elevated risk; empty if there is none.
    risky: str
    #: The pool: machines of one type in one zone, which are often reclaimed together.
    pool: str


def read(node: Mapping[str, Any], marks: NodeSignals, *, now: float) -> Reading:
    """The reading of a node at a time; a notice without a time counts from `now`."""
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    return Reading(
        capacity=_capacity(labels, marks),
        notice=_notice(node, marks, now),
        risky=_risky(node, marks),
        pool=f"{labels.get(_TYPE, '')}/{labels.get(_ZONE, '')}",
    )


def _capacity(labels: Mapping[str, str], marks: NodeSignals) -> Capacity:
    said = {mark.means for mark, _ in marks.find(Place.LABEL, labels)}
    # where two tools disagree, the machine counts as spot
    if Means.SPOT in said:
        return Capacity.SPOT
    return Capacity.ON_DEMAND if Means.ON_DEMAND in said else Capacity.UNKNOWN


def _notice(node: Mapping[str, Any], marks: NodeSignals, now: float) -> Notice | None:
    metadata = node["metadata"]
    told = [timestamps.find(value) for mark, value in _annotated(metadata, marks) if mark.means is Means.DEADLINE]
    deadlines = [moment for moment in told if moment is not None]
    found: list[Notice] = []
    for mark, since, text in _said(node, marks):
        if mark.means is not Means.NOTICE:
            continue
        begun = since if since is not None else now
        # for some clouds the condition's message is the only place with the deadline
        written = timestamps.find(text)
        known = [*deadlines, *([written] if written is not None and written >= begun else [])]
        lead = mark.lead if mark.lead is not None else _USUAL_LEAD_S
        found.append(
            Notice(
                node=metadata["name"],
                uid=metadata.get("uid", ""),
                provider=mark.provider,
                mark=mark.key,
                since=begun,
                deadline=min(known) if known else begun + lead,
                waits=mark.waits and not known,
            )
        )
    # a fixed end precedes one that budgets may delay, however soon that would be
    return min(found, key=lambda notice: (notice.waits, notice.deadline, notice.mark), default=None)


def _risky(node: Mapping[str, Any], marks: NodeSignals) -> str:
    return min((mark.key for mark, _, _ in _said(node, marks) if mark.means is Means.RISK), default="")


def _said(node: Mapping[str, Any], marks: NodeSignals) -> Iterable[tuple[NodeSignal, float | None, str]]:
    """Every label, taint, condition and annotation of a node, with the time since when it exists and its message."""
    for taint in (node.get("spec") or {}).get("taints") or ():
        for mark, value in marks.find(Place.TAINT, {taint.get("key", ""): taint.get("value") or ""}):
            yield _ours(mark, value, marks), timestamps.find(taint.get("timeAdded") or ""), ""
    for condition in (node.get("status") or {}).get("conditions") or ():
        for mark, _ in marks.find(Place.CONDITION, {condition.get("type", ""): condition.get("status") or ""}):
            yield mark, timestamps.find(condition.get("lastTransitionTime") or ""), condition.get("message") or ""
    metadata = node["metadata"]
    for mark, _ in marks.find(Place.LABEL, metadata.get("labels") or {}):
        yield mark, None, ""
    for mark, value in _annotated(metadata, marks):
        yield mark, None, value


def _annotated(metadata: Mapping[str, Any], marks: NodeSignals) -> Iterable[tuple[NodeSignal, str]]:
    return marks.find(Place.ANNOTATION, metadata.get("annotations") or {})


def _ours(mark: NodeSignal, provider: str, marks: NodeSignals) -> NodeSignal:
    """The value of Rota's own taint is the provider."""
    if mark.key != TERMINATING or mark.provider or provider not in marks.providers:
        return mark
    return msgspec.structs.replace(mark, provider=provider, lead=marks.lead(provider))
