"""Unschedulable pods, grouped so that an event is cheap.

Pods of one shape that the same plugins refused form an equivalence class. Classes are indexed by the plugins whose
subscriptions can wake them. An event visits only the classes that may be concerned, not all pods. If the hints read
only the shape, as their subscriptions say, one call decides for a whole class. So ten thousand copies of a pod cost as
much as one until they are woken, and pods without a matching subscription cost nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from rota.columns.pods import PodInfo, PodShape
from rota.scheduler.framework.events import ClusterEvent
from rota.scheduler.framework.queueing_hints import QueueingHintMap
from rota.scheduler.queue.entries import QueuedPod
from rota.scheduler.queue.in_flight_events import ObservedEvent


class HintResult(IntEnum):
    """The result of queueing hints for a pod."""

    NOTHING = 0
    #: Try again, after the backoff.
    RETRY = 1
    #: What a Pending plugin waited for has happened: try again at once.
    AT_ONCE = 2


class _ClassKey(NamedTuple):
    """What the pods of an equivalence class have in common."""

    profile: str
    shape: PodShape
    unschedulable_plugins: frozenset[str]
    pending: frozenset[str]
    gate: str


class _EquivalenceClass:
    """Pods that differ only in their identity."""

    __slots__ = ("kind", "listening_plugins", "members", "woken_by")

    def __init__(self, kind: _ClassKey) -> None:
        self.kind = kind
        self.members: dict[str, QueuedPod] = {}
        #: Plugins whose hints are called.
        self.woken_by: Collection[str] = (
            {*kind.unschedulable_plugins, kind.gate} if kind.gate else kind.unschedulable_plugins
        )
        #: Plugins of which one must subscribe to an event for a hint to be called; a gate excludes the others.
        self.listening_plugins: Collection[str] = (kind.gate,) if kind.gate else kind.unschedulable_plugins


class UnschedulablePods:
    """Unschedulable pods by uid."""

    __slots__ = ("_equivalence_classes", "_of", "_queueing_hints", "_waking")

    def __init__(self, queueing_hints: Mapping[str, QueueingHintMap]) -> None:
        self._queueing_hints = queueing_hints
        self._equivalence_classes: dict[_ClassKey, _EquivalenceClass] = {}
        self._of: dict[str, _EquivalenceClass] = {}
        #: Equivalence classes by profile and plugin.
        self._waking: dict[tuple[str, str], dict[_ClassKey, _EquivalenceClass]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, uid: object) -> bool:
        return uid in self._of

    def __iter__(self) -> Iterator[QueuedPod]:
        """All of them."""
        return (
            queued
            for equivalence_class in self._equivalence_classes.values()
            for queued in equivalence_class.members.values()
        )

    def put(self, queued: QueuedPod) -> None:
        """Add a pod, which must not be here."""
        shape = queued.pod.shape
        kind = _ClassKey(shape.scheduler_name, shape, queued.unschedulable_plugins, queued.pending, queued.gate)
        equivalence_class = self._equivalence_classes.get(kind)
        if equivalence_class is None:
            equivalence_class = self._equivalence_classes[kind] = _EquivalenceClass(kind)
            for plugin in equivalence_class.listening_plugins:
                self._waking.setdefault((kind.profile, plugin), {})[kind] = equivalence_class
        equivalence_class.members[queued.pod.uid] = queued
        self._of[queued.pod.uid] = equivalence_class

    def remove(self, uid: str) -> None:
        """Remove a pod."""
        equivalence_class = self._of.pop(uid)
        del equivalence_class.members[uid]
        if not equivalence_class.members:
            del self._equivalence_classes[equivalence_class.kind]
            for plugin in equivalence_class.listening_plugins:
                filed = self._waking[equivalence_class.kind.profile, plugin]
                del filed[equivalence_class.kind]
                if not filed:
                    del self._waking[equivalence_class.kind.profile, plugin]

    def woken(
        self, observed_event: ObservedEvent, *, up_to_priority: int | None = None
    ) -> list[tuple[QueuedPod, HintResult]]:
        """The pods that an event may help, up to a priority if one is given; they stay here."""
        found: list[tuple[QueuedPod, HintResult]] = []
        for equivalence_class in self._hearing(observed_event.event).values():
            if up_to_priority is not None and equivalence_class.kind.shape.priority > up_to_priority:
                continue
            queueing_hints = self._queueing_hints[equivalence_class.kind.profile]
            if _asked_as_one(queueing_hints, equivalence_class.woken_by, observed_event.event):
                first = next(iter(equivalence_class.members.values()))
                if worth := self._ask(queueing_hints, equivalence_class, first.pod, observed_event):
                    found += [(queued, worth) for queued in equivalence_class.members.values()]
            else:
                for queued in equivalence_class.members.values():
                    if worth := self._ask(queueing_hints, equivalence_class, queued.pod, observed_event):
                        found.append((queued, worth))
        return found

    def _hearing(self, event: ClusterEvent) -> dict[_ClassKey, _EquivalenceClass]:
        hearing: dict[_ClassKey, _EquivalenceClass] = {}
        for (profile, plugin), equivalence_classes in self._waking.items():
            if self._queueing_hints[profile].listening(plugin, event):
                hearing.update(equivalence_classes)
        return hearing

    @staticmethod
    def _ask(
        queueing_hints: QueueingHintMap,
        equivalence_class: _EquivalenceClass,
        pod: PodInfo,
        observed_event: ObservedEvent,
    ) -> HintResult:
        return hint_result_of(
            queueing_hints,
            pod,
            observed_event,
            unschedulable_plugins=equivalence_class.woken_by,
            pending=equivalence_class.kind.pending,
        )


def hint_result_of(
    queueing_hints: QueueingHintMap,
    pod: PodInfo,
    observed_event: ObservedEvent,
    *,
    unschedulable_plugins: Collection[str],
    pending: frozenset[str],
) -> HintResult:
    """The hint result of an event for a pod, by the plugins that refused it."""
    hopeful = queueing_hints.worth_trying(
        pod, unschedulable_plugins, observed_event.event, observed_event.old, observed_event.new
    )
    if not hopeful:
        return HintResult.NOTHING
    return HintResult.RETRY if pending.isdisjoint(hopeful) else HintResult.AT_ONCE


def _asked_as_one(queueing_hints: QueueingHintMap, plugins: Collection[str], event: ClusterEvent) -> bool:
    """Whether all hints for an event read only the shape of the pod."""
    return all(
        each.by_shape or each.hint is None for plugin in plugins for each in queueing_hints.listening(plugin, event)
    )
