"""Keeps the proxy and the hosts files of a worker in step with the services of the API.

A worker that may not read EndpointSlices does nothing of this, as in a stock cluster, which has its own service
network.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rota.api import codec, errors, meta
from rota.client.events.recorder import EventRecorder
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.verbs import Client, Object
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.worker.runtimes.process import sandbox
from rota.worker.runtimes.runtime_interface import Mount
from rota.worker.services import catalog, hosts
from rota.worker.services.catalog import Catalog, Route
from rota.worker.services.proxy import Proxy

log = logs.get(__name__)

SERVICES: Final = ("", "v1", "services")
SLICES: Final = ("discovery.k8s.io", "v1", "endpointslices")
#: Changes within this time are handled together.
_TOGETHER_S: Final = 0.05
#: How often a failed listener is tried again.
_AGAIN_S: Final = 10.0
#: How long a container start waits for the initial list of services.
_KNOWN_S: Final = 5.0


class ServiceNetwork:
    """Services for the tasks of one worker."""

    def __init__(
        self,
        client: Client,
        folder: Path,
        *,
        node: str,
        recorder: EventRecorder,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self._client: Final = client
        self._folder: Final = folder
        self._node: Final = node
        self._recorder: Final = recorder
        self._clock: Final = clock
        self._rng: Final = rng
        metrics = Metrics("worker_services")
        self._services, self._slices = (
            Informer[Object](
                Source(client=client, target=target),
                decode=codec.decode,
                clock=clock,
                rng=rng,
                metrics=metrics,
            )
            for target in (SERVICES, SLICES)
        )
        for informer in (self._services, self._slices):
            informer.add_handler(self._changed)
        self._news: Final = asyncio.Event()
        self._known: Final = asyncio.Event()
        self._absent = False
        self._may_mount: Final = os.geteuid() == 0 and sandbox.may_mount()
        self._catalog = Catalog((), (), node=node)
        self._proxy: Final = Proxy(self._complain)
        self._complaints: Final[set[tuple[str, str, str]]] = set()

    async def run(self) -> None:
        """Watch services until cancelled."""
        try:
            await self._client.list(SLICES)
        except (errors.Forbidden, errors.NotFound) as problem:
            log.warning("services are left to others", node=self._node, error=problem)
            self._absent = True
            self._known.set()
            await asyncio.Event().wait()
        try:
            async with tasks.Supervisor("services", clock=self._clock, rng=self._rng) as running:
                running.start("services", self._services.run)
                running.start("endpoints", self._slices.run)
                running.start("follow", self._follow)
                await running.wait()
        finally:
            await self._proxy.close()

    async def wait_known(self) -> None:
        """Wait for the initial list of services, or a timeout."""
        if not self._known.is_set():
            with contextlib.suppress(TimeoutError):
                await self._clock.wait_for(self._known.wait(), _KNOWN_S)

    def variables(self, pod: Object) -> Mapping[str, str]:
        """The service variables of a pod."""
        if pod["spec"].get("enableServiceLinks") is False:
            return {}
        return self._catalog.variables(meta.namespace(pod))

    def mounts(self, pod: Object, *, cheap: bool) -> list[Mount]:
        """The mount of a pod's hosts file; none where it cannot be mounted.

        A mount namespace costs a process some milliseconds. It is used if the pod has mounts anyway (`cheap`), if there
        is a service, and for a pod that may need one that does not exist yet.
        """
        if self._absent or not self._may_mount or not (cheap or self._catalog or catalog.may_need_later(pod)):
            return []
        path = self._folder / meta.namespace(pod)
        if not path.exists():
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._write(path, hosts.of_machine())
        return [Mount(source=str(path), target=str(hosts.MACHINE), read_only=True, own=True)]

    def _changed(self, _: Key, __: Object | None, ___: Object | None) -> None:
        self._news.set()

    async def _follow(self) -> None:
        await self._services.wait_synced()
        await self._slices.wait_synced()
        self._news.set()
        complete = True
        while True:
            if complete:
                await self._news.wait()
            else:
                with contextlib.suppress(TimeoutError):
                    await self._clock.wait_for(self._news.wait(), _AGAIN_S)
            await self._clock.sleep(_TOGETHER_S)
            self._news.clear()
            self._catalog = Catalog(self._services.cache.values(), self._slices.cache.values(), node=self._node)
            self._write_files()
            complete = await self._proxy.serve(self._catalog.routes())
            for one in self._catalog.unserved():
                self._tell(one.namespace, one.name, one.why)
            self._known.set()

    def _write_files(self) -> None:
        if not self._folder.is_dir():
            return
        machine = hosts.of_machine()
        for path in self._folder.iterdir():
            self._write(path, machine)

    def _write(self, path: Path, machine: str) -> None:
        try:
            hosts.write(path, hosts.text(machine, self._catalog.hosts(path.name)))
        except OSError as problem:
            log.warning("hosts file not written", path=path, error=problem)

    def _complain(self, route: Route, why: str) -> None:
        remedy = "; use a port from 1024 on, or run the worker as root" if route.port < 1024 else ""
        self._tell(route.namespace, route.name, f"cannot listen at {route.address}:{route.port}: {why}{remedy}")

    def _tell(self, namespace: str, name: str, why: str) -> None:
        """Record an event about the service, once."""
        if (namespace, name, why) in self._complaints:
            return
        self._complaints.add((namespace, name, why))
        log.warning("service not reached on this node", service=f"{namespace}/{name}", node=self._node, reason=why)
        service = self._services.cache.get(name, namespace)
        if service is not None:
            about = {**service, "apiVersion": "v1", "kind": "Service"}
            self._recorder.event(about, "Warning", "NotServed", f"on node {self._node}: {why}")
