"""Events that arrive during an attempt, so that they are not lost for its pod.

One log has the events in order of arrival; every pod in flight keeps its position in the log at the start of its
attempt. When the pod is refused, the plugins that refused it are asked about the events since then. The log is bounded:
a pod whose position is no longer in the log is tried again without asking, since an extra attempt is harmless.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from rota.scheduler.framework.events import ClusterEvent

#: Number of events that are kept.
KEPT: Final = 16_384


class ObservedEvent(NamedTuple):
    """An event with the object before and after."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlightEvents:
    """Pods in an attempt, and the events since its start."""

    __slots__ = ("_events", "_first", "_kept", "_own", "_since")

    def __init__(self, *, kept: int = KEPT) -> None:
        self._kept = kept
        self._events: list[ObservedEvent] = []
        #: The number of the first event in the log.
        self._first = 0
        #: The number of the first event of each attempt; in order of their start, so the first is the lowest.
        self._since: dict[str, int] = {}
        #: Events that concern a single pod.
        self._own: dict[str, list[ObservedEvent]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, uid: object) -> bool:
        return uid in self._since

    @property
    def events(self) -> int:
        """How many events are kept."""
        return len(self._events) + sum(map(len, self._own.values()))

    def start_attempt(self, uid: str) -> None:
        """Begin to keep events for a pod."""
        self._since[uid] = self._first + len(self._events)

    def note(self, observed_event: ObservedEvent) -> None:
        """Append an event for all pods in flight."""
        if not self._since:
            return
        self._events.append(observed_event)
        if len(self._events) > 2 * self._kept:
            self._drop(len(self._events) - self._kept)

    def note_for(self, uid: str, observed_event: ObservedEvent) -> None:
        """Append an event for one pod in flight."""
        self._own.setdefault(uid, []).append(observed_event)

    def finish_attempt(self, uid: str) -> Iterator[ObservedEvent] | None:
        """The events since the start of a pod's attempt, which ends; None if there were more than are kept."""
        since = self._since[uid]
        own = self._own.get(uid, [])
        events = None if since < self._first else self._events[since - self._first :]
        self.forget(uid)
        return None if events is None else iter((*own, *events))

    def forget(self, uid: str) -> None:
        """Drop a pod whose events are no longer needed."""
        del self._since[uid]
        self._own.pop(uid, None)
        if self._events:
            self._prune()

    def _prune(self) -> None:
        oldest = next(iter(self._since.values()), None)
        if oldest is None:
            self._first += len(self._events)
            self._events.clear()
        elif 2 * (unneeded := oldest - self._first) >= len(self._events):
            # Only when the copy is worthwhile.
            self._drop(unneeded)

    def _drop(self, count: int) -> None:
        del self._events[:count]
        self._first += count
