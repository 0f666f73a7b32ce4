"""A cluster in one process and in virtual time: real components on virtual machines.

Masters are an API server, a scheduler and controllers with leader election, each on its connection to one database.
Workers are an agent and a node with a runtime in virtual time. Every machine has a program that can be killed and
started again; nothing here injects a fault (`virtual_faults`).
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from rota.api import users
from rota.api.users import User
from rota.apiserver.server import assembly
from rota.apiserver.server.app import App
from rota.client.elections.elector import PROMPT, STEADY, Election, LeaderElector, LeadershipLost
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.events.correlation import Source
from rota.client.events.recorder import EventRecorder
from rota.client.informers.shared_informers import SharedInformers
from rota.client.transports.failover import FailoverTransport
from rota.client.transports.retries import RetryingTransport
from rota.client.verbs import Client
from rota.controllers import controller_registry
from rota.kit import tasks
from rota.kit.rate_limit import TokenBucket
from rota.pki.authorities import Authority
from rota.scheduler.service import Scheduler
from rota.store.logstore import LogStore, Settings
from rota.testing.clocks import FakeClock
from rota.testing.schedulers import configured
from rota.testing.virtual_machines import DatabaseServer, FaultyEngine, Link, Machine, links
from rota.testing.virtual_runtime import VirtualRuntime
from rota.worker.agent import Agent
from rota.worker.host_resources import HostResources
from rota.worker.node import NodeKeeper
from rota.worker.references import ApiReferences

CONTROLLERS: Final = "jobs,node-lifecycle,taint-eviction,pod-garbage-collector,pod-state-sync"
#: A node without heartbeats is not ready after this time.
LEASE_S: Final = 8
_EVENTS_PER_S: Final = 10.0


class Program:
    """What runs on a machine until it is killed."""

    def __init__(self, machine: Machine, run: Callable[[], Awaitable[None]]) -> None:
        self.machine: Final = machine
        self._run: Final = run
        self._task: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Start, with a living machine."""
        self.machine.alive = True
        self._task = asyncio.ensure_future(self._run())

    async def kill(self) -> None:
        """End without a last word."""
        self.machine.alive = False
        self.machine.runs.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def problem(self) -> BaseException | None:
        """Why it ended by itself, if it did."""
        task = self._task
        return task.exception() if task is not None and task.done() and not task.cancelled() else None


class Cluster:
    """Masters and workers on one database; `seed` determines all chance in it."""

    def __init__(self, folder: Path, *, seed: int, masters: int, workers: int) -> None:
        self._seed: Final = seed
        self.base: Final = FakeClock()
        self.rng: Final = random.Random(seed)  # noqa: S311 - a repeatable one
        self.store: Final = DatabaseServer()
        self._folder: Final = folder
        self._authority: Final = Authority.create(now=self.base.now())
        self.masters: Final = [Machine(f"m{number}", self.base) for number in range(masters)]
        self.workers: Final = [Machine(f"w{number}", self.base) for number in range(workers)]
        #: The API servers of masters that run.
        self._apps: Final[dict[str, App]] = {}
        self.links: Final[list[tuple[str, Link]]] = []
        self.runtimes: Final = {one.name: VirtualRuntime(folder / one.name, one, self.base) for one in self.workers}
        self.programs: Final = {
            **{one.name: Program(one, self._serving(one)) for one in self.masters},
            **{one.name: Program(one, self._working(one)) for one in self.workers},
        }

    def rng_of(self, name: str) -> random.Random:
        """A source of chance for a component."""
        return random.Random(f"{self._seed} {name}")  # noqa: S311 - a repeatable one

    def client(self, here: Machine, user: User) -> tuple[Client, RetryingTransport]:
        """A client on a machine that uses whichever master answers."""
        made = links(here, self.masters, user)
        self.links.extend(made.items())
        # Masters that run already: a restarted worker.
        for name, link in made.items():
            link.serve(self._apps.get(name))
        servers = tuple(made.values())
        over = FailoverTransport(servers, interrupt=lambda number: servers[number].interrupt())
        transport = RetryingTransport(over, clock=here, rng=self.rng_of(f"{here.name} {user.name}"))
        return Client(transport), transport

    def _serving(self, machine: Machine) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            rng = self.rng_of(machine.name)
            async with contextlib.AsyncExitStack() as parts:
                engine = FaultyEngine(self.store, machine)
                store = await self._patiently(
                    machine, lambda: LogStore.start(engine, time=machine, rng=rng, settings=Settings())
                )
                parts.push_async_callback(store.close)
                settings = assembly.ServerSettings(taint_nodes=True)
                app = await parts.enter_async_context(
                    await self._entered(machine, lambda: assembly.server(store, settings, clock=machine, rng=rng))
                )
                self._apps[machine.name] = app
                for name, link in self.links:
                    if name == machine.name:
                        link.serve(app)
                try:
                    await self._components(machine, app)
                finally:
                    self._apps.pop(machine.name, None)
                    for name, link in self.links:
                        if name == machine.name and (former := link.serve(None)) is not None:
                            await former.close()

        return run

    async def _patiently(self, machine: Machine, work: Callable[[], Awaitable[Any]]) -> Any:
        """As a service manager, that starts a master again which found no database."""
        while True:
            try:
                return await work()
            except Exception:  # noqa: BLE001 - of any kind, while the database is down
                await machine.sleep(1.0)

    async def _entered(
        self, machine: Machine, make: Callable[[], contextlib.AbstractAsyncContextManager[Any]]
    ) -> contextlib.AbstractAsyncContextManager[Any]:
        """A context that has been entered, however often that took."""
        entered = contextlib.AsyncExitStack()

        async def enter() -> Any:
            return await entered.enter_async_context(make())

        app = await self._patiently(machine, enter)

        @contextlib.asynccontextmanager
        async def held() -> AsyncIterator[Any]:
            async with entered:
                yield app

        return held()

    async def _components(self, machine: Machine, app: Any) -> None:
        """The scheduler and the controllers of a master, which call its own API server."""
        async with contextlib.AsyncExitStack() as parts:

            def client(name: str) -> Client:
                link = Link(machine, machine, User(name=f"rota:{name}", groups=(users.AUTHENTICATED,)))
                link.serve(app)
                transport = RetryingTransport(link, clock=machine, rng=self.rng_of(f"{machine.name} {name}"))
                parts.push_async_callback(transport.close)
                return Client(transport)

            supervisor = await parts.enter_async_context(
                tasks.Supervisor(machine.name, clock=machine, rng=self.rng_of(f"{machine.name} supervisor"))
            )
            scheduler = Scheduler(
                client("scheduler"),
                configured(),
                clock=machine,
                rng=self.rng_of(f"{machine.name} scheduler"),
                identity=machine.name,
                elect=True,
                pace=PROMPT,
            )
            supervisor.start("scheduler", scheduler.run)
            supervisor.start("controllers", lambda: self._lead(machine, client))
            await supervisor.wait()

    async def _lead(self, machine: Machine, client: Callable[[str], Client]) -> None:
        chosen = controller_registry.chosen(CONTROLLERS)
        writes = LeaderWrites()
        clients = {name: client(f"controller:{name}").with_settings(term=writes.header) for name in chosen}
        reader = client("controllers")
        rng = self.rng_of(f"{machine.name} controllers")
        elector = LeaderElector(
            reader, Election(name="rota-controllers", identity=machine.name, pace=STEADY), clock=machine, rng=rng
        )

        async def lead() -> None:
            around = controller_registry.ControllerContext(clock=machine, rng=rng, authority=self._authority)
            informers = SharedInformers(reader, controller_registry.SHARED, clock=machine, rng=rng)
            made = {
                name: make(clients[name].with_settings(informers=informers), around) for name, make in chosen.items()
            }
            async with tasks.Supervisor("controllers", clock=machine, rng=rng) as running:
                running.start("informers", informers.run)
                for name, controller in made.items():
                    running.start(name, controller.run)
                await running.wait()

        while True:
            with contextlib.suppress(LeadershipLost):
                await writes.run(elector, lead)

    def _working(self, machine: Machine) -> Callable[[], Awaitable[None]]:
        incarnations = iter(range(1_000_000))

        async def run() -> None:
            number = next(incarnations)
            user = User(name=f"system:node:{machine.name}", groups=("system:nodes", users.AUTHENTICATED))
            client, transport = self.client(machine, user)
            rng = self.rng_of(f"{machine.name} {number}")
            folder = self._folder / machine.name
            folder.mkdir(parents=True, exist_ok=True)
            recorder = EventRecorder(
                client,
                Source(component="rota-worker", host=machine.name),
                clock=machine,
                rng=rng,
                bucket=TokenBucket(rate=_EVENTS_PER_S, burst=25, now=machine.monotonic()),
            )
            amounts = {"cpu": 4000, "memory": 8 << 30, "pods": 20}
            hardware = HostResources(
                node=machine.name, address="10.0.0.1", capacity=amounts, allocatable=amounts, allow_root=True
            )
            runtime = self.runtimes[machine.name]
            agent = Agent(
                client,
                runtime,
                hardware,
                folder=folder,
                references=ApiReferences(client, clock=machine),
                recorder=recorder,
                clock=machine,
                rng=rng,
                offers_after_s=10.0,
            )
            keeper = NodeKeeper(
                client,
                hardware,
                incarnation=f"i{number}",
                predecessor=f"i{number - 1}",
                clock=machine,
                info={},
                labels={},
                taints=(),
                conditions=lambda: (),
                port=None,
                lease_s=LEASE_S,
            )
            try:
                async with tasks.Supervisor(f"worker {machine.name}", clock=machine, rng=rng) as supervisor:
                    await keeper.enter(rng)
                    supervisor.start("events", recorder.run)
                    supervisor.start("node", keeper.run, on_crash=tasks.OnCrash.FAIL)
                    supervisor.start("agent", agent.run)
                    await supervisor.wait()
            finally:
                runtime.closed()
                await transport.close()

        return run
