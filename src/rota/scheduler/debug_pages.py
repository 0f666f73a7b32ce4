"""Debug pages of a scheduler over HTTP (see `rota.kit.diagnostics`).

`/metrics`, `/configz`, `/healthz`, `/livez` and `/readyz` are kube-scheduler's. `/debug/queue` and `/debug/cache` dump
the queue and the cache. `/debug/compare` lists the cluster and shows where the cache differs from it.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from typing import Any, Final

import msgspec
from aiohttp import web

from rota.client.pods import PODS
from rota.client.verbs import Client, Selection
from rota.kit import diagnostics
from rota.kit.clock import Clock
from rota.kit.diagnostics import Address, Page
from rota.scheduler.cache import comparer
from rota.scheduler.cache import dumper as cache_dumping
from rota.scheduler.cache.comparer import Difference, Truth
from rota.scheduler.config import encoder
from rota.scheduler.ingest import watched_kinds
from rota.scheduler.queue import queue_dumper as queue_dumping
from rota.scheduler.service import NODES, Scheduler

#: The name under which kube-scheduler shows its configuration.
_CONFIG: Final = "componentconfig"
_LIVING: Final = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
#: A difference that is gone after this time was an event on its way.
_PAUSE_S: Final = 1.0


class DebugPages:
    """The pages of one scheduler."""

    def __init__(self, scheduler: Scheduler, client: Client, *, clock: Clock) -> None:
        self._scheduler: Final = scheduler
        self._client: Final = client
        self._clock: Final = clock

    @property
    def table(self) -> dict[str, Page]:
        """All pages by path."""
        return {
            **diagnostics.health(self._scheduler.metrics, ready=lambda: self._scheduler.synced),
            "/configz": self._configz,
            "/debug/queue": self._queue,
            "/debug/cache": self._cache,
            "/debug/compare": self._compare,
        }

    async def differences(self) -> list[Difference]:
        """Compare the cache with the cluster twice; a difference in both comparisons is a fault."""
        first = await self._differences()
        if not first:
            return []
        await self._clock.sleep(_PAUSE_S)
        return sorted(set(first) & set(await self._differences()))

    async def _differences(self) -> list[Difference]:
        truth = Truth(
            nodes=(await self._client.list(NODES)).items,
            pods=(await self._client.list(PODS, selection=_LIVING)).items,
            others={each.kind: (await self._client.list(each.target)).items for each in watched_kinds.BUILTIN.values()},
        )
        scheduler = self._scheduler
        waiting = {queued.pod.uid for queued in scheduler.queue.entries()}
        return comparer.compare(scheduler.cache, truth, waiting=waiting, profiles=set(scheduler.configuration.profiles))

    async def _configz(self, request: web.Request) -> web.Response:
        return _json({_CONFIG: encoder.to_document(self._scheduler.configuration.settings)})

    async def _queue(self, request: web.Request) -> web.Response:
        return _json(queue_dumping.dump(self._scheduler.queue, self._clock.monotonic()))

    async def _cache(self, request: web.Request) -> web.Response:
        return _json(cache_dumping.dump(self._scheduler.cache))

    async def _compare(self, request: web.Request) -> web.Response:
        found = await self.differences()
        return _json({"equal": not found, "differences": [asdict(each) for each in found]})


def serving(
    scheduler: Scheduler, client: Client, *, clock: Clock, address: Address
) -> AbstractAsyncContextManager[str]:
    """Serve the debug pages of a scheduler; yields the URL."""
    return diagnostics.serving(DebugPages(scheduler, client, clock=clock).table, address)


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.format(msgspec.json.encode(value)), content_type="application/json")
