"""A worker with a real endpoint behind TLS, and clients with certificates of several kinds."""

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from rota.api import users
from rota.client.verbs import Client
from rota.kit import system
from rota.pki import contexts
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Names, Subject
from rota.worker import worker_assembly
from rota.worker.agent import PODS
from rota.worker.endpoint import endpoint_server
from rota.worker.runtimes.process.runtime import ProcessRuntime
from rota.worker.worker_assembly import Worker

API_SERVER = Subject(common_name="kube-apiserver-kubelet-client", organizations=(users.MASTERS,))
PATIENCE_S = 60.0
_HOUR_S = 3600.0


class Endpoint:
    """A running endpoint."""

    def __init__(self, authority: Authority, worker: Worker, port: int) -> None:
        self.authority = authority
        self.worker = worker
        self.port = port

    def tls(self, subject: Subject | None = API_SERVER, *, authority: Authority | None = None) -> ssl.SSLContext:
        """As a client that shows a certificate for `subject`, or none."""
        if subject is None:
            context = ssl.create_default_context(cadata=self.authority.certificate_pem.decode())
        else:
            now = system.SystemClock().now()
            signer = authority or self.authority
            identity = signer.issue(subject, purpose=Purpose.CLIENT, now=now, lifetime_s=_HOUR_S)
            context = contexts.client(identity, server_authorities=self.authority.certificate_pem)
        return context

    def server_tls(self) -> ssl.SSLContext:
        """For another endpoint of the same worker."""
        return server_tls(self.authority, self.worker.machine.node)

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}{path}"

    async def get(self, path: str, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
        """The code and the text of an answer."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.url(path), ssl=tls or self.tls()) as answer,
        ):
            return answer.status, await answer.text()


def server_tls(authority: Authority, node: str) -> ssl.SSLContext:
    """As a node's endpoint."""
    identity = authority.issue(
        Subject(common_name=f"system:node:{node}", organizations=("system:nodes",)),
        purpose=Purpose.SERVER,
        now=system.SystemClock().now(),
        lifetime_s=_HOUR_S,
        names=Names.of(("127.0.0.1",)),
    )
    return contexts.server(identity, client_authorities=authority.certificate_pem)


@contextlib.asynccontextmanager
async def serving_worker(
    client: Client, folder: Path, *, node: str = "w1", leave_running: bool = False
) -> AsyncIterator[Endpoint]:
    """A worker and its endpoint, with an authority of their own."""
    clock = system.SystemClock()
    authority = Authority.create(now=clock.now())
    tls = server_tls(authority, node)
    listener = endpoint_server.listen("127.0.0.1", 0)
    settings = worker_assembly.Settings(
        node=node,
        folder=folder,
        resources={"cpu": 8000, "memory": 8 << 30, "pods": 50},
        address="127.0.0.1",
        port=listener.getsockname()[1],
    )
    try:
        async with (
            worker_assembly.worker(client, settings, clock=clock, rng=random.Random(0)) as worker,
            endpoint_server.serve(worker, listener=listener, tls=tls) as port,
        ):
            yield Endpoint(authority, worker, port)
    finally:
        if not leave_running:
            await end_everything(folder, node)


async def end_everything(folder: Path, node: str) -> None:
    """End what a worker that has gone left running."""
    last = ProcessRuntime(folder / "runtime", node=node, clock=system.SystemClock())
    await last.open(lambda _: None)
    for run in list(last._running):
        await last.stop(run, 0)

    async def ended() -> bool:
        return not last._running

    await until(ended)
    await last.close()
    last._groups.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that should come soon."""
    for _ in range(int(PATIENCE_S / 0.02)):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise TimeoutError


async def start_pod(client: Client, *command: str, name: str = "p", node: str = "w1", **spec: Any) -> dict[str, Any]:
    """A pod on the worker, once it runs or has ended."""
    container = {"name": "c", "image": "i", "command": list(command), **spec.pop("container", {})}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container], **spec},
    }
    found = await client.create(PODS, pod)

    async def begun() -> bool:
        found.update(await client.get(PODS, name, namespace="default"))
        return bool(found["status"]["phase"] != "Pending")

    await until(begun)
    return found
