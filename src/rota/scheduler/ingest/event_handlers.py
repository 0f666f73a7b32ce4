"""Informer event handlers: they update the cache and the queue, and wake the pods that a change may help.

Handlers run on the event loop, right after an informer's own cache has changed, and are fast. They decide nothing. An
object that cannot be decoded is treated as absent and reported by a callback.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from rota.client.informers.cache import Key
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.cache.scheduler_cache import NodeChange, SchedulerCache
from rota.scheduler.framework.events import Action, ClusterEvent, Resource
from rota.scheduler.ingest import decoder
from rota.scheduler.ingest.decoder import Document, Ended, NodeRecord, NodeReport, Unreadable
from rota.scheduler.ingest.watched_kinds import WatchedKind
from rota.scheduler.queue import update_events
from rota.scheduler.queue.scheduling_queue import SchedulingQueue

log = logs.get(__name__)

#: Kinds whose changes wake pending volume bindings.
STORAGE: Final = frozenset({"PersistentVolume", "PersistentVolumeClaim"})

#: Nodes that are handled at start before the event loop gets its turn.
_NODES_AT_ONCE: Final = 100
_PODS_AT_ONCE: Final = 500

_ASSIGNED_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
_WAITING_ADD: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD)
_WAITING_DELETE: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.DELETE)

Pod = PodInfo | Ended | Unreadable
Node = NodeRecord | Unreadable


class EventHandlers:
    """Event handlers of one scheduler; the queue that they feed may be replaced while they run."""

    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        *,
        clock: Clock,
        wake: Callable[[], None],
        gone: Callable[[str], None],
        unreadable: Callable[[Unreadable], None],
        storage_changed: Callable[[], None],
    ) -> None:
        """`wake` is called when a pod may be ready, `gone` with the uid of every pod that no longer needs a node."""
        self._cache: Final = cache
        self.queue = queue
        self._clock: Final = clock
        self._wake: Final = wake
        self._gone: Final = gone
        self._unreadable: Final = unreadable
        self._storage_changed: Final = storage_changed

    def pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """A pod was added, updated or deleted."""
        before = old if isinstance(old, PodInfo) else None
        if isinstance(new, Unreadable):
            self._unreadable(new)
        if not isinstance(new, PodInfo):
            if before is not None:
                self._lose(before)
        elif new.node_name:
            self._place(before, new)
        else:
            self._want(before, new)

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
            self._cache.add_pods(node, there)
            if number % _NODES_AT_ONCE == 0:
                await self._clock.sleep(0)
        for number, (key, pod) in enumerate(others, 1):
            self.pod(key, None, pod)
            if number % _PODS_AT_ONCE == 0:
                await self._clock.sleep(0)

    def _place(self, old: PodInfo | None, new: PodInfo) -> None:
        """A pod with a node was added or updated."""
        known = self._cache.add_or_update_pod(new)
        if new.uid in self.queue:
            self.queue.delete(new.uid)
            self._gone(new.uid)
        if old is None or not old.node_name:
            self._move(_ASSIGNED_ADD, None, new)
        elif actions := update_events.of_pod(known or old, new):
            self._move(ClusterEvent(Resource.ASSIGNED_POD, actions), known or old, new)

    def _want(self, old: PodInfo | None, new: PodInfo) -> None:
        """A pod without a node was added or updated."""
        if new.uid in self._cache.cluster.pods:
            self._cache.add_or_update_pod(new)
        if old is None:
            self.queue.add(new, self._clock.monotonic())
            self._move(_WAITING_ADD, None, new)
        else:
            self.queue.update(new, self._clock.monotonic())
            if self._cache.is_assumed(new.uid):
                # It counts on its node already.
                self.queue.withdraw(new.uid)
        if self.queue.ready:
            self._wake()

    def _lose(self, pod: PodInfo) -> None:
        """A pod was deleted or has ended."""
        nominated = self.queue.nominated_node(pod.uid)
        self.queue.delete(pod.uid)
        self._gone(pod.uid)
        known = self._cache.remove_pod(pod.uid)
        if known is not None or pod.node_name:
            self._move(ASSIGNED_DELETE, known or pod, None)
            return
        self._move(_WAITING_DELETE, pod, None)
        if nominated:
            # Its nominated place is free for the pods that had to respect it.
            self._move(ASSIGNED_DELETE, pod, None, up_to_priority=pod.priority)

    def node(self, key: Key, old: Node | None, new: Node | None) -> None:
        """A node was added, updated or deleted."""
        if isinstance(new, Unreadable):
            log.warning("node cannot be used", node=key.name, problem=new.problem)
        if new is None or isinstance(new, Unreadable):
            change = self._cache.remove_node(key.name)
        else:
            change = self._cache.set_node(new.view)
        actions = update_events.NOTHING if change is None else _actions(change)
        if self.queue and isinstance(old, NodeRecord) and isinstance(new, NodeRecord):
            actions |= _report_actions(decoder.report(old), decoder.report(new))
        if actions:
            before, after = (change.old, change.new) if change is not None else (self._cache.node(key.name),) * 2
            self._move(ClusterEvent(Resource.NODE, actions), before, after)

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
            if after is not None:
                self._cache.put(kind, after)
            else:
                self._cache.remove(kind, namespace=key.namespace, name=key.name)
            if resource is not None and (before is not None or after is not None):
                action = Action.ADD if before is None else Action.DELETE if after is None else Action.UPDATE
                self._move(ClusterEvent(resource, action), before, after)
            if kind in STORAGE:
                self._storage_changed()

        return handle

    def _move(self, event: ClusterEvent, old: Any, new: Any, *, up_to_priority: int | None = None) -> None:
        # Without pods in the queue no event can help; that is so at start, when very many events arrive.
        if self.queue and self.queue.move(event, old, new, now=self._clock.monotonic(), up_to_priority=up_to_priority):
            self._wake()


def _actions(change: NodeChange) -> Action:
    if change.old is None:
        return Action.ADD
    return Action.DELETE if change.new is None else update_events.of_node(change.old, change.new)


def _report_actions(old: NodeReport, new: NodeReport) -> Action:
    """What changed of a node apart from what placement reads; heartbeats change nothing."""
    actions = update_events.NOTHING
    if old.status != new.status:
        actions |= Action.UPDATE_NODE_CONDITION
    if old.metadata != new.metadata:
        actions |= Action.UPDATE_NODE_ANNOTATION
    return actions
