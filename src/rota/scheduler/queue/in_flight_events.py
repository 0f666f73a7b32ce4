"""What happened while pods were being tried: an event in the middle of an attempt must not be lost on its pod.

One log holds the events in order of arrival; every pod in flight remembers where the log stood when it took off. When
it comes back refused, the events since are put to the plugins that refused it. The log is bounded: a pod that has been
away for longer than it reaches back is tried again without asking, since one attempt too many does no harm.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from rota.scheduler.framework.events import ClusterEvent

#: So many events are kept for pods in flight.
KEPT: Final = 16_384


class ObservedEvent(NamedTuple):
    """An event, with the object before and after."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlightEvents:
    """Pods that are being tried, and the events since."""

    __slots__ = ("_events", "_first", "_kept", "_own", "_since")

    def __init__(self, *, kept: int = KEPT) -> None:
        self._kept = kept
        self._events: list[ObservedEvent] = []
        #: The number of the first event in the log.
        self._first = 0
        #: The number of the first event that each pod has to hear of; in order of take-off, so the first is the lowest.
        self._since: dict[str, int] = {}
        #: Events that concern one pod alone.
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
        """Begin to remember events for a pod."""
        self._since[uid] = self._first + len(self._events)

    def note(self, observed_event: ObservedEvent) -> None:
        """Write an event down for all pods in flight."""
        if not self._since:
            return
        self._events.append(observed_event)
        if len(self._events) > 2 * self._kept:
            self._drop(len(self._events) - self._kept)

    def note_for(self, uid: str, observed_event: ObservedEvent) -> None:
        """Write an event down for one pod in flight."""
        self._own.setdefault(uid, []).append(observed_event)

    def finish_attempt(self, uid: str) -> Iterator[ObservedEvent] | None:
        """Give the events since a pod took off, and forget it; None if there were more than could be kept."""
        since = self._since[uid]
        own = self._own.get(uid, [])
        events = None if since < self._first else self._events[since - self._first :]
        self.forget(uid)
        return None if events is None else iter((*own, *events))

    def forget(self, uid: str) -> None:
        """A pod needs to hear of nothing any more."""
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
            # Only when it is worth the copying.
            self._drop(unneeded)

    def _drop(self, count: int) -> None:
        del self._events[:count]
        self._first += count
