"""What the scheduler writes on pods: the condition PodScheduled=False, and the node that they are to come to.

Notes are written beside the scheduling, a bounded number at a time; of several for one pod that were not written yet
only the sum is, and one that says what was written last is left out. A pod that is about to be bound waits for its note
first (`settled`), so that no old refusal is written over the news that it has a node.
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

#: Notes under way at a time.
AT_ONCE: Final = 8


class _Pending(NamedTuple):
    pod: ObjectReference
    note: PodStatusPatch


class PodStatusWriter:
    """Writes notes on pods."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._pending: Final[dict[str, _Pending]] = {}
        self._under_way: Final[dict[str, asyncio.Task[None]]] = {}
        #: What they are about to tell.
        self._sending: Final[dict[str, PodStatusPatch]] = {}
        #: What each pod that still waits was told last.
        self._written: Final[dict[str, PodStatusPatch]] = {}

    def write(self, pod: ObjectReference, note: PodStatusPatch) -> None:
        """Have a note written soon."""
        earlier = self._pending.get(pod.uid)
        last = NOTHING if earlier is None else earlier.note
        told = self._sending.get(pod.uid, NOTHING).over(
            self._written.get(pod.uid, PodStatusPatch(nominated=pod.nominated_node))
        )
        known = last.over(told)
        if note.over(known) == known:
            return
        self._pending[pod.uid] = _Pending(pod, note.over(last))
        # Not at once: what is written in the same breath is one note.
        asyncio.get_running_loop().call_soon(self._pump)

    def forget(self, uid: str) -> None:
        """The pod has gone, or has a node: nothing more is written on it."""
        self._pending.pop(uid, None)
        self._written.pop(uid, None)

    def busy(self, uid: str) -> bool:
        """Whether a note for the pod is under way."""
        return uid in self._under_way

    async def settled(self, uid: str) -> None:
        """Drop what was not begun for a pod, and wait for what was."""
        self._pending.pop(uid, None)
        while (task := self._under_way.get(uid)) is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        """Write nothing more, and wait for what is under way."""
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
            # Gone, or another pod of that name: nobody is left to be told.
            self.forget(pod.uid)
        except (errors.ApiError, TransportError) as error:
            log.warning("pod not told why it waits", pod=pod.key, error=error)
            # It may have been written or not: whatever is to be told next is told in full.
            self._written[pod.uid] = NOTHING
        else:
            self._written[pod.uid] = note.over(self._written.get(pod.uid, NOTHING))
