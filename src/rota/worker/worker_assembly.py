"""One worker, put together: its machine, its runtime, its agent and its node.

    async with running.worker(client, settings, clock=clock, chance=chance) as worker:
        ...

A worker has a folder of its own, in which everything is that must outlive it. Its name is the node's; each start is an
incarnation of its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.client.events.correlation import Source
from rota.client.events.recorder import EventRecorder
from rota.client.verbs import Client
from rota.kit import tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.kit.rate_limit import TokenBucket
from rota.kit.tasks import Supervisor
from rota.worker import folders, host_resources, pressure
from rota.worker.agent import Agent
from rota.worker.folders import WorkerInstance
from rota.worker.host_resources import HostResources
from rota.worker.identities import Account
from rota.worker.node import KEY_ANNOTATION, LEASE_S, NodeKeeper
from rota.worker.references import ApiReferences
from rota.worker.runtimes.container import engines
from rota.worker.runtimes.container.runtime import ContainerRuntime
from rota.worker.runtimes.runtime_interface import CONTAINER, PROCESS, Runtime
from rota.worker.services.network import ServiceNetwork
from rota.worker.usage import Meter

#: On nodes that can run containers from images.
CONTAINERS_LABEL: Final = "rota.dev/containers"

#: By then an offer that was made to a former agent of this worker has arrived or never will.
_SETTLED_S: Final = 10.0
#: Events for each second, and at once: they tell of the work and must not crowd it out.
_EVENTS_RATE: Final = 10.0
_EVENTS_BURST: Final = 25


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator decides about a worker."""

    node: str
    folder: Path
    labels: Mapping[str, str] = {}
    taints: Sequence[Mapping[str, str]] = ()
    #: Amounts that the node declares instead of what the machine has, as `rota.api.resources` counts them.
    resources: Mapping[str, int] = {}
    #: The part of the machine that this worker is given, for those who run several.
    share: float = 1.0
    #: How many others are before this one in what is shared that way.
    before: int = 0
    address: str = ""
    api_server: tuple[str, str] = ("127.0.0.1", "6443")
    #: Amounts that are kept back for the machine itself, in place of what is otherwise.
    reserve: Mapping[str, int] = {}
    #: How many processes a container may have; None for as many as there is room for.
    pids: int | None = None
    #: How containers run whose pods do not say: `process` or `container`.
    runtime: str = PROCESS
    #: Where people put images for this worker; its folder's `images` if nothing is said.
    images: Path | None = None
    #: Whom processes run as whose pods do not say; None for the worker's own user.
    run_as: Account | None = None
    #: Whether pods may have any user of the machine, root included, and root in containers the machine's files.
    allow_root: bool = False
    #: Files and folders of Rota itself, which tasks may not see where that can be.
    own: tuple[Path, ...] = ()
    #: The hash of the key that it calls masters with, by which it can show that it is the same worker; if it has one.
    client_key: str = ""
    #: Where its endpoint listens, if it has one.
    port: int | None = None
    #: For how long the masters believe in the worker after they last heard of it.
    lease_s: int = LEASE_S
    #: Whether tasks reach services by name and address through this worker.
    services: bool = False


class Worker:
    """A running worker. Its runtime and its agent are made anew when the runtime has failed."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        machine: HostResources,
        *,
        incarnation: str,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self.machine: Final = machine
        #: Which start of the worker this is; its node tells it.
        self.incarnation: Final = incarnation
        self.recorder: Final = EventRecorder(
            client,
            Source(component="rota-worker", host=settings.node),
            clock=clock,
            rng=rng,
            bucket=TokenBucket(rate=_EVENTS_RATE, burst=_EVENTS_BURST, now=clock.monotonic()),
        )
        #: What tasks see of services, where the operator wants that.
        self.services: Final = (
            ServiceNetwork(
                client,
                settings.folder / "hosts",
                node=settings.node,
                recorder=self.recorder,
                clock=clock,
                rng=rng,
            )
            if settings.services
            else None
        )
        self._client: Final = client
        self._settings: Final = settings
        self._clock: Final = clock
        self._rng: Final = rng
        self.runtime: Runtime
        self.agent: Agent
        #: What runs of it; gone before it is entered and after it is left.
        self._running: Supervisor | None = None
        self._meter: Final = Meter(dict, folder=settings.folder, clock=clock)
        self._renew(offers_after_s=0.0)

    async def run(self) -> None:
        """Work until cancelled, or until the runtime fails; run again to go on."""
        try:
            await self.agent.run()
        finally:
            await self.runtime.close()
            self._renew(offers_after_s=_SETTLED_S)

    def offer(self, incarnation: str, pods: Sequence[dict[str, Any]]) -> list[str]:
        """Pods that were just bound to this node: for each an empty text if it was taken, or why not.

        `Conflict` if another incarnation is meant: then whoever offers knows an older state of the node than there is.
        """
        if incarnation != self.incarnation:
            raise errors.Conflict(f"this is not incarnation {incarnation} of {self.machine.node}")
        return [self.agent.offer(pod) for pod in pods]

    async def wait(self) -> None:
        """Return when nothing of it runs any more; raise what it cannot go on after, such as the loss of its name."""
        assert self._running is not None, "it runs inside its context only"
        try:
            await self._running.wait()
        except tasks.TaskCrashedError as crash:
            if isinstance(crash.__cause__, UserError):
                raise crash.__cause__ from None
            raise

    def runs_in(self, supervisor: Supervisor) -> None:
        """Tell what looks after its tasks."""
        self._running = supervisor

    @property
    def folder(self) -> Path:
        """Where everything of it is."""
        return self._settings.folder

    @property
    def share(self) -> float:
        """The part of the machine that it is given."""
        return self._settings.share

    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """What the node should tell about the machine and the runtime."""
        return [*pressure.conditions(self._meter.node()), *self.runtime.conditions]

    def _renew(self, *, offers_after_s: float) -> None:
        settings = self._settings
        self.runtime = ContainerRuntime(
            settings.folder / "runtime",
            node=settings.node,
            clock=self._clock,
            images=settings.images or settings.folder / "images",
            own=settings.own,
            trusted=settings.allow_root,
        )
        self.agent = Agent(
            self._client,
            self.runtime,
            self.machine,
            folder=settings.folder,
            references=ApiReferences(self._client, clock=self._clock),
            recorder=self.recorder,
            clock=self._clock,
            rng=self._rng,
            offers_after_s=offers_after_s,
            services=self.services,
        )


@contextlib.asynccontextmanager
async def worker(client: Client, settings: Settings, *, clock: Clock, rng: Rng) -> AsyncIterator[Worker]:
    """A worker for as long as the context lasts; its tasks go on after that, until the next one finds them."""
    if settings.runtime == CONTAINER and (problem := engines.problem()):
        raise UserError(f"this machine cannot run containers from images: {problem}", "or let the worker run processes")
    with folders.held(settings.folder) as incarnation:
        async with _worker(client, settings, incarnation, clock=clock, rng=rng) as made:
            yield made


@contextlib.asynccontextmanager
async def _worker(
    client: Client, settings: Settings, incarnation: WorkerInstance, *, clock: Clock, rng: Rng
) -> AsyncIterator[Worker]:
    machine = await asyncio.to_thread(_measured, settings)
    made = Worker(client, settings, machine, incarnation=incarnation.name, clock=clock, rng=rng)
    keeper = NodeKeeper(
        client,
        machine,
        incarnation=incarnation.name,
        predecessor=incarnation.predecessor,
        clock=clock,
        info=host_resources.system_info(incarnation.name, runtime=settings.runtime),
        labels={**_labels(), **settings.labels},
        taints=settings.taints,
        conditions=made.conditions,
        port=settings.port,
        lease_s=settings.lease_s,
        annotations={KEY_ANNOTATION: settings.client_key} if settings.client_key else {},
    )
    async with tasks.Supervisor(f"worker {settings.node}", clock=clock, rng=rng) as supervisor:
        made.runs_in(supervisor)
        await keeper.enter(rng)
        supervisor.start("events", made.recorder.run)
        # Without its name it is nobody: then nothing of it goes on.
        supervisor.start("node", keeper.run, on_crash=tasks.OnCrash.FAIL)
        if made.services is not None:
            supervisor.start("services", made.services.run)
        supervisor.start("agent", made.run)
        yield made


def _measured(settings: Settings) -> HostResources:
    capacity, allocatable = host_resources.measure(
        settings.folder, share=settings.share, overrides=settings.resources, reserve=settings.reserve
    )
    return HostResources(
        node=settings.node,
        address=settings.address or host_resources.own_address(),
        capacity=capacity,
        allocatable=allocatable,
        # Amounts that were named are of this worker alone.
        first_devices={name: settings.before * n for name, n in allocatable.items() if name not in settings.resources},
        api_server=settings.api_server,
        runtime=settings.runtime,
        pids=settings.pids,
        run_as=settings.run_as,
        allow_root=settings.allow_root,
    )


def _labels() -> dict[str, str]:
    return {} if engines.problem() else {CONTAINERS_LABEL: "true"}
