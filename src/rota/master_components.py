"""The components of a master that call its API server: the scheduler, the controllers, the registration of the master.

Each component calls the API as its own user, with only the rights of that user. One master at a time runs the
controllers; the scheduler runs in this process or in one of its own. Several schedulers that share the pods have a
process each, and decide side by side with those of other masters.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

import rota
from rota.api import users
from rota.api.users import User
from rota.apiserver.server.app import App
from rota.apiserver.subresources.explain import LateBoundExplainer
from rota.apiserver.subresources.what_if import LateBoundWhatIf
from rota.client import client_factory
from rota.client.elections.elector import PROMPT, STEADY, UNHURRIED, Election, LeaderElector
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.informers.shared_informers import SharedInformers
from rota.client.masters import Registration
from rota.client.verbs import Client
from rota.controllers import controller_registry
from rota.eager_dispatch import EagerDispatch
from rota.forecaster.cluster_states import ClusterStateController
from rota.kit import metric_merge, system, tasks
from rota.kit.metrics import Metrics
from rota.pki.authorities import Authority
from rota.pki.certificates import IpAddress
from rota.scheduler.batch_profile.settings import LiveBatchSettings
from rota.scheduler.explanation.live_explainer import LiveExplainer
from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource, LiveConfiguration, LiveFrameworks
from rota.scheduler.rebalancing.policy_controller import RebalancingController
from rota.scheduler.service import Scheduler
from rota.scheduler.sharding.instance_objects import InstanceSettings
from rota.scheduler.sharding.shard_member import instance_name
from rota.scheduler.tuning.tuning_controller import TuningController
from rota.scheduler.tuning.tuning_follower import TuningFollower
from rota.scheduler_process import SchedulerProcess, Start
from rota.spot_control.lazy_start import LazySpotController
from rota.what_if_process import WhatIfProcess

#: How long controllers wait for the scheduler to read the cluster before they start.
_SCHEDULER_FIRST_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterComponents:
    """Which components to start, and what they need."""

    app: App
    authority: Authority
    identity: str
    #: The URL of this master.
    address: str
    #: Advertised addresses that are not of this machine.
    reserved: tuple[IpAddress, ...]
    controllers: Mapping[str, controller_registry.Make]
    configuration: LiveConfiguration
    configuration_source: ConfigurationSource
    batch: LiveBatchSettings
    #: Whether to run a scheduler; with the start message of a process, in that process, which connects over TLS.
    scheduler: bool
    scheduler_process: Callable[[], Start] | None
    #: How many schedulers share the pods, each in a process; 1 for one that is elected among all masters.
    schedulers: int
    explainer: LateBoundExplainer
    what_if: LateBoundWhatIf | None
    dispatcher: EagerDispatch
    #: Whether no other master shares the store.
    alone: bool
    #: The cluster's level now.
    level: Callable[[], int]
    metrics: Metrics


def deciding_controllers(configuration: LiveConfiguration, metrics: Metrics) -> Mapping[str, controller_registry.Make]:
    """Controllers of other packages than `controllers`; their metrics are served by this master."""
    return {
        "cluster-states": lambda client, around: ClusterStateController(
            client, clock=around.clock, rng=around.rng, metrics=metrics.beside("cluster_state")
        ),
        "rebalancing": lambda client, around: RebalancingController(
            client,
            LiveFrameworks(configuration),
            clock=around.clock,
            rng=around.rng,
            metrics=metrics.beside("rebalancer"),
        ),
        "tuning": lambda client, around: TuningController(
            client, configuration, clock=around.clock, rng=around.rng, metrics=metrics.beside("tuning")
        ),
        "spot": lambda client, around: LazySpotController(
            client,
            LiveFrameworks(configuration),
            clock=around.clock,
            rng=around.rng,
            metrics=metrics.beside("spot"),
        ),
    }


async def start(parts: contextlib.AsyncExitStack, master: MasterComponents) -> None:
    """Start the components; they end with `parts`."""
    clock, rng = system.SystemClock(), system.rng()

    async def client(name: str) -> Client:
        user = User(name=f"rota:{name}", groups=(users.AUTHENTICATED,))
        return await parts.enter_async_context(
            client_factory.to_application(master.app, clock=clock, rng=rng, user=user)
        )

    incumbent = LeaderWrites()
    clients = {
        name: (await client(f"controller:{name}")).with_settings(
            term=incumbent.header, metrics=master.metrics.beside(name.replace("-", "_"))
        )
        for name in master.controllers
    }

    async def lead() -> None:
        # Pods wait for the scheduler: in a large cluster it reads before the controllers do.
        if scheduler is not None:
            with contextlib.suppress(TimeoutError):
                await clock.wait_for(scheduler.wait_synced(), _SCHEDULER_FIRST_S)
        await _run_controllers(master, clients, reader)

    # Several masters on one store have the same controllers: one master at a time runs them.
    election = Election(name="rota-controllers", identity=master.identity, pace=UNHURRIED if master.alone else STEADY)
    reader = await client("controllers")
    elector = LeaderElector(reader, election, clock=clock, rng=rng)
    master.metrics.beside("controllers").follow(
        "leads",
        "1 if this master runs the controllers, 0 if it stands by.",
        (),
        lambda: {(): float(elector.term is not None)},
    )
    scheduler: Scheduler | SchedulerProcess | None = None
    processes: Sequence[SchedulerProcess] = ()
    if master.scheduler and master.schedulers > 1:
        processes = _sharing(master)
        scheduler = master.explainer.explainer = processes[0]
        master.metrics.include(partial(_metrics, processes))
    elif master.scheduler and master.scheduler_process is not None:
        process = SchedulerProcess(master.scheduler_process, identity=master.identity, clock=clock)
        scheduler = master.explainer.explainer = process
        master.metrics.include(process.metrics)
    elif master.scheduler:
        scheduler = Scheduler(
            await client("scheduler"),
            master.configuration.loaded,
            clock=clock,
            rng=rng,
            identity=master.identity,
            pace=UNHURRIED if master.alone else PROMPT,
            dispatcher=master.dispatcher,
            metrics=master.metrics.beside("scheduler", prefix="scheduler_"),
            batch=master.batch,
        )
        scheduler.follow(master.configuration)
        master.explainer.explainer = LiveExplainer(scheduler)
    if master.what_if is not None:
        master.what_if.source = WhatIfProcess(
            await client("what-if-reader"), master.configuration, master.configuration_source, clock=clock
        )
    # Entered last, so that it ends before the clients of its controllers are closed.
    supervisor = await parts.enter_async_context(tasks.Supervisor("leader", clock=clock, rng=rng))
    registration = Registration(
        await client("masters"),
        identity=master.identity,
        address=master.address,
        version=rota.__version__,
        clock=clock,
        controllers=master.controllers,
        level=master.level,
    )
    supervisor.start("registration", registration.run)
    if master.controllers:
        supervisor.start("controllers", lambda: incumbent.run(elector, lead))
    if scheduler is not None:
        supervisor.start("scheduler", scheduler.run)
        for number, process in enumerate(processes[1:], 2):
            supervisor.start(f"scheduler {number}", process.run)
        supervisor.start("batch configuration", master.batch.run)
    supervisor.start("scheduler configuration", master.configuration.run)
    if master.scheduler or master.controllers:
        follower = TuningFollower(await client("scheduler"), master.configuration, clock=clock, rng=rng)
        supervisor.start("tuning", follower.run)


def _sharing(master: MasterComponents) -> list[SchedulerProcess]:
    """Processes that share the pods with those of all masters."""
    made: list[SchedulerProcess] = []
    for number in range(master.schedulers):
        shard = InstanceSettings(name=f"{instance_name(master.identity)}-{number}", host=socket.gethostname())
        assert master.scheduler_process is not None, "several schedulers have a process each"
        start = partial(_as_shard, master.scheduler_process, shard)
        made.append(SchedulerProcess(start, identity=f"{master.identity}-{number}", clock=system.SystemClock()))
    return made


def _as_shard(start: Callable[[], Start], shard: InstanceSettings) -> Start:
    return msgspec.structs.replace(start(), shard=shard)


async def _metrics(processes: Sequence[SchedulerProcess], accept: str) -> bytes:
    bodies = await asyncio.gather(*(process.metrics(accept) for process in processes))
    return metric_merge.merged("shard", {str(number): body for number, body in enumerate(bodies)})


async def _run_controllers(master: MasterComponents, clients: Mapping[str, Client], reader: Client) -> None:
    """Run controllers until cancelled; they share the informers of `reader`."""
    clock, rng = system.SystemClock(), system.rng()
    around = controller_registry.ControllerContext(
        clock=clock, rng=rng, authority=master.authority, reserved=master.reserved
    )
    informers = SharedInformers(
        reader, controller_registry.SHARED, clock=clock, rng=rng, metrics=master.metrics.beside("controllers")
    )
    made = {
        name: make(clients[name].with_settings(informers=informers), around)
        for name, make in master.controllers.items()
    }
    async with tasks.Supervisor("controllers", clock=clock, rng=rng) as supervisor:
        supervisor.start("informers", informers.run)
        for name, controller in made.items():
            supervisor.start(name, controller.run)
        await supervisor.wait()
