"""Pods that wait for something to happen, kept so that an event costs no more than it must.

Pods of one shape that the same plugins turned away form a cohort, and cohorts are filed under the plugins whose
subscriptions can wake them. An event goes through the cohorts that may hear of it, not through all pods; where hints
read only the shape, which the subscriptions say, one question answers for a whole cohort. So ten thousand copies of a
pod cost as much as one until they are woken, and pods that nobody listens for cost nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from rota.columns.pods import PodInfo, PodShape
from rota.scheduler.framework.events import ClusterEvent
from rota.scheduler.framework.queueing import WakeUps
from rota.scheduler.queue.entries import QueuedPod
from rota.scheduler.queue.flights import Happening


class Worth(IntEnum):
    """What an event is worth to a pod."""

    NOTHING = 0
    #: Try again, after the rest that is due.
    RETRY = 1
    #: What the pod only waited for has happened: try again at once.
    AT_ONCE = 2


class _Kind(NamedTuple):
    """What the pods of a cohort have in common."""

    profile: str
    shape: PodShape
    rejectors: frozenset[str]
    pending: frozenset[str]
    gate: str


class _Cohort:
    """Pods that only their names tell apart."""

    __slots__ = ("ears", "kind", "members", "woken_by")

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind
        self.members: dict[str, QueuedPod] = {}
        #: Plugins whose hints are asked.
        self.woken_by: Collection[str] = {*kind.rejectors, kind.gate} if kind.gate else kind.rejectors
        #: Plugins of which one must have subscribed to an event for anybody to be asked: a gate silences the others.
        self.ears: Collection[str] = (kind.gate,) if kind.gate else kind.rejectors


class Pool:
    """Waiting pods by uid."""

    __slots__ = ("_cohorts", "_of", "_wake_ups", "_waking")

    def __init__(self, wake_ups: Mapping[str, WakeUps]) -> None:
        self._wake_ups = wake_ups
        self._cohorts: dict[_Kind, _Cohort] = {}
        self._of: dict[str, _Cohort] = {}
        #: Cohorts by profile and plugin.
        self._waking: dict[tuple[str, str], dict[_Kind, _Cohort]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, uid: object) -> bool:
        return uid in self._of

    def __iter__(self) -> Iterator[QueuedPod]:
        """All of them."""
        return (queued for cohort in self._cohorts.values() for queued in cohort.members.values())

    def put(self, queued: QueuedPod) -> None:
        """Let a pod wait; it must not be here."""
        shape = queued.pod.shape
        kind = _Kind(shape.scheduler_name, shape, queued.rejectors, queued.pending, queued.gate)
        cohort = self._cohorts.get(kind)
        if cohort is None:
            cohort = self._cohorts[kind] = _Cohort(kind)
            for plugin in cohort.ears:
                self._waking.setdefault((kind.profile, plugin), {})[kind] = cohort
        cohort.members[queued.pod.uid] = queued
        self._of[queued.pod.uid] = cohort

    def remove(self, uid: str) -> None:
        """Take a pod out."""
        cohort = self._of.pop(uid)
        del cohort.members[uid]
        if not cohort.members:
            del self._cohorts[cohort.kind]
            for plugin in cohort.ears:
                filed = self._waking[cohort.kind.profile, plugin]
                del filed[cohort.kind]
                if not filed:
                    del self._waking[cohort.kind.profile, plugin]

    def woken(self, happening: Happening, *, up_to_priority: int | None = None) -> list[tuple[QueuedPod, Worth]]:
        """Give the pods that an event may help, of at most some priority if one is given; they stay here."""
        found: list[tuple[QueuedPod, Worth]] = []
        for cohort in self._hearing(happening.event).values():
            if up_to_priority is not None and cohort.kind.shape.priority > up_to_priority:
                continue
            wake_ups = self._wake_ups[cohort.kind.profile]
            if _asked_as_one(wake_ups, cohort.woken_by, happening.event):
                first = next(iter(cohort.members.values()))
                if worth := self._ask(wake_ups, cohort, first.pod, happening):
                    found += [(queued, worth) for queued in cohort.members.values()]
            else:
                for queued in cohort.members.values():
                    if worth := self._ask(wake_ups, cohort, queued.pod, happening):
                        found.append((queued, worth))
        return found

    def _hearing(self, event: ClusterEvent) -> dict[_Kind, _Cohort]:
        hearing: dict[_Kind, _Cohort] = {}
        for (profile, plugin), cohorts in self._waking.items():
            if self._wake_ups[profile].listening(plugin, event):
                hearing.update(cohorts)
        return hearing

    @staticmethod
    def _ask(wake_ups: WakeUps, cohort: _Cohort, pod: PodInfo, happening: Happening) -> Worth:
        return worth_of(wake_ups, pod, happening, rejectors=cohort.woken_by, pending=cohort.kind.pending)


def worth_of(
    wake_ups: WakeUps,
    pod: PodInfo,
    happening: Happening,
    *,
    rejectors: Collection[str],
    pending: frozenset[str],
) -> Worth:
    """Ask the plugins that turned a pod away what an event is worth to it."""
    hopeful = wake_ups.worth_trying(pod, rejectors, happening.event, happening.old, happening.new)
    if not hopeful:
        return Worth.NOTHING
    return Worth.RETRY if pending.isdisjoint(hopeful) else Worth.AT_ONCE


def _asked_as_one(wake_ups: WakeUps, plugins: Collection[str], event: ClusterEvent) -> bool:
    """Whether all who have a say about an event read nothing but the shape of the pod."""
    return all(each.by_shape or each.hint is None for plugin in plugins for each in wake_ups.listening(plugin, event))
