"""Between the informer of pods and the core of one of several schedulers: waiting pods of others are kept back.

Pods with a node are all passed on, since they use the node. Of pods without a node, the core gets
those that are decided here. When the shard map changes, gained pods are added and lost ones removed; a lost pod whose
attempt has begun stays until the attempt ends. If the operator chose so, what others bind is kept back until the part
of the cluster that it concerns is learned (`node_knowledge`).
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from rota.client.informers.cache import Key
from rota.columns.pods import PodInfo
from rota.scheduler.core.events import Event, PodChanged
from rota.scheduler.core.scheduler_core import SchedulerCore
from rota.scheduler.ingest.event_handlers import EventHandlers, Pod
from rota.scheduler.queue.entries import QueueState
from rota.scheduler.sharding.node_knowledge import Change, NodeKnowledge
from rota.scheduler.sharding.ownership import Ownership

_UNDER_WAY: Final = frozenset({QueueState.IN_FLIGHT, QueueState.BINDING})


class ShardFeed:
    """The pods of the cluster as one scheduler gets them."""

    def __init__(
        self,
        ownership: Ownership,
        core: SchedulerCore,
        handlers: EventHandlers,
        feed: Callable[[Event], None],
        knowledge: NodeKnowledge,
    ) -> None:
        self._ownership: Final = ownership
        self._knowledge: Final = knowledge
        self._core: Final = core
        self._handlers: Final = handlers
        self._feed: Final = feed
        #: Waiting pods that others decide, by uid.
        self._foreign: Final[dict[str, PodInfo]] = {}

    def pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """A pod was added, updated or deleted."""
        if isinstance(new, PodInfo) and not new.node_name and not self._ownership.owns(new):
            if self._keep_back(new):
                self._handlers.pod(key, old, new)
            return
        if isinstance(new, PodInfo) and not new.node_name:
            old = None if self._foreign.pop(new.uid, None) is not None else old
        else:
            for one in (old, new):
                if isinstance(one, PodInfo):
                    self._foreign.pop(one.uid, None)
                    self._ownership.forget(one.uid)
        if self._knowledge.holds(key) or (self._knowledge.partial and self._concerns_others(old, new)):
            self.apply(self._knowledge.hold((key, old, new)))
        else:
            self._handlers.pod(key, old, new)

    def apply(self, changes: Iterable[Change]) -> None:
        """Tell the core about changes that were kept back."""
        for key, old, new in changes:
            self._handlers.pod(key, old, new)

    def _concerns_others(self, old: Pod | None, new: Pod | None) -> bool:
        """Whether it is about a pod on a node that this scheduler has not bound itself just now."""
        pods = [one for one in (old, new) if isinstance(one, PodInfo)]
        return any(one.node_name for one in pods) and not any(
            self._core.queue.get(one.uid) is not None or self._core.cache.is_assumed(one.uid) for one in pods
        )

    async def first_pods(self, pods: Collection[tuple[Key, Pod]]) -> None:
        """Handle all pods of the initial list."""
        passed: list[tuple[Key, Pod]] = []
        for key, pod in pods:
            if isinstance(pod, PodInfo) and not pod.node_name and not self._ownership.owns(pod):
                self._foreign[pod.uid] = pod
            else:
                passed.append((key, pod))
        await self._handlers.first_pods(passed)

    def reassign(self) -> int:
        """Take gained pods, give lost ones away; returns the number of lost pods whose attempts have not ended."""
        owns = self._ownership.owns
        for pod in [one for one in self._foreign.values() if owns(one)]:
            del self._foreign[pod.uid]
            self._feed(PodChanged(None, pod))
        return sum(self._keep_back(queued.pod) for queued in list(self._core.queue.entries()) if not owns(queued.pod))

    def _keep_back(self, pod: PodInfo) -> bool:
        """Keep a pod from the core; returns whether an attempt for it is under way, which goes on."""
        queued = self._core.queue.get(pod.uid)
        if queued is not None and queued.place in _UNDER_WAY:
            # If Permit plugins hold the pod, nothing has been sent yet.
            self._core.revoke(pod.uid, "another scheduler decides this pod now")
            return True
        if queued is not None:
            self._feed(PodChanged(queued.pod, None))
        self._foreign[pod.uid] = pod
        return False
