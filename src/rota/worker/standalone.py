"""A worker as a process of its own: joined to a cluster, with an endpoint for the masters.

    joined = await join.enter(folder, name, invitation, clock=clock, rng=rng)
    async with standalone.running_worker(joined, settings, listener=listener, clock=clock, rng=rng) as worker:
        await worker.wait()

Its certificates are renewed while it runs: API calls continue with the new one, the endpoint uses it from the next
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
from rota.client import client_factory
from rota.client.transports.replaceable import ReplaceableTransport
from rota.client.transports.retries import RetryingTransport
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, PatchType
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.pki import contexts, pinning
from rota.pki.certificates import Identity, Names
from rota.worker import worker_assembly
from rota.worker.cluster_join import certificate_renewal, certificate_requests, membership
from rota.worker.cluster_join.masters import MasterAddresses
from rota.worker.cluster_join.membership import Membership
from rota.worker.endpoint import endpoint_server
from rota.worker.node import KEY_ANNOTATION, NODES
from rota.worker.worker_assembly import Settings, Worker

log = logs.get(__name__)

_AGENT: Final = "rota-worker"
#: How long the registration of a node waits for the certificate of its endpoint.
_TRUSTED_WITHIN_S: Final = 10.0


@contextlib.asynccontextmanager
async def joined_client(joined: Membership, settings: Settings, *, clock: Clock, rng: Rng) -> AsyncIterator[Client]:
    """A client with the worker's certificate and the addresses of all masters; both are kept current in the block."""
    connection = _Connection(joined, settings.folder)
    transport = RetryingTransport(connection.transport, clock=clock, rng=rng)
    client = Client(transport).with_settings(user_agent=_AGENT)

    async def renew(fresh: Identity) -> None:
        await connection.renew(fresh)
        # The next start writes it as well.
        with contextlib.suppress(errors.ApiError, TransportError):
            changed = {"metadata": {"annotations": {KEY_ANNOTATION: _key(fresh)}}}
            await client.patch(NODES, settings.node, changed, type=PatchType.MERGE)

    certificate = certificate_renewal.Certificate(
        client, settings.node, certificate_requests.CLIENT, joined.identity, install=renew, clock=clock, rng=rng
    )
    addresses = MasterAddresses(client, connection.servers, install=connection.move, clock=clock)
    try:
        async with tasks.Supervisor("membership", clock=clock, rng=rng) as supervisor:
            supervisor.start("certificate", certificate.run)
            supervisor.start("masters", addresses.run)
            yield client
    finally:
        await transport.close()


class _Connection:
    """The worker's present certificate and masters' addresses. Changes are stored on disk."""

    def __init__(self, joined: Membership, folder: Path) -> None:
        self._joined = joined
        self._folder: Final = folder
        self._failover = client_factory.over_http(joined.endpoint)
        self.transport: Final = ReplaceableTransport(self._failover)
        self._changing: Final = asyncio.Lock()

    @property
    def servers(self) -> tuple[str, ...]:
        """The masters' addresses, in the order of use."""
        endpoint, number = self._joined.endpoint, self._failover.current
        found = (endpoint.server, *endpoint.fallbacks)
        return (*found[number:], *found[:number])

    async def renew(self, fresh: Identity) -> None:
        """Switch to a new certificate."""
        async with self._changing:
            await self._use(self._joined.at(self.servers).renewed(fresh))

    async def move(self, servers: tuple[str, ...]) -> None:
        """Switch to these addresses; the master in use stays first, if it is among them."""
        async with self._changing:
            ordered = [one for one in self.servers if one in servers]
            await self._use(self._joined.at(tuple(dict.fromkeys((*ordered, *servers)))))

    async def _use(self, newer: Membership) -> None:
        await asyncio.to_thread(membership.save, self._folder, newer)
        self._joined, self._failover = newer, client_factory.over_http(newer.endpoint)
        await self.transport.replace(self._failover)


@contextlib.asynccontextmanager
async def running_worker(
    joined: Membership, settings: Settings, *, listener: socket.socket, clock: Clock, rng: Rng
) -> AsyncIterator[Worker]:
    """The worker with its endpoint, until the block is left; its tasks go on after that."""
    names = Names.of([settings.address])
    shown, granted = await asyncio.to_thread(
        certificate_renewal.first_serving, settings.folder, settings.node, names, clock=clock
    )
    tls = contexts.server(shown, client_authorities=membership.authority_of(joined))

    async def show(fresh: Identity) -> None:
        await asyncio.to_thread(membership.save_serving, settings.folder, fresh)
        contexts.use(tls, fresh)

    key = _key(joined.identity)
    settings = msgspec.structs.replace(settings, port=listener.getsockname()[1], client_key=key)
    async with (
        joined_client(joined, settings, clock=clock, rng=rng) as client,
        tasks.Supervisor("endpoint", clock=clock, rng=rng) as supervisor,
    ):
        certificate = certificate_renewal.Certificate(
            client,
            settings.node,
            certificate_requests.SERVING,
            granted,
            install=show,
            clock=clock,
            rng=rng,
            names=names,
        )
        supervisor.start("certificate", certificate.run)
        await _wait_trusted(certificate, clock=clock)
        async with (
            worker_assembly.worker(client, settings, clock=clock, rng=rng) as worker,
            endpoint_server.serve(worker, listener=listener, tls=tls),
        ):
            yield worker


async def _wait_trusted(certificate: certificate_renewal.Certificate, *, clock: Clock) -> None:
    """Wait for the first serving certificate, so that the masters can read the output of the node's first task.

    A cluster may approve such requests by hand. Then the worker starts without it.
    """
    try:
        await clock.wait_for(certificate.wait_granted(), _TRUSTED_WITHIN_S)
    except TimeoutError:
        log.warning("no serving certificate yet; logs and exec fail until it is approved", after_s=_TRUSTED_WITHIN_S)


def _key(identity: Identity) -> str:
    """The hash of the client key, by which masters recognise the worker."""
    return pinning.pin_of_key(identity.private_key().public_key())
