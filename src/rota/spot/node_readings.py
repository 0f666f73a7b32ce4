"""What a node's marks say: whether it is a spot machine, and whether and when it goes.

Everything is read from the node object alone, so that an extender, a controller and a simulator see the same. A notice
is known by its node's uid, not by the name: clouds give the names of dead machines to new ones.
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
#: Notices without a known time leave this long.
_USUAL_LEAD_S: Final = 30.0


class Capacity(enum.Enum):
    """How a machine was bought. What nobody marked is taken for machines that stay."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    UNKNOWN = "unknown"

    @property
    def leaves(self) -> bool:
        """Whether it may be taken away at any time."""
        return self is Capacity.SPOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """That a node will be taken away."""

    node: str
    uid: str
    provider: str
    #: The key that said so.
    mark: str
    #: When it was said, and when the machine ends; seconds since 1970.
    since: float
    deadline: float
    #: Whoever takes it away waits for budgets: the deadline is when to have asked for all, and nothing ends then.
    waits: bool = False

    def left(self, now: float) -> float:
        """Seconds that remain."""
        return max(0.0, self.deadline - now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that the marks of one node say."""

    capacity: Capacity
    notice: Notice | None
    #: The key of a mark that says that this node is less sure than others; empty if there is none.
    risky: str
    #: Machines that are taken away together: of one type in one zone.
    pool: str


def read(node: Mapping[str, Any], marks: NodeSignals, *, now: float) -> Reading:
    """What a node says at a time; a notice without a time of its own counts from `now`."""
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
    # where two tools disagree, the machine may go
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
        # for some clouds a condition's message is the only place where they tell it
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
    # an end that is sure counts before one that budgets may put off, however soon that would be
    return min(found, key=lambda notice: (notice.waits, notice.deadline, notice.mark), default=None)


def _risky(node: Mapping[str, Any], marks: NodeSignals) -> str:
    return min((mark.key for mark, _, _ in _said(node, marks) if mark.means is Means.RISK), default="")


def _said(node: Mapping[str, Any], marks: NodeSignals) -> Iterable[tuple[NodeSignal, float | None, str]]:
    """Every mark of a node with the time since when it stands there, and the words that go with it."""
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
    """The mark that we write ourselves for what others tell us has the provider for its value."""
    if mark.key != TERMINATING or mark.provider or provider not in marks.providers:
        return mark
    return msgspec.structs.replace(mark, provider=provider, lead=marks.lead(provider))
