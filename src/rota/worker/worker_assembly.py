"""Assembles one worker: its machine, its runtime, its agent and its node.

    async with worker_assembly.worker(client, settings, clock=clock, rng=rng) as worker:
        ...

A worker has a folder for everything that must survive it. Its name is the node's; each start is an incarnation.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.client.events.correlation import Source
from rota.client.events.recorder import EventRecorder
from rota.client.verbs import Client
from rota.forecast.fleet import DEFAULTS
from rota.kit import tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.kit.metrics import Metrics
from rota.kit.rate_limit import TokenBucket
from rota.kit.tasks import Supervisor
from rota.worker import folders, host_resources, pressure
from rota.worker.agent import Agent
from rota.worker.colocation.colocation import Colocation, ColocationSettings
from rota.worker.folders import WorkerInstance
from rota.worker.host_resources import HostResources
from rota.worker.identities import Account
from rota.worker.node import KEY_ANNOTATION, LEASE_S, NodeKeeper
from rota.worker.node_forecasts import NodeForecasts
from rota.worker.pod_machine.pods import Pod
from rota.worker.references import ApiReferences
from rota.worker.runtimes.container import engines
from rota.worker.runtimes.container.runtime import ContainerRuntime
from rota.worker.runtimes.runtime_interface import CONTAINER, PROCESS, Runtime
from rota.worker.services.network import ServiceNetwork
from rota.worker.usage import Meter

#: Label of nodes that can run containers from images.
CONTAINERS_LABEL: Final = "rota.dev/containers"

#: By then a dispatch to a former agent of this worker has arrived or never will.
_SETTLED_S: Final = 10.0
#: Rate limit and burst of Kubernetes events, so that they do not displace other requests.
_EVENTS_RATE: Final = 10.0
_EVENTS_BURST: Final = 25


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a worker."""

    node: str
    folder: Path
    labels: Mapping[str, str] = {}
    taints: Sequence[Mapping[str, str]] = ()
    #: Amounts that the node declares instead of the machine's, in the units of `rota.api.resources`.
    resources: Mapping[str, int] = {}
    #: This worker's share of the machine, if several share it.
    share: float = 1.0
    #: The number of workers before this one, if several share the machine.
    before: int = 0
    address: str = ""
    api_server: tuple[str, str] = ("127.0.0.1", "6443")
    #: Amounts reserved for the system, instead of the default.
    reserve: Mapping[str, int] = {}
    #: The limit of processes per container; None for no limit.
    pids: int | None = None
    #: The runtime of pods that do not name one: `process` or `container`.
    runtime: str = PROCESS
    #: The folder of images for this worker; `images` in its folder by default.
    images: Path | None = None
    #: The account of processes whose pods set no user; None for the worker's own user.
    run_as: Account | None = None
    #: Whether pods may run as any user of the machine, root included, and access its files as root from containers.
    allow_root: bool = False
    #: Files and folders of Rota itself, which are hidden from tasks where possible.
    own: tuple[Path, ...] = ()
    #: The hash of its client key, if it has one, by which it proves that it is the same worker.
    client_key: str = ""
    #: The port of its endpoint, if it has one.
    port: int | None = None
    #: The duration of its node Lease.
    lease_s: int = LEASE_S
    #: Whether it publishes the forecast of its node, and how long it measures before a forecast counts.
    forecasts: bool = False
    forecast_warm_up_s: float = DEFAULTS.warm_up_s
    #: The part of the machine up to which it sells reclaimed capacity to batch pods; None to sell none.
    batch_ceiling: float | None = None
    #: Whether tasks reach services by name and address through this worker.
    services: bool = False


class Worker:
    """A running worker. Its runtime and its agent are replaced after a failure of the runtime."""

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
        #: This start of the worker; published in its node.
        self.incarnation: Final = incarnation
        self.recorder: Final = EventRecorder(
            client,
            Source(component="rota-worker", host=settings.node),
            clock=clock,
            rng=rng,
            bucket=TokenBucket(rate=_EVENTS_RATE, burst=_EVENTS_BURST, now=clock.monotonic()),
        )
        #: The service network of tasks, if it is enabled.
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
        #: As the node's user.
        self.client: Final = client
        self.metrics: Final = Metrics("worker", process=True)
        self._settings: Final = settings
        self._clock: Final = clock
        self._rng: Final = rng
        self.runtime: Runtime
        self.agent: Agent
        #: Its tasks; None before the worker is entered and after it is left.
        self._running: Supervisor | None = None
        self._meter: Final = Meter(dict, folder=settings.folder, clock=clock)
        self._renew(offers_after_s=0.0)
        self.forecasts: Final = NodeForecasts(
            client,
            machine,
            runtime=lambda: self.runtime,
            pods=lambda: (dict(pod.seen) for pod in self.pods()),
            share=settings.share,
            folder=settings.folder,
            settings=replace(DEFAULTS, warm_up_s=settings.forecast_warm_up_s),
            clock=clock,
        )
        #: Keeps batch pods, if the worker sells to them.
        self.colocation: Final = (
            None
            if settings.batch_ceiling is None
            else Colocation(
                self,
                machine,
                self.forecasts.peaks,
                settings=ColocationSettings.below(settings.batch_ceiling),
                clock=clock,
            )
        )

    async def run(self) -> None:
        """Work until cancelled, or until the runtime fails; run again to continue."""
        try:
            await self.agent.run()
        finally:
            await self.runtime.close()
            self._renew(offers_after_s=_SETTLED_S)

    def offer(self, incarnation: str, pods: Sequence[dict[str, Any]]) -> list[str]:
        """Accept pods that were just bound to this node: for each an empty string, or the reason why it was not
        accepted.

        `Conflict` if another incarnation is meant: then the leader has an outdated node.
        """
        if incarnation != self.incarnation:
            raise errors.Conflict(f"this is not incarnation {incarnation} of {self.machine.node}")
        return [self.agent.offer(pod) for pod in pods]

    def pods(self) -> Iterable[Pod]:
        """The pods of the worker that have not ended."""
        return [pod for pod in self.agent.machine.pods if not pod.over]

    def evict(self, uid: str, message: str) -> None:
        """Evict a pod of the worker."""
        self.agent.evict(uid, message)

    async def wait(self) -> None:
        """Return when nothing of it runs any more; raises fatal errors, such as the loss of its name."""
        assert self._running is not None, "it runs inside its context only"
        try:
            await self._running.wait()
        except tasks.TaskCrashedError as crash:
            if isinstance(crash.__cause__, UserError):
                raise crash.__cause__ from None
            raise

    def runs_in(self, supervisor: Supervisor) -> None:
        """Set the supervisor of its tasks."""
        self._running = supervisor

    @property
    def folder(self) -> Path:
        """The folder with its files."""
        return self._settings.folder

    @property
    def share(self) -> float:
        """Its share of the machine."""
        return self._settings.share

    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """The node's conditions about the machine and the runtime."""
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
            self.client,
            self.runtime,
            self.machine,
            folder=settings.folder,
            references=ApiReferences(self.client, clock=self._clock),
            recorder=self.recorder,
            clock=self._clock,
            rng=self._rng,
            metrics=self.metrics,
            offers_after_s=offers_after_s,
            services=self.services,
        )


@contextlib.asynccontextmanager
async def worker(client: Client, settings: Settings, *, clock: Clock, rng: Rng) -> AsyncIterator[Worker]:
    """A worker for the duration of the block; its tasks go on after that, until the next worker adopts them."""
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
    if made.colocation is not None and not _has_tier(made):
        raise UserError(
            "capacity cannot be sold to batch pods: there are no cgroups with cpu and memory for them",
            "run the worker as root on a machine that has them, or leave --batch-ceiling out",
        )
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
        sold=dict if made.colocation is None else made.colocation.offered,
    )
    async with tasks.Supervisor(f"worker {settings.node}", clock=clock, rng=rng) as supervisor:
        made.runs_in(supervisor)
        await keeper.enter(rng)
        supervisor.start("events", made.recorder.run)
        # Without its node name nothing of the worker may go on.
        supervisor.start("node", keeper.run, on_crash=tasks.OnCrash.FAIL)
        if made.services is not None:
            supervisor.start("services", made.services.run)
        supervisor.start("agent", made.run)
        if settings.forecasts or made.colocation is not None:
            supervisor.start("forecasts", made.forecasts.run)
        if made.colocation is not None:
            supervisor.start("colocation", made.colocation.run)
        yield made


def _has_tier(worker: Worker) -> bool:
    try:
        return worker.runtime.batch_tier() is not None
    except OSError:
        return False


def _measured(settings: Settings) -> HostResources:
    capacity, allocatable = host_resources.measure(
        settings.folder, share=settings.share, overrides=settings.resources, reserve=settings.reserve
    )
    return HostResources(
        node=settings.node,
        address=settings.address or host_resources.own_address(),
        capacity=capacity,
        allocatable=allocatable,
        sold={} if settings.batch_ceiling is None else host_resources.sellable(),
        # Amounts that an operator sets are of this worker alone.
        first_devices={name: settings.before * n for name, n in allocatable.items() if name not in settings.resources},
        api_server=settings.api_server,
        runtime=settings.runtime,
        pids=settings.pids,
        run_as=settings.run_as,
        allow_root=settings.allow_root,
    )


def _labels() -> dict[str, str]:
    return {} if engines.problem() else {CONTAINERS_LABEL: "true"}
