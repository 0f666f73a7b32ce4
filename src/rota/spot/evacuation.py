"""Leaving a machine that ends: which pod goes when, worked back from the deadline.

A pod goes as soon as there is a place for its successor, or at its latest moment, whichever comes first: so much
before the end that its own grace still fits. A budget that says no is asked again, more and more slowly; at the latest
moment the workload's policy decides whether the pod is deleted all the same. Critical pods go first, and among equals
those that need longest. Pure: facts and a time in, steps and the next time to look out.
"""

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.spot import reservations
from rota.spot.node_readings import Notice
from rota.spot.policies import AtDeadline

#: What a machine may end too early by.
SAFETY_S: Final = 2.0
_BACKOFF_S: Final = (1.0, 2.0, 4.0, 5.0)
#: Nobody asks a budget more often, whoever else does.
_NOT_SOONER_S: Final = 0.2
_MIRROR: Final = "kubernetes.io/config.mirror"


class Act(enum.Enum):
    """What to do with a pod."""

    #: Through the eviction API, which heeds budgets.
    EVICT = "evict"
    #: Whatever budgets say.
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictedPod:
    """A pod on a machine that ends."""

    key: str
    uid: str
    priority: int
    grace_s: float
    at_deadline: AtDeadline
    #: Whether a place is kept for its successor.
    reserved: bool = False
    #: How often a budget has said no, and when it did last.
    refusals: int = 0
    refused_at: float = -math.inf
    #: Whether it has been told to go.
    going: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do now."""

    act: Act
    guest: EvictedPod


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and when to look again if nothing happens before; infinity for never."""

    steps: Sequence[Step]
    wake_at: float


def latest(guest: EvictedPod, notice: Notice) -> float:
    """The last moment at which a pod can be told to go and still have its grace; never before the notice."""
    return max(notice.since, notice.deadline - SAFETY_S - guest.grace_s)


def plan(guests: Iterable[EvictedPod], notice: Notice, *, now: float) -> Plan:
    """What to do with the pods of a machine at a time."""
    steps, wake_at = [], math.inf
    for guest in sorted(guests, key=lambda one: (-one.priority, -one.grace_s, one.key)):
        if guest.going:
            continue
        last = latest(guest, notice)
        if now >= last and guest.at_deadline is AtDeadline.DELETE and guest.refusals:
            # a budget was asked, and there is no time left to ask again
            steps.append(Step(Act.DELETE, guest))
            continue
        if not guest.reserved and now < last:
            wake_at = min(wake_at, last)
            continue
        again = guest.refused_at + _BACKOFF_S[min(guest.refusals, len(_BACKOFF_S)) - 1] if guest.refusals else now
        if now >= again:
            steps.append(Step(Act.EVICT, guest))
        else:
            wake_at = min(wake_at, again, last if last > now else math.inf)
    return Plan(steps, wake_at)


def overtaken(guests: Iterable[EvictedPod], steps: Iterable[Step], *, now: float) -> list[Step]:
    """Those whose budgets said no and who are more important than somebody who asks now: they ask again, too.

    Budgets give what they have to those who ask first, and nobody should come first because others wait politely.
    """
    least = min((step.guest.priority for step in steps if step.act is Act.EVICT), default=math.inf)
    asking = {step.guest.uid for step in steps}
    return [
        Step(Act.EVICT, guest)
        for guest in guests
        if guest.refusals
        and guest.reserved
        and guest.priority > least
        and not guest.going
        and guest.uid not in asking
        and now >= guest.refused_at + _NOT_SOONER_S
    ]


def must_leave(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is to be moved: daemons come back by themselves, mirrors are their machine's, the finished rest.

    Who only holds a place for another has nowhere to go.
    """
    metadata = pod["metadata"]
    if reservations.is_one(pod):
        return False
    if metadata.get("deletionTimestamp") or _MIRROR in (metadata.get("annotations") or {}):
        return False
    if (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return False
    owners = metadata.get("ownerReferences") or ()
    return not any(owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in owners)
