"""A waiting pod, with what has happened to it so far, and the places where it can be.

An entry belongs to the queue, which alone changes it; others read. It is in exactly one place at a time.
"""

from enum import StrEnum
from typing import Any

from rota.columns.pods import PodInfo
from rota.scheduler.framework.status import SUCCESS, Status


class QueueState(StrEnum):
    """Where a pod is; the values are kube-scheduler's names of queues, as far as it has one."""

    #: Ready for an attempt.
    ACTIVE = "active"
    #: Rests after a failed attempt that something has happened since; tried early if nothing else is there.
    BACKOFF = "backoff"
    #: Rests after a fault; never tried early.
    ERROR_BACKOFF = "errorBackoff"
    #: Waits for something to happen that may help it.
    UNSCHEDULABLE = "unschedulable"
    #: Held back by a PreEnqueue plugin before any attempt.
    GATED = "gated"
    #: Being tried.
    IN_FLIGHT = "inFlight"
    #: Has a node; waits to be seen bound, or to come back because binding failed.
    BINDING = "binding"


class QueuedPod:
    """One pod and its history in the queue."""

    __slots__ = (
        "attempts",
        "backoff_until",
        "failures",
        "faults",
        "first_queued_at",
        "first_tried_at",
        "flushed",
        "gate",
        "held",
        "pending",
        "place",
        "pod",
        "queued_at",
        "sort_key",
        "unschedulable_plugins",
    )

    def __init__(self, pod: PodInfo, now: float) -> None:
        #: The pod as last heard of, even while it is being tried.
        self.pod = pod
        self.place = QueueState.IN_FLIGHT
        #: When it came, or came back from an attempt; pods of one priority are tried in this order.
        self.queued_at = now
        self.first_queued_at = now
        #: When it was taken out for the first time; None before that.
        self.first_tried_at: float | None = None
        #: How often it was taken out.
        self.attempts = 0
        #: How often plugins turned it away, and how often in a row something broke; they decide how long it rests.
        self.failures = 0
        self.faults = 0
        #: The second within which its rest ends.
        self.backoff_until = 0.0
        #: Plugins that turned it away in the last attempt; empty while it is being tried.
        self.unschedulable_plugins: frozenset[str] = frozenset()
        #: Those of them that only wait for something outside.
        self.pending: frozenset[str] = frozenset()
        #: The PreEnqueue plugin that holds it back ("" if none does), and what that plugin said.
        self.gate = ""
        self.held: Status = SUCCESS
        #: Whether it was last woken because it had waited so long, not because of an event.
        self.flushed = False
        #: What the QueueSort plugin made of it.
        self.sort_key: Any = None

    def __repr__(self) -> str:
        return f"<QueuedPod {self.pod.key} {self.place} after {self.attempts} attempts>"
