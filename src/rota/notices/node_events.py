"""Events about nodes as a source of notices: some termination handlers and cloud agents report only there.

The table of signals says which reasons mean what. An event counts from when it was last seen. One that is listed again,
counted up or seen after a restart has the uid of the same notice, and the node records it. Only events in the namespace
of cluster-scoped objects are read, so permission to write there is permission to report.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from rota.api import codec, meta
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.queues.work import WorkQueue
from rota.client.verbs import Client, Object, Selection
from rota.kit import logs, tasks
from rota.kit.backoff import Policy, Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.notices.announcements import Announcement, Kind
from rota.notices.announcer import Announcer
from rota.spot import timestamps
from rota.spot.node_signals import Means, NodeSignal, NodeSignals, Place

log = logs.get(__name__)

EVENTS: Final = ("", "v1", "events")
#: The namespace of events about cluster-scoped objects.
NAMESPACE: Final = "default"
SOURCE: Final = "event"
#: The longest retry interval while the API server is away, because a deadline does not wait.
_PATIENCE: Final = Policy(initial_s=0.1, cap_s=5.0)
_AT_ONCE: Final = 8
_ABOUT_NODES: Final = Selection(fields="involvedObject.kind=Node")
_KINDS: Final[Mapping[Means, Kind]] = {Means.NOTICE: Kind.TERMINATION, Means.RISK: Kind.RISK}


def read(event: Mapping[str, Any], marks: NodeSignals) -> tuple[str, Announcement] | None:
    """The notice in an event, and its node; None if the event is not about the end of a machine."""
    about = event.get("involvedObject") or {}
    if about.get("kind") != "Node" or not about.get("name"):
        return None
    mark = _mark(event, marks)
    if mark is None:
        return None
    node, uid = str(about["name"]), str(about.get("uid") or "")
    times_told = [timestamps.find(str(text)) for text in _times(event) if text]
    said_at = max((one for one in times_told if one is not None), default=None)
    written = timestamps.find(str(event.get("message") or ""))
    deadline = None
    if mark.means is Means.NOTICE and said_at is not None:
        # a time before that of the event itself is a start time, not a deadline
        deadline = written if written is not None and written >= said_at else None
        if deadline is None and mark.lead is not None:
            deadline = said_at + mark.lead
    said = Announcement(
        kind=_KINDS[mark.means],
        source=SOURCE,
        provider=mark.provider,
        deadline=deadline,
        said_at=said_at,
        id=meta.uid(event),
        # kubelets and some other tools set the uid to the name
        uid="" if uid == node else uid,
    )
    return node, said


def _mark(event: Mapping[str, Any], marks: NodeSignals) -> NodeSignal | None:
    reason = str(event.get("reason") or "")
    component = str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")
    found = [mark for mark, _ in marks.find(Place.EVENT, {reason: component}) if mark.means in _KINDS]
    # if a reason has two meanings, the more severe one holds
    return min(found, key=lambda mark: (mark.means is not Means.NOTICE, mark.lead or math.inf), default=None)


def _times(event: Mapping[str, Any]) -> tuple[Any, ...]:
    series = event.get("series") or {}
    return (
        event.get("firstTimestamp"),
        event.get("eventTime"),
        event.get("lastTimestamp"),
        series.get("lastObservedTime"),
    )


class NodeEvents:
    """Watches events, and announces the notices in them. Several processes may run it."""

    def __init__(
        self,
        client: Client,
        announcer: Announcer,
        marks: NodeSignals,
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
    ) -> None:
        self._announcer: Final = announcer
        self._marks: Final = marks
        self._clock: Final = clock
        self._rng: Final = rng
        self._queue: Final = WorkQueue[tuple[str, Announcement]](
            clock=clock, rng=rng, policy=_PATIENCE, name="node events"
        )
        self._events: Final = Informer[tuple[str, Announcement] | None](
            Source(client=client, target=EVENTS, namespace=NAMESPACE, selection=_ABOUT_NODES),
            decode=self._read,
            clock=clock,
            rng=rng,
            metrics=metrics,
        )
        self._events.add_handler(self._changed)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with tasks.Supervisor("node events", clock=self._clock, rng=self._rng) as running:
            running.start("events", self._events.run)
            running.start("work", self._work)
            await running.wait()

    async def _work(self) -> None:
        await self._queue.work(self._announce, workers=_AT_ONCE)

    def _read(self, raw: bytes) -> tuple[str, Announcement] | None:
        event: Object = codec.decode(raw)
        return read(event, self._marks)

    def _changed(self, _: Key, old: tuple[str, Announcement] | None, new: tuple[str, Announcement] | None) -> None:
        # an event that is counted up is the same notice
        if new is not None and (old is None or old[1].id != new[1].id):
            self._queue.add(new)

    async def _announce(self, heard: tuple[str, Announcement]) -> None:
        node, said = heard
        await self._announcer.announce(node, said)
