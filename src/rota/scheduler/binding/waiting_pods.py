"""Pods that have a node and wait for Permit plugins.

A plugin that asked a pod to wait allows or rejects it later through `Handle.waiting_pods`. When the shortest timeout is
over, the pod is rejected. All calls are made on the event loop's thread, so there are no locks.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from rota.columns.pods import PodInfo
from rota.kit.clock import Clock
from rota.scheduler.framework.status import SUCCESS, Code, Status


class WaitingPod:
    """One waiting pod."""

    def __init__(self, pod: PodInfo, node_name: str, waits_s: Mapping[str, float], now: float) -> None:
        self.pod: Final = pod
        self.node_name: Final = node_name
        #: The deadline of each plugin.
        self._pending: Final = {plugin: now + wait for plugin, wait in waits_s.items()}
        self._verdict: Final[asyncio.Future[Status]] = asyncio.get_running_loop().create_future()

    @property
    def pending(self) -> tuple[str, ...]:
        """The plugins that have not allowed the pod yet."""
        return tuple(self._pending)

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of a plugin; it goes on when all plugins have allowed it."""
        self._pending.pop(plugin, None)
        if not self._pending:
            self._settle(SUCCESS)

    def reject(self, plugin: str, reason: str) -> None:
        """Reject the pod on behalf of a plugin; it returns to the queue."""
        self._settle(Status(Code.UNSCHEDULABLE, (reason,), plugin))

    def _settle(self, status: Status) -> None:
        if not self._verdict.done():
            self._verdict.set_result(status)

    async def verdict(self, clock: Clock) -> Status:
        """Wait until all plugins have allowed the pod, one has rejected it, or the shortest timeout is over."""
        while not self._verdict.done():
            plugin, until = min(self._pending.items(), key=lambda each: each[1])
            try:
                return await clock.wait_for(asyncio.shield(self._verdict), max(until - clock.monotonic(), 0.0))
            except TimeoutError:
                if plugin in self._pending and clock.monotonic() >= until:
                    self.reject(plugin, f'rejected due to timeout after waiting at plugin "{plugin}"')
        return self._verdict.result()


class WaitingPods:
    """All waiting pods, by uid."""

    def __init__(self) -> None:
        self._pods: Final[dict[str, WaitingPod]] = {}

    def get(self, uid: str) -> WaitingPod | None:
        """A waiting pod, if it is one."""
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, pod: WaitingPod) -> None:
        """Add a waiting pod."""
        self._pods[pod.pod.uid] = pod

    def remove(self, uid: str) -> None:
        """Remove a pod that no longer waits."""
        self._pods.pop(uid, None)
