"""Tells the API how pods are. Of several statuses that pile up for one pod only the newest is written.

A write costs the masters more than a short task costs its worker, so none is made that says nothing. That containers
are being made is told only where it takes a while. That a pod runs is told at once, unless very many do: then it waits
for a moment, in which a short task has ended, and one write tells both.

A deletion is confirmed only after the last status has arrived: what a pod ended with is not lost with it.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from rota.api import errors, meta
from rota.client.queues.work import WorkQueue
from rota.client.verbs import Client, Object, PatchType
from rota.kit.backoff import Chance
from rota.kit.buckets import TokenBucket
from rota.kit.clock import Clock

PODS: Final = ("", "v1", "pods")
#: Statuses on their way at a time.
_WORKERS: Final = 16
_PATIENCE_S: Final = 10.0
#: How many pods a second are told to run at once, after how many in a row; how long others may take to end before that.
_PROMPT_RATE: Final = 25.0
_PROMPT_BURST: Final = 10
_MOMENT_S: Final = 0.03
#: How long a pod may be about to start before that is told.
_STARTING_S: Final = 0.5
_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})


class Reporter:
    """Writes statuses and confirms deletions."""

    def __init__(self, client: Client, find: Callable[[str], Object | None], *, clock: Clock, chance: Chance) -> None:
        """`find` gives the pod of a uid as the API last had it."""
        # A master that hangs is not worth a longer wait: there may be others.
        self._client: Final = client.with_settings(timeout_s=_PATIENCE_S)
        self._find: Final = find
        self._statuses: Final[dict[str, dict[str, Any]]] = {}
        self._confirming: Final[set[str]] = set()
        self._clock: Final = clock
        self._prompt: Final = TokenBucket(rate=_PROMPT_RATE, burst=_PROMPT_BURST, now=clock.monotonic())
        self._queue: Final = WorkQueue[str](clock=clock, chance=chance, name="statuses")
        self.run: Final = functools.partial(self._queue.work, self._write, workers=_WORKERS)

    def tell(self, uid: str, status: dict[str, Any]) -> None:
        """This is how a pod is."""
        self._statuses[uid] = status
        if _is_starting(status):
            self._queue.add_after(uid, _STARTING_S)
        elif status.get("phase") == "Running" and not self._prompt.take(self._clock.monotonic()):
            self._queue.add_after(uid, _MOMENT_S)
        else:
            self._queue.add(uid)

    def confirm(self, uid: str) -> None:
        """Nothing of a pod runs any more."""
        self._confirming.add(uid)
        self._queue.add(uid)

    async def _write(self, uid: str) -> None:
        pod, status = self._find(uid), self._statuses.pop(uid, None)
        if pod is None:
            self._forget(uid)
            return
        name, namespace = meta.name(pod), meta.namespace(pod)
        try:
            if status is not None:
                await self._write_status(uid, name, namespace, status)
            if uid in self._confirming and uid not in self._statuses:
                await self._client.delete(PODS, name, namespace=namespace, grace_period_s=0, uid=uid)
                self._confirming.discard(uid)
        except (errors.NotFound, errors.Conflict):
            # Gone, or another one has its name: the watch tells which.
            self._forget(uid)

    async def _write_status(self, uid: str, name: str, namespace: str, status: dict[str, Any]) -> None:
        # The uid in it makes it a conflict if another pod has taken the name.
        patch = {"metadata": {"uid": uid}, "status": status}
        try:
            await self._client.patch(
                PODS, name, patch, type=PatchType.STRATEGIC, namespace=namespace, subresource="status"
            )
        except BaseException:
            # Not told yet, unless something newer is waiting to be.
            self._statuses.setdefault(uid, status)
            raise

    def _forget(self, uid: str) -> None:
        self._confirming.discard(uid)
        self._statuses.pop(uid, None)


def _is_starting(status: Mapping[str, Any]) -> bool:
    """Whether all that a status says is that a pod has come and nothing of it has run yet."""
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return status.get("phase") == "Pending" and all(
        (one["state"].get("waiting") or {}).get("reason") in _STARTING for one in containers
    )
