"""The evacuation of a machine with a notice: which pod is evicted when, counted back from the deadline.

A pod is evicted as soon as there is a place for its successor, or at its latest moment, whichever comes first; the
latest moment leaves its full grace period before the deadline. A refused eviction is retried with backoff; at the
latest moment the workload's policy decides whether the pod is deleted despite its budget. Critical pods go first, and
among equals those with the longest grace period. Pure: facts and a time in, steps and the time of the next check out.
"""

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.spot import reservations
from rota.spot.node_readings import Notice
from rota.spot.policies import AtDeadline

#: A margin, because a machine may end too early.
SAFETY_S: Final = 2.0
_BACKOFF_S: Final = (1.0, 2.0, 4.0, 5.0)
#: The shortest interval between two evictions of a pod under a budget, whatever else triggers one.
_NOT_SOONER_S: Final = 0.2
_MIRROR: Final = "kubernetes.io/config.mirror"


class Act(enum.Enum):
    """What to do with a pod."""

    #: Through the eviction API, which respects budgets.
    EVICT = "evict"
    #: Regardless of budgets.
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictedPod:
    """A pod on a machine with a notice."""

    key: str
    uid: str
    priority: int
    grace_s: float
    at_deadline: AtDeadline
    #: Whether a place is reserved for its successor.
    reserved: bool = False
    #: How often a budget has refused its eviction, and when it did last.
    refusals: int = 0
    refused_at: float = -math.inf
    #: Whether it was evicted.
    going: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One action that is due."""

    act: Act
    guest: EvictedPod


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions that are due, and when to check again without any change; infinity for never."""

    steps: Sequence[Step]
    wake_at: float


def latest(guest: EvictedPod, notice: Notice) -> float:
    """The latest time to evict a pod with its full grace period; never before the notice."""
    return max(notice.since, notice.deadline - SAFETY_S - guest.grace_s)


def plan(guests: Iterable[EvictedPod], notice: Notice, *, now: float) -> Plan:
    """The steps for the pods of a machine at a time."""
    steps, wake_at = [], math.inf
    for guest in sorted(guests, key=lambda one: (-one.priority, -one.grace_s, one.key)):
        if guest.going:
            continue
        last = latest(guest, notice)
        if now >= last and guest.at_deadline is AtDeadline.DELETE and guest.refusals:
            # a budget has refused, and there is no time left to retry
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
    """Pods with refused evictions and a higher priority than a pod that is evicted now: they are evicted again, too.

    Budgets are consumed in the order of requests; a pod must not lose its turn because it is in backoff.
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
    """Whether a pod must be moved: not daemons, which are recreated on the node; not mirror pods; not finished pods.

    Placeholder pods need not be moved either.
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
