"""A worker as a process of its own: a member of a cluster elsewhere, with an endpoint that masters reach it by.

    joined = await entry.enter(folder, name, invitation, clock=clock, chance=chance)
    async with standalone.running_worker(joined, settings, listener=listener, clock=clock, chance=chance) as worker:
        await worker.wait()

Its certificates are renewed while it runs: calls go on with the newer one, the endpoint shows it from the next
handshake on.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec

from rota.api import errors
from rota.client import connecting
from rota.client.transports.contract import TransportError
from rota.client.transports.replaceable import ReplaceableTransport
from rota.client.transports.retries import RetryingTransport
from rota.client.verbs import Client, PatchType
from rota.kit import tasks
from rota.kit.backoff import Chance
from rota.kit.clock import Clock
from rota.pki import contexts, pinning
from rota.pki.certificates import Identity, Names
from rota.worker import running
from rota.worker.endpoint import serving
from rota.worker.joining import membership, renewing, requests
from rota.worker.joining.masters import MasterAddresses
from rota.worker.joining.membership import Membership
from rota.worker.node import KEY_ANNOTATION, NODES
from rota.worker.running import Settings, Worker

_AGENT: Final = "rota-worker"


@contextlib.asynccontextmanager
async def joined_client(
    joined: Membership, settings: Settings, *, clock: Clock, chance: Chance
) -> AsyncIterator[Client]:
    """A client with the worker's own certificate, which knows all masters; both are kept up to date in the block."""
    connection = _Connection(joined, settings.folder)
    transport = RetryingTransport(connection.transport, clock=clock, chance=chance)
    client = Client(transport).with_settings(user_agent=_AGENT)

    async def renew(fresh: Identity) -> None:
        await connection.renew(fresh)
        # The next start writes it as well.
        with contextlib.suppress(errors.ApiError, TransportError):
            changed = {"metadata": {"annotations": {KEY_ANNOTATION: _key(fresh)}}}
            await client.patch(NODES, settings.node, changed, type=PatchType.MERGE)

    certificate = renewing.Certificate(
        client, settings.node, requests.CLIENT, joined.identity, install=renew, clock=clock, chance=chance
    )
    addresses = MasterAddresses(client, connection.servers, install=connection.move, clock=clock)
    try:
        async with tasks.Supervisor("membership", clock=clock, chance=chance) as supervisor:
            supervisor.start("certificate", certificate.run)
            supervisor.start("masters", addresses.run)
            yield client
    finally:
        await transport.close()


class _Connection:
    """How a worker calls its masters now: with which certificate, at which addresses. Changes are kept on disk."""

    def __init__(self, joined: Membership, folder: Path) -> None:
        self._joined = joined
        self._folder: Final = folder
        self._failover = connecting.over_http(joined.endpoint)
        self.transport: Final = ReplaceableTransport(self._failover)
        self._changing: Final = asyncio.Lock()

    @property
    def servers(self) -> tuple[str, ...]:
        """The masters' addresses, the one that calls go to first."""
        endpoint, number = self._joined.endpoint, self._failover.current
        found = (endpoint.server, *endpoint.fallbacks)
        return (*found[number:], *found[:number])

    async def renew(self, fresh: Identity) -> None:
        """Use a newer certificate."""
        async with self._changing:
            await self._use(self._joined.at(self.servers).renewed(fresh))

    async def move(self, servers: tuple[str, ...]) -> None:
        """Use these addresses; the master that answers now stays the first, if it is among them."""
        async with self._changing:
            ordered = [one for one in self.servers if one in servers]
            await self._use(self._joined.at(tuple(dict.fromkeys((*ordered, *servers)))))

    async def _use(self, newer: Membership) -> None:
        await asyncio.to_thread(membership.save, self._folder, newer)
        self._joined, self._failover = newer, connecting.over_http(newer.endpoint)
        await self.transport.replace(self._failover)


@contextlib.asynccontextmanager
async def running_worker(
    joined: Membership, settings: Settings, *, listener: socket.socket, clock: Clock, chance: Chance
) -> AsyncIterator[Worker]:
    """The worker with its endpoint, until the block is left; its tasks go on after that."""
    names = Names.of([settings.address])
    shown, granted = await asyncio.to_thread(renewing.first_serving, settings.folder, settings.node, names, clock=clock)
    tls = contexts.server(shown, client_authorities=membership.authority_of(joined))

    async def show(fresh: Identity) -> None:
        await asyncio.to_thread(membership.save_serving, settings.folder, fresh)
        contexts.use(tls, fresh)

    key = _key(joined.identity)
    settings = msgspec.structs.replace(settings, port=listener.getsockname()[1], client_key=key)
    async with (
        joined_client(joined, settings, clock=clock, chance=chance) as client,
        running.worker(client, settings, clock=clock, chance=chance) as worker,
        serving.serve(worker, listener=listener, tls=tls),
        tasks.Supervisor("endpoint", clock=clock, chance=chance) as supervisor,
    ):
        certificate = renewing.Certificate(
            client,
            settings.node,
            requests.SERVING,
            granted,
            install=show,
            clock=clock,
            chance=chance,
            names=names,
        )
        supervisor.start("certificate", certificate.run)
        yield worker


def _key(identity: Identity) -> str:
    """By which masters know the worker again."""
    return pinning.pin_of_key(identity.private_key().public_key())
