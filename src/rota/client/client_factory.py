"""Builds a client from an endpoint, or for an application in this process.

async with client_factory.to_server(kubeconfig.load(path, clock=clock), clock=clock, rng=rng) as client:
    ...
"""

import contextlib
from collections.abc import AsyncIterator

from rota.api.users import User
from rota.client.endpoints import Endpoint
from rota.client.transports.failover import FailoverTransport
from rota.client.transports.http import HttpTransport
from rota.client.transports.in_process import Application, InProcessTransport
from rota.client.transports.limited import LimitedTransport
from rota.client.transports.retries import RetryingTransport
from rota.client.transports.transport import Transport
from rota.client.verbs import Client, Settings
from rota.kit.backoff import Rng
from rota.kit.clock import Clock


def over_http(endpoint: Endpoint) -> FailoverTransport:
    """A transport to a cluster, by whichever of its servers answers."""
    servers = [HttpTransport(server) for server in endpoint.each()]
    return FailoverTransport(servers, interrupt=lambda number: servers[number].interrupt())


@contextlib.asynccontextmanager
async def to_server(
    endpoint: Endpoint, *, clock: Clock, rng: Rng, settings: Settings | None = None, most_bytes: int | None = None
) -> AsyncIterator[Client]:
    """A client over HTTP that retries where that is safe, at another server if there is one.

    `most_bytes` limits the answers of a server that is not trusted.
    """
    transport: Transport = RetryingTransport(over_http(endpoint), clock=clock, rng=rng)
    if most_bytes is not None:
        transport = LimitedTransport(transport, most_bytes=most_bytes)
    try:
        yield Client(transport, settings)
    finally:
        await transport.close()


@contextlib.asynccontextmanager
async def to_application(
    app: Application, *, clock: Clock, rng: Rng, user: User | None = None, settings: Settings | None = None
) -> AsyncIterator[Client]:
    """A client of an API server in this process; it acts as `user`, with that user's permissions."""
    transport = RetryingTransport(InProcessTransport(app, clock=clock, user=user), clock=clock, rng=rng)
    try:
        yield Client(transport, settings)
    finally:
        await transport.close()
