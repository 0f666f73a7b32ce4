"""A queued pod with its history, and the states that it can have.

An entry belongs to the queue, which alone changes it; others read it.
"""

from enum import StrEnum
from typing import Any

from rota.columns.pods import PodInfo
from rota.scheduler.framework.status import SUCCESS, Status


class QueueState(StrEnum):
    """The state of a queued pod; the values are kube-scheduler's names of queues where it has one."""

    #: Ready for an attempt.
    ACTIVE = "active"
    #: Backs off after a failed attempt and an event that may help; tried early if nothing else is ready.
    BACKOFF = "backoff"
    #: Backs off after an error; never tried early.
    ERROR_BACKOFF = "errorBackoff"
    #: Waits for an event that may help it.
    UNSCHEDULABLE = "unschedulable"
    #: Held back by a PreEnqueue plugin.
    GATED = "gated"
    #: In an attempt.
    IN_FLIGHT = "inFlight"
    #: Has a node; waits until it is seen bound, or returns because the binding failed.
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
        #: The latest version of the pod, even during an attempt.
        self.pod = pod
        self.place = QueueState.IN_FLIGHT
        #: When it was added, or returned from an attempt; pods of one priority are tried in this order.
        self.queued_at = now
        self.first_queued_at = now
        #: When it was popped for the first time; None before that.
        self.first_tried_at: float | None = None
        #: How often it was popped.
        self.attempts = 0
        #: How often plugins refused it, and how many errors it had in a row; they determine its backoff.
        self.failures = 0
        self.faults = 0
        #: The second in which its backoff ends.
        self.backoff_until = 0.0
        #: Plugins that refused it in the last attempt; empty during an attempt.
        self.unschedulable_plugins: frozenset[str] = frozenset()
        #: Those of them that returned Pending.
        self.pending: frozenset[str] = frozenset()
        #: The PreEnqueue plugin that holds it back ("" if none), and that plugin's status.
        self.gate = ""
        self.held: Status = SUCCESS
        #: Whether it was last woken by the timeout and not by an event.
        self.flushed = False
        #: Its key by the QueueSort plugin.
        self.sort_key: Any = None

    def __repr__(self) -> str:
        return f"<QueuedPod {self.pod.key} {self.place} after {self.attempts} attempts>"
