"""Pods that have a node and wait for Permit plugins.

A plugin that asked a pod to wait allows or rejects it later through `Handle.waiting_pods`, at any time. When the
shortest timeout is over, the pod is rejected. Verdicts are collected here until the core takes them.
"""

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final

from rota.columns.pods import PodInfo
from rota.scheduler.cycle.scheduling_cycle import AssumedPod
from rota.scheduler.framework.status import SUCCESS, Code, Status


def _nothing() -> None:
    pass


class WaitingPod:
    """One waiting pod."""

    def __init__(
        self, taken: AssumedPod, waits_s: Mapping[str, float], now: float, settled: Callable[[], None]
    ) -> None:
        """`settled` is called once, with the first verdict."""
        self.taken: Final = taken
        self.since: Final = now
        #: The deadline of each plugin.
        self._pending: Final = {plugin: now + wait for plugin, wait in waits_s.items()}
        self._settled: Final = settled
        self.verdict: Status | None = None

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        return self.taken.pod

    @property
    def node_name(self) -> str:
        """Its node."""
        return self.taken.node_name

    @property
    def pending(self) -> tuple[str, ...]:
        """The plugins that have not allowed the pod yet."""
        return tuple(self._pending)

    @property
    def deadline(self) -> float:
        """When the shortest timeout is over."""
        return min(self._pending.values())

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of a plugin; it goes on when all plugins have allowed it."""
        self._pending.pop(plugin, None)
        if not self._pending:
            self._settle(SUCCESS)

    def reject(self, plugin: str, reason: str) -> None:
        """Reject the pod on behalf of a plugin; it returns to the queue."""
        self._settle(Status(Code.UNSCHEDULABLE, (reason,), plugin))

    def expire(self, now: float) -> None:
        """Reject the pod if the shortest timeout is over."""
        if self.verdict is None and now >= self.deadline:
            plugin = min(self._pending, key=self._pending.__getitem__)
            self.reject(plugin, f'rejected due to timeout after waiting at plugin "{plugin}"')

    def _settle(self, status: Status) -> None:
        if self.verdict is None:
            self.verdict = status
            self._settled()


class WaitingPods:
    """All waiting pods, by uid."""

    def __init__(self) -> None:
        self._pods: Final[dict[str, WaitingPod]] = {}
        #: No timeout is over before this.
        self._earliest = inf
        #: Whether some pod has a verdict.
        self.settled = False
        #: Called at every verdict, so that a driver that sleeps can wake up.
        self.wake: Callable[[], None] = _nothing

    def get(self, uid: str) -> WaitingPod | None:
        """A waiting pod, if it is one."""
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, taken: AssumedPod, now: float) -> None:
        """Add a waiting pod."""
        added = self._pods[taken.pod.uid] = WaitingPod(taken, taken.permission.waits_s, now, self._note)
        self._earliest = min(self._earliest, added.deadline)

    def next_deadline(self) -> float | None:
        """No timeout is over before this; None if there is no waiting pod."""
        return self._earliest if self._pods else None

    def take_settled(self, now: float) -> list[WaitingPod]:
        """Remove and return the pods with a verdict, those whose timeout is over included."""
        if now >= self._earliest:
            for each in self._pods.values():
                each.expire(now)
            self._earliest = min((each.deadline for each in self._pods.values() if each.verdict is None), default=inf)
        if not self.settled:
            return []
        self.settled = False
        taken = [each for each in self._pods.values() if each.verdict is not None]
        for each in taken:
            del self._pods[each.pod.uid]
        return taken

    def _note(self) -> None:
        self.settled = True
        self.wake()
