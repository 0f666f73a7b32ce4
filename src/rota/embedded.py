"""Workers in the same process as their API server, for a cluster on one machine.

They are ordinary workers with the rights of ordinary nodes, but they call the API without a socket, and the API
server calls their endpoints without one. Other masters call them over the network, as this one calls all other
workers.
"""

import asyncio
import contextlib
import re
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web

from rota.api import times, users
from rota.api.users import User
from rota.apiserver.server.app import App
from rota.apiserver.subresources import streaming
from rota.apiserver.subresources.logs import LogRequest, LogSource, NoWorkers
from rota.apiserver.subresources.streaming import WorkerStreams
from rota.apiserver.subresources.summaries import Summary
from rota.apiserver.subresources.usage import UsageSource
from rota.apiserver.subresources.worker_addresses import Address
from rota.client import client_factory
from rota.kit import system
from rota.kit.tasks import Supervisor
from rota.pki import contexts
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Identity, Names, Subject
from rota.pki.renewal import Renewal
from rota.worker import worker_assembly
from rota.worker.endpoint import endpoint_server, logs, lookup
from rota.worker.runtimes.runtime_interface import LogOptions
from rota.worker.worker_assembly import Worker

_NODE: Final = "system:node:"
_NODES: Final = "system:nodes"
#: The lifetime of workers' certificates, which are kept in memory only.
LIFETIME_S: Final = 90 * DAY_S


class Beyond(LogSource, WorkerStreams, UsageSource, Protocol):
    """Calls workers on other machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """How other masters reach the workers of this process."""

    #: Where to listen.
    host: str
    #: The address in the Nodes.
    address: str
    #: The CA of the workers' certificates, which tasks of `beside` renew.
    authority: Authority
    beside: Supervisor

    def client(self, node: str) -> Identity:
        """The client certificate of a worker."""
        return self._issued(node, Purpose.CLIENT)

    def serving(self, node: str) -> Identity:
        """The serving certificate of a worker's endpoint."""
        return self._issued(node, Purpose.SERVER)

    def context(self, node: str) -> ssl.SSLContext:
        """A TLS context with the node's certificate, which is renewed."""
        first = self.serving(node)
        made = contexts.server(first, client_authorities=self.authority.certificate_pem)
        renewal = Renewal(
            node,
            first,
            issue=lambda: self.serving(node),
            install=lambda one: contexts.use(made, one),
            clock=system.SystemClock(),
        )
        self.beside.start(f"certificate of {node}", renewal.run)
        return made

    def _issued(self, node: str, purpose: Purpose) -> Identity:
        subject = Subject(common_name=f"{_NODE}{node}", organizations=(_NODES,))
        names = Names.of((self.address,)) if purpose is Purpose.SERVER else None
        return self.authority.issue(
            subject, purpose=purpose, now=system.SystemClock().now(), lifetime_s=LIFETIME_S, names=names
        )


class LocalWorkers:
    """Routes calls to the workers of this process and to all others; a `LogSource`, `WorkerStreams` and a
    `UsageSource`."""

    def __init__(self, beyond: Beyond | None = None) -> None:
        self._beyond: Final = beyond or NoWorkers()
        self._workers: Final[dict[str, Worker]] = {}
        #: Their endpoints in this process, without sockets.
        self._endpoints: Final[dict[str, web.AppRunner]] = {}

    async def stream(self, request: LogRequest, /) -> AsyncIterator[bytes]:
        """See `LogSource.stream`."""
        worker = self._workers.get(request.node)
        if worker is None:
            async for chunk in self._beyond.stream(request):
                yield chunk
            return
        pod = lookup.by_uid(worker, request.uid, request.pod)
        options = LogOptions(
            follow=request.follow,
            timestamps=request.timestamps,
            since=_since(request),
            tail_lines=request.tail_lines,
            limit_bytes=request.limit_bytes,
        )
        async for chunk in logs.stream(worker, pod, request.container, options, previous=request.previous):
            yield chunk

    async def connect(self, node: str, address: Address | None, /) -> streaming.Stream:
        """See `WorkerStreams.connect`."""
        endpoint = self._endpoints.get(node)
        if endpoint is None:
            return await self._beyond.connect(node, address)
        ours, its = socket.socketpair()
        for one in (ours, its):
            one.setblocking(False)
        assert endpoint.server is not None, "it was set up"
        await asyncio.get_running_loop().connect_accepted_socket(endpoint.server, its)
        return await asyncio.open_connection(sock=ours)

    async def usage(self, node: str, address: Address | None, /) -> Summary:
        """See `UsageSource.usage`."""
        endpoint = self._endpoints.get(node)
        if endpoint is None:
            return await self._beyond.usage(node, address)
        return msgspec.convert(await endpoint.app[endpoint_server.STATISTICS].summary(), Summary)

    def offer(self, node: str, pods: list[dict[str, Any]], /) -> bool:
        """See `Local.offer`."""
        worker = self._workers.get(node)
        if worker is None:
            return False
        worker.offer(worker.incarnation, pods)
        return True

    @contextlib.asynccontextmanager
    async def running(
        self, app: App, shares: Sequence[worker_assembly.Settings], *, listening: Listening
    ) -> AsyncIterator[list[str]]:
        """Run workers with these settings; yields their names."""
        clock, rng = system.SystemClock(), system.rng()
        async with contextlib.AsyncExitStack() as parts:
            for share in shares:
                name = share.node
                user = User(name=f"{_NODE}{name}", groups=(_NODES, users.AUTHENTICATED))
                client = await parts.enter_async_context(
                    client_factory.to_application(app, clock=clock, rng=rng, user=user)
                )
                listener = endpoint_server.listen(listening.host, 0)
                parts.callback(listener.close)
                own = msgspec.structs.replace(share, port=listener.getsockname()[1])
                worker = await parts.enter_async_context(worker_assembly.worker(client, own, clock=clock, rng=rng))
                self._workers[name] = worker
                self._endpoints[name] = await parts.enter_async_context(endpoint_server.unlistening(worker))
                tls = listening.context(name)
                await parts.enter_async_context(endpoint_server.serve(worker, listener=listener, tls=tls))
            try:
                yield [share.node for share in shares]
            finally:
                self._workers.clear()
                self._endpoints.clear()


def shares(
    count: int, *, folder: Path, prefix: str | None, api_server: tuple[str, str], address: str
) -> list[worker_assembly.Settings]:
    """The settings of `count` workers, each with a folder in `folder` and a share of the machine's resources."""
    beginning = prefix if prefix is not None else _kept_name(folder)
    return [
        worker_assembly.Settings(
            node=f"{beginning}{number}",
            folder=folder / f"{beginning}{number}",
            share=1 / count,
            before=number - 1,
            address=address,
            api_server=api_server,
            images=folder / "images",
            services=True,
            forecasts=True,
        )
        for number in range(1, count + 1)
    ]


def _kept_name(folder: Path) -> str:
    """The name prefix of this folder's workers: the machine's name and a unique suffix per folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "prefix"
    if not path.exists():
        host = re.sub(r"[^a-z0-9-]", "-", socket.gethostname().lower()).strip("-")[:40] or "worker"
        path.write_text(f"{host}-{secrets.token_hex(2)}-")
    return path.read_text().strip()


def _since(request: LogRequest) -> float | None:
    if request.since_seconds is not None:
        return system.SystemClock().now() - request.since_seconds
    return times.parse(request.since_time) if request.since_time else None
