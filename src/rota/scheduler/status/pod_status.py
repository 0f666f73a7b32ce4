"""Writes pod status patches: the condition PodScheduled=False, and the nominated node.

Patches are sent concurrently with scheduling, with a limit. Several unsent patches for one pod are merged, and a patch
that equals the last one is not sent. A pod that is about to be bound waits for its patch first (`settled`), so that no
old condition is written after the binding.
"""

import asyncio
from functools import partial
from typing import Final, NamedTuple

from rota.api import errors
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, PatchType
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.status.fit_errors import NOTHING, PodStatusPatch
from rota.scheduler.status.object_references import ObjectReference

log = logs.get(__name__)

#: Concurrent patches.
AT_ONCE: Final = 8


class _Pending(NamedTuple):
    pod: ObjectReference
    note: PodStatusPatch


class PodStatusWriter:
    """Sends pod status patches."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._pending: Final[dict[str, _Pending]] = {}
        self._under_way: Final[dict[str, asyncio.Task[None]]] = {}
        #: Patches in flight.
        self._sending: Final[dict[str, PodStatusPatch]] = {}
        #: The last patch of each pod that still waits.
        self._written: Final[dict[str, PodStatusPatch]] = {}

    def write(self, pod: ObjectReference, note: PodStatusPatch) -> None:
        """Queue a patch."""
        earlier = self._pending.get(pod.uid)
        last = NOTHING if earlier is None else earlier.note
        told = self._sending.get(pod.uid, NOTHING).over(
            self._written.get(pod.uid, PodStatusPatch(nominated=pod.nominated_node))
        )
        known = last.over(told)
        if note.over(known) == known:
            return
        self._pending[pod.uid] = _Pending(pod, note.over(last))
        # In the next turn of the event loop, so that patches of this turn are merged.
        asyncio.get_running_loop().call_soon(self._pump)

    def forget(self, uid: str) -> None:
        """The pod is deleted or has a node: send nothing more for it."""
        self._pending.pop(uid, None)
        self._written.pop(uid, None)

    def busy(self, uid: str) -> bool:
        """Whether a patch for the pod is in flight."""
        return uid in self._under_way

    async def settled(self, uid: str) -> None:
        """Drop the unsent patch of a pod, and wait for the one in flight."""
        self._pending.pop(uid, None)
        while (task := self._under_way.get(uid)) is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        """Send nothing more, and wait for the patches in flight."""
        self._pending.clear()
        while self._under_way:
            await asyncio.wait(set(self._under_way.values()))

    def _pump(self) -> None:
        if len(self._under_way) >= AT_ONCE:
            return
        for uid in [uid for uid in self._pending if uid not in self._under_way][: AT_ONCE - len(self._under_way)]:
            pod, note = self._pending.pop(uid)
            task = asyncio.get_running_loop().create_task(self._send(pod, note))
            self._under_way[uid], self._sending[uid] = task, note
            task.add_done_callback(partial(self._ended, uid))

    def _ended(self, uid: str, _: "asyncio.Task[None]") -> None:
        del self._under_way[uid], self._sending[uid]
        self._pump()

    async def _send(self, pod: ObjectReference, note: PodStatusPatch) -> None:
        try:
            await self._client.patch(
                PODS,
                pod.name,
                note.patch(pod.uid, self._clock.now()),
                type=PatchType.STRATEGIC,
                namespace=pod.namespace,
                subresource="status",
            )
        except (errors.NotFound, errors.Conflict):
            # Deleted, or replaced by another pod of that name.
            self.forget(pod.uid)
        except (errors.ApiError, TransportError) as error:
            log.warning("pod status patch failed", pod=pod.key, error=error)
            # The outcome is unknown: the next patch is sent in full.
            self._written[pod.uid] = NOTHING
        else:
            self._written[pod.uid] = note.over(self._written.get(pod.uid, NOTHING))
