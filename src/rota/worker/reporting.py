"""Tells the API how pods are. Of several statuses that pile up for one pod only the newest is written.

A deletion is confirmed only after the last status has arrived: what a pod ended with is not lost with it.
"""

import functools
from collections.abc import Callable
from typing import Any, Final

from rota.api import errors, meta
from rota.client.queues.work import WorkQueue
from rota.client.verbs import Client, Object, PatchType
from rota.kit.backoff import Chance
from rota.kit.clock import Clock

PODS: Final = ("", "v1", "pods")
_WORKERS: Final = 8


class Reporter:
    """Writes statuses and confirms deletions."""

    def __init__(self, client: Client, find: Callable[[str], Object | None], *, clock: Clock, chance: Chance) -> None:
        """`find` gives the pod of a uid as the API last had it."""
        self._client: Final = client
        self._find: Final = find
        self._statuses: Final[dict[str, dict[str, Any]]] = {}
        self._confirming: Final[set[str]] = set()
        self._queue: Final = WorkQueue[str](clock=clock, chance=chance, name="statuses")
        self.run: Final = functools.partial(self._queue.work, self._write, workers=_WORKERS)

    def tell(self, uid: str, status: dict[str, Any]) -> None:
        """This is how a pod is."""
        self._statuses[uid] = status
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
