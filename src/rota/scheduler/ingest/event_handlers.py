"""Informer event handlers: they feed the core with what changed.

Handlers run on the event loop, right after an informer's own cache has changed, and are fast. They decide nothing. An
object that cannot be decoded is treated as absent and reported by a callback.
"""

from collections.abc import Callable, Collection
from typing import Final

from rota.client.informers.cache import Key
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.core.events import Event, NodeChanged, ObjectChanged, PodChanged
from rota.scheduler.core.scheduler_core import SchedulerCore
from rota.scheduler.framework.events import Action
from rota.scheduler.ingest import decoder
from rota.scheduler.ingest.decoder import Document, Ended, NodeRecord, NodeReport, Unreadable
from rota.scheduler.ingest.watched_kinds import WatchedKind
from rota.scheduler.queue import update_events

log = logs.get(__name__)

#: Kinds whose changes wake pending volume bindings.
STORAGE: Final = frozenset({"PersistentVolume", "PersistentVolumeClaim"})

#: Nodes that are handled at start before the event loop gets its turn.
_NODES_AT_ONCE: Final = 100
_PODS_AT_ONCE: Final = 500

Pod = PodInfo | Ended | Unreadable
Node = NodeRecord | Unreadable


class EventHandlers:
    """Event handlers of one scheduler."""

    def __init__(
        self,
        core: SchedulerCore,
        *,
        feed: Callable[[Event], None],
        clock: Clock,
        unreadable: Callable[[Unreadable], None],
        storage_changed: Callable[[], None],
    ) -> None:
        """`feed` tells the core about an event and carries out the effects."""
        self._core: Final = core
        self._feed: Final = feed
        self._clock: Final = clock
        self._unreadable: Final = unreadable
        self._storage_changed: Final = storage_changed

    def pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """A pod was added, updated or deleted."""
        if isinstance(new, Unreadable):
            self._unreadable(new)
        before, after = old if isinstance(old, PodInfo) else None, new if isinstance(new, PodInfo) else None
        if before is not None or after is not None:
            self._feed(PodChanged(before, after))

    async def first_pods(self, pods: Collection[tuple[Key, Pod]]) -> None:
        """Handle all pods of the initial list: pods with a node are added to the cache node by node.

        Pods without a node are queued after that. No pod has been tried yet, so no event needs to wake one.
        """
        placed: dict[str, list[PodInfo]] = {}
        others = []
        for key, pod in pods:
            if isinstance(pod, PodInfo) and pod.node_name:
                placed.setdefault(pod.node_name, []).append(pod)
            else:
                others.append((key, pod))
        for number, (node, there) in enumerate(placed.items(), 1):
            self._core.cache.add_pods(node, there)
            if number % _NODES_AT_ONCE == 0:
                await self._clock.sleep(0)
        for number, (key, pod) in enumerate(others, 1):
            self.pod(key, None, pod)
            if number % _PODS_AT_ONCE == 0:
                await self._clock.sleep(0)

    def node(self, key: Key, old: Node | None, new: Node | None) -> None:
        """A node was added, updated or deleted."""
        if isinstance(new, Unreadable):
            log.warning("node cannot be used", node=key.name, problem=new.problem)
        actions = update_events.NOTHING
        if self._core.queue and isinstance(old, NodeRecord) and isinstance(new, NodeRecord):
            actions = _report_actions(decoder.report(old), decoder.report(new))
        self._feed(NodeChanged(key.name, new.view if isinstance(new, NodeRecord) else None, actions))

    def other(
        self, watched: WatchedKind
    ) -> Callable[[Key, Document | Unreadable | None, Document | Unreadable | None], None]:
        """The handler of a kind."""
        kind, resource = watched.kind, watched.event_resource

        def handle(key: Key, old: Document | Unreadable | None, new: Document | Unreadable | None) -> None:
            if isinstance(new, Unreadable):
                log.warning("object ignored", kind=kind, object=str(key), problem=new.problem)
            before = None if isinstance(old, Unreadable) else old
            after = None if isinstance(new, Unreadable) else new
            self._feed(ObjectChanged(kind, resource, key.namespace, key.name, before, after))
            if kind in STORAGE:
                self._storage_changed()

        return handle


def _report_actions(old: NodeReport, new: NodeReport) -> Action:
    """What changed of a node apart from what placement reads; heartbeats change nothing."""
    actions = update_events.NOTHING
    if old.status != new.status:
        actions |= Action.UPDATE_NODE_CONDITION
    if old.metadata != new.metadata:
        actions |= Action.UPDATE_NODE_ANNOTATION
    return actions
