"""Changes of the cluster: they update the cache and the queue, and wake the pods that a change may help.

Decides nothing. Every pod that no longer needs a node is reported by its uid.
"""

from collections.abc import Callable
from typing import Any, Final

from rota.columns.pods import PodInfo
from rota.scheduler.cache.scheduler_cache import NodeChange, SchedulerCache
from rota.scheduler.core.events import NodeChanged, ObjectChanged
from rota.scheduler.framework.events import Action, ClusterEvent, Resource
from rota.scheduler.queue import update_events
from rota.scheduler.queue.scheduling_queue import SchedulingQueue

_ASSIGNED_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
_WAITING_ADD: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD)
_WAITING_DELETE: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.DELETE)


class ClusterFeed:
    """Feeds one cache and its queue, which may be replaced."""

    def __init__(self, cache: SchedulerCache, queue: SchedulingQueue, *, gone: Callable[[str], None]) -> None:
        """`gone` is called with the uid of every pod that no longer needs a node."""
        self._cache: Final = cache
        self.queue = queue
        self._gone: Final = gone

    def pod(self, old: PodInfo | None, new: PodInfo | None, now: float) -> None:
        """A pod was added, updated or deleted."""
        if new is None:
            if old is not None:
                self._lose(old, now)
        elif new.node_name:
            self._place(old, new, now)
        else:
            self._want(old, new, now)

    def _place(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        """A pod with a node was added or updated."""
        known = self._cache.add_or_update_pod(new)
        if new.uid in self.queue:
            self.queue.delete(new.uid)
            self._gone(new.uid)
        if old is None or not old.node_name:
            self._move(_ASSIGNED_ADD, None, new, now)
        elif actions := update_events.of_pod(known or old, new):
            self._move(ClusterEvent(Resource.ASSIGNED_POD, actions), known or old, new, now)

    def _want(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        """A pod without a node was added or updated."""
        if new.uid in self._cache.cluster.pods:
            self._cache.add_or_update_pod(new)
        if old is None:
            self.queue.add(new, now)
            self._move(_WAITING_ADD, None, new, now)
        else:
            self.queue.update(new, now)
            if self._cache.is_assumed(new.uid):
                # It counts on its node already.
                self.queue.withdraw(new.uid)

    def _lose(self, pod: PodInfo, now: float) -> None:
        """A pod was deleted or has ended."""
        nominated = self.queue.nominated_node(pod.uid)
        self.queue.delete(pod.uid)
        self._gone(pod.uid)
        known = self._cache.remove_pod(pod.uid)
        if known is not None or pod.node_name:
            self._move(ASSIGNED_DELETE, known or pod, None, now)
            return
        self._move(_WAITING_DELETE, pod, None, now)
        if nominated:
            # Its nominated place is free for the pods that had to respect it.
            self._move(ASSIGNED_DELETE, pod, None, now, up_to_priority=pod.priority)

    def node(self, event: NodeChanged, now: float) -> None:
        """A node was added, updated or deleted."""
        change = self._cache.remove_node(event.name) if event.node is None else self._cache.set_node(event.node)
        actions = event.actions if change is None else event.actions | _actions(change)
        if actions:
            before, after = (change.old, change.new) if change is not None else (self._cache.node(event.name),) * 2
            self._move(ClusterEvent(Resource.NODE, actions), before, after, now)

    def other(self, event: ObjectChanged, now: float) -> None:
        """An object of another kind was added, updated or deleted."""
        old, new = event.old, event.new
        if new is not None:
            self._cache.put(event.kind, new)
        else:
            self._cache.remove(event.kind, namespace=event.namespace, name=event.name)
        if event.resource is not None and (old is not None or new is not None):
            action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
            self._move(ClusterEvent(event.resource, action), old, new, now)

    def _move(self, event: ClusterEvent, old: Any, new: Any, now: float, *, up_to_priority: int | None = None) -> None:
        # Without pods in the queue no event can help; that is so at start, when very many events arrive.
        if self.queue:
            self.queue.move(event, old, new, now=now, up_to_priority=up_to_priority)


def _actions(change: NodeChange) -> Action:
    if change.old is None:
        return Action.ADD
    return Action.DELETE if change.new is None else update_events.of_node(change.old, change.new)
