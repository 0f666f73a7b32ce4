"""The queues of batch scheduling and the groups in them, in memory, in step with the store.

A binding of a group's pod must not take more than the capability of the group's queue, and of the queues above it. The
scheduler of batches decides by the same figures; here they hold against any scheduler, also one that does not know the
newest bindings of another.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rota.api import conflict_reasons, quantities, resources
from rota.api.batch import kinds
from rota.apiserver.cache.reflector import StoreReflector, listed
from rota.apiserver.node_allocations.pod_shares import Collision, NodeAllocation, PodAllocation
from rota.kit.clock import Clock
from rota.store.store_interface import Batch, Entry, Store

PREFIX: Final = f"/{kinds.SCHEDULING}/"
_GROUPS: Final = f"{PREFIX}podgroups/"
_QUEUES: Final = f"{PREFIX}queues/"
#: How many queues above each other are looked at; a cycle ends there.
_DEEPEST: Final = 16
#: Of these, a capability of zero means none, as for Volcano's plugins.
_UNLIMITED_IF_ZERO: Final = frozenset({resources.CPU, resources.MEMORY})
_NOTHING: Final[Mapping[str, int]] = {}


class _QueueSpec(msgspec.Struct, gc=False):
    queue: str | None = None
    parent: str | None = None
    capability: dict[str, Any] | None = None


class _Object(msgspec.Struct, gc=False):
    spec: _QueueSpec | None = None


_glance: Final = msgspec.json.Decoder(_Object).decode


@dataclass(frozen=True, slots=True)
class Queue:
    """What a queue limits."""

    name: str
    #: The most that its pods may request together: CPU in thousandths, everything else in whole units.
    capability: Mapping[str, int]
    parent: str = ""


@dataclass(slots=True)
class QueueState:
    """All queues, and the queue of each group by namespace/name of the group."""

    queues: dict[str, Queue] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, value: bytes | None) -> None:
        """A stored queue or group as it is now; None if it is gone."""
        if key.startswith(_GROUPS):
            group = key.removeprefix(_GROUPS)
            if value is None:
                self.groups.pop(group, None)
            else:
                self.groups[group] = queue_of(value)
        elif key.startswith(_QUEUES):
            name = key.removeprefix(_QUEUES)
            if value is None:
                self.queues.pop(name, None)
            else:
                self.queues[name] = _queue(name, _glance(value).spec or _QueueSpec())

    @property
    def limits(self) -> bool:
        """Whether any queue has a limit."""
        return any(queue.capability for queue in self.queues.values())

    def limited(self, group: str) -> list[Queue]:
        """The queue of a group and those above it, as far as they have limits; none for a group that does not exist."""
        return self._limited_from(self.groups.get(group, ""))

    def _limited_from(self, name: str) -> list[Queue]:
        found: list[Queue] = []
        for _ in range(_DEEPEST):
            queue = self.queues.get(name)
            if queue is None:
                break
            if queue.capability:
                found.append(queue)
            name = queue.parent
        return found

    def totals(self, taken: Mapping[str, NodeAllocation]) -> dict[str, dict[str, int]]:
        """What the pods in each limited queue take together, from what the pods of each group take."""
        above = {name: self._limited_from(name) for name in self.queues}
        sums: dict[str, dict[str, int]] = {name: {} for name, queue in self.queues.items() if queue.capability}
        for group, allocation in taken.items():
            for queue in above.get(self.groups.get(group, ""), ()):
                count(sums[queue.name], allocation.amounts, allocation.pods)
        return sums

    def excess(self, group: str, share: PodAllocation, taken: Mapping[str, Mapping[str, int]]) -> Collision | None:
        """The first limit that one more pod of a group exceeds; `taken` is from `totals`."""
        for queue in self.limited(group):
            for resource, most in queue.capability.items():
                wanted = 1 if resource == resources.PODS else share.requests.get(resource, 0)
                used = taken.get(queue.name, _NOTHING).get(resource, 0)
                if wanted and used + wanted > most:
                    shown = [resources.shown(resource, one) for one in (most, used, wanted)]
                    message = f"queue {queue.name} has {shown[0]} of {resource}, {shown[1]} taken, {shown[2]} requested"
                    return Collision("QueueLimitExceeded", queue.name, message, conflict_reasons.QUOTA)
        return None


def group_key(group: str) -> str:
    """The store key of a group, given as namespace/name."""
    return f"{_GROUPS}{group}"


def queue_of(group: bytes) -> str:
    """The queue of a stored group."""
    spec = _glance(group).spec
    return (spec.queue if spec is not None else None) or kinds.DEFAULT_QUEUE


def count(amounts: dict[str, int], more: Mapping[str, int], pods: int) -> None:
    """Add what pods take to a sum, with their number."""
    amounts[resources.PODS] = amounts.get(resources.PODS, 0) + pods
    for resource, amount in more.items():
        amounts[resource] = amounts.get(resource, 0) + amount


class QueueIndex:
    """Follows queues and groups while `run` runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store: Final = store
        self._follower: Final = StoreReflector(store, PREFIX, self, clock=clock)
        self._state: QueueState | None = None
        self._coming = QueueState()

    async def run(self) -> None:
        """Watch until cancelled or the store is closed."""
        await self._follower.run()

    async def state(self, revision: int = 0) -> QueueState:
        """Everything up to a revision; with 0, what is known."""
        if self._state is not None and await self._follower.reach(revision) and self._state is not None:
            return self._state
        state = QueueState()
        async for entry, _ in listed(self._store, PREFIX):
            if entry is not None:
                state.put(entry.key, entry.value)
        return state

    # The reflector's sink

    def begin(self) -> None:
        """See `Sink.begin`."""
        self._coming = QueueState()

    def add(self, entry: Entry, /) -> None:
        """See `Sink.add`."""
        self._coming.put(entry.key, entry.value)

    def begun(self, revision: int, /) -> None:
        """See `Sink.begun`."""
        self._state, self._coming = self._coming, QueueState()

    def take(self, batch: Batch, /) -> None:
        """See `Sink.take`."""
        assert self._state is not None, "changes come after a list"
        for event in batch.events:
            self._state.put(event.key, event.value)

    def lost(self) -> None:
        """See `Sink.lost`."""
        self._state = None


def _queue(name: str, spec: _QueueSpec) -> Queue:
    amounts: dict[str, int] = {}
    for resource, quantity in (spec.capability or {}).items():
        # The pattern of Volcano's definition also matches what is no quantity, such as 1e99999999. It limits nothing.
        with contextlib.suppress(quantities.QuantityError):
            amounts[resource] = resources.amount(resource, quantity)
    limits = {resource: most for resource, most in amounts.items() if most or resource not in _UNLIMITED_IF_ZERO}
    parent = spec.parent or ("" if name == kinds.ROOT_QUEUE else kinds.ROOT_QUEUE)
    return Queue(name, limits, parent)
