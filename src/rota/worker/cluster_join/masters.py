"""Keeps a worker's addresses of the masters up to date: it watches the Leases by which masters register themselves.

A worker that was given one master learns the others as soon as it has joined, and each later one. An address that an
operator gave stays. One that came from a Lease is removed with the Lease.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from rota.api import errors, meta
from rota.client import masters
from rota.client.masters import Master
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.client.wire import EventType
from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)

#: Pause after a broken watch, and if Leases may not be read, as on nodes of a stock cluster.
_AGAIN_S: Final = 1.0
_FORBIDDEN_S: Final = 600.0


class MasterAddresses:
    """The masters' addresses, which change."""

    def __init__(
        self,
        client: Client,
        known: tuple[str, ...],
        *,
        install: Callable[[tuple[str, ...]], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """`install` is called with all addresses whenever they change."""
        self._client: Final = client
        self._install: Final = install
        self._clock: Final = clock
        self._known = known
        #: Addresses that come, or once came, from a Lease.
        self._from_leases: set[str] = set()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            pause = _AGAIN_S
            try:
                await self._watch()
            except (errors.Forbidden, errors.NotFound):
                pause = _FORBIDDEN_S
            except (errors.ApiError, TransportError) as problem:
                log.debug("the watch of the masters' Leases ended", error=problem)
            await self._clock.sleep(pause)

    async def _watch(self) -> None:
        found = await self._client.list(masters.LEASES, namespace=masters.NAMESPACE, selection=masters.SELECTION)
        by_name = {meta.name(one): masters.read(one) for one in found.items}
        await self._take(by_name)
        watching = self._client.watch(
            masters.LEASES,
            namespace=masters.NAMESPACE,
            selection=masters.SELECTION,
            resource_version=found.resource_version,
        )
        async with watching as events:
            async for event in events:
                if event.type == EventType.BOOKMARK:
                    continue
                if event.type == EventType.DELETED:
                    by_name.pop(meta.name(event.object), None)
                else:
                    by_name[meta.name(event.object)] = masters.read(event.object)
                await self._take(by_name)

    async def _take(self, by_name: dict[str, Master | None]) -> None:
        listed = [one.address for one in by_name.values() if one is not None]
        newer = merged(self._known, listed, self._from_leases)
        self._from_leases |= set(listed)
        if set(newer) != set(self._known):
            log.info("masters", servers=", ".join(newer))
            self._known = newer
            await self._install(newer)


def merged(known: tuple[str, ...], listed: list[str], from_leases: set[str]) -> tuple[str, ...]:
    """The new addresses: without those whose Leases are gone, with the new ones.

    A loopback address means the worker's own machine, so it is used only if the worker already reaches a master that
    way.
    """
    kept = [one for one in known if one in listed or one not in from_leases]
    local = any(map(masters.is_loopback, known))
    new = [one for one in listed if one not in known and (local or not masters.is_loopback(one))]
    return (*kept, *new) or known
