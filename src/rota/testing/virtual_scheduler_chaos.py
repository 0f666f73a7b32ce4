"""Schedulers that share the pods of a full cluster in virtual time, while they are killed, stopped and cut off.

    report = asyncio.run(run(Plan(seed=7, bindings=10_000)))
    assert report.violations == []

Two API servers run on one store in memory. Schedulers use one of them; when it fails, they go to the other one, and it
begins anew. A killed scheduler loses what it was doing, and its Lease is not released. A stopped one sends what it was
about to send when it goes on, as a process does after SIGCONT: by then its pods belong to others. A scheduler that is
cut off cannot reach the server. More pods wait than fit, and pods that are bound are deleted all the time. The
invariant is that no node ever has more than it can give, at any revision that the watch shows.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from rota.api import errors, users
from rota.api.users import User
from rota.apiserver.server import assembly
from rota.apiserver.server.app import App
from rota.client.pods import PODS
from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.transport import Answer, Call, TransportError, Unreachable
from rota.client.verbs import Client
from rota.scheduler.service import NODES, Scheduler
from rota.scheduler.sharding.instance_objects import InstanceSettings
from rota.store import store_factory
from rota.store.store_interface import Store
from rota.testing.allocation_observer import AllocationObserver, Violation
from rota.testing.clocks import FakeClock
from rota.testing.clusters import make_node, make_pod
from rota.testing.schedulers import FaultyTransport, configured

_SCHEDULER: Final = User(name="rota:scheduler", groups=(users.AUTHENTICATED,))
#: How long a fault lasts, and the pause between the beginnings of two, in virtual seconds.
_AWAY_S: Final = (0.5, 6.0)
_PAUSE_S: Final = (0.2, 2.0)
_ROUND_S: Final = 0.5
_STEP_S: Final = 0.05
#: Progress is printed each time after this number of bindings.
_TELL: Final = 1_000
#: After so many rounds without a binding the run is given up.
_IDLE_ROUNDS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The size of a run: it ends after so many bindings and so many faults."""

    seed: int
    bindings: int
    faults: int = 0
    schedulers: int = 8
    nodes: int = 10
    #: Pods that fit on a node, and pods that exist at once: more than fit, so that every place is wanted by several.
    slots: int = 20
    population: int = 220
    #: The part of the bound pods that is deleted in a round.
    churn: float = 0.5
    #: Whether the API servers check bindings against nodes; without it, the observer must find oversold nodes.
    conflict_check: bool = True


@dataclass(slots=True)
class Report:
    """What happened, and what must not happen."""

    bindings: int = 0
    rounds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    #: Bindings that were refused because another scheduler was faster, over all schedulers that still run.
    conflicts: int = 0
    #: The largest part of the places that was taken after a round.
    fullest: float = 0.0
    violations: list[Violation] = field(default_factory=list)


class _Masters:
    """Two API servers on one store; clients use the one that is up."""

    def __init__(self, store: Store, clock: FakeClock, plan: Plan) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._plan: Final = plan
        self._exits: Final[list[contextlib.AsyncExitStack]] = []
        self._apps: Final[list[App]] = []
        self._current = 0
        self._started = 0
        #: Those whose connections break when a server fails.
        self.transports: Final[list[FaultyTransport]] = []

    @property
    def app(self) -> App:
        """The server that clients use."""
        return self._apps[self._current]

    def transport(self, user: User | None) -> FaultyTransport:
        """A connection of a user to the server that is up; of the administrator without one."""
        made = FaultyTransport(_Way(self, self._clock, user))
        self.transports.append(made)
        return made

    async def start(self) -> None:
        for _ in range(2):
            exits, app = await self._server()
            self._exits.append(exits)
            self._apps.append(app)

    async def _server(self) -> tuple[contextlib.AsyncExitStack, App]:
        self._started += 1
        rng = random.Random(self._plan.seed * 1000 + self._started)  # noqa: S311 - to be repeated
        settings = assembly.ServerSettings(conflict_check=self._plan.conflict_check)
        exits = contextlib.AsyncExitStack()
        made = assembly.server(self._store, settings, clock=self._clock, rng=rng)
        return exits, await exits.enter_async_context(made)

    async def fail_over(self) -> None:
        """The server that is used fails; the other one takes its clients, and it begins anew."""
        failed, self._current = self._current, 1 - self._current
        for transport in self.transports:
            transport.cut()
        await self._clock.sleep(0.1)
        await self._exits[failed].aclose()
        self._exits[failed], self._apps[failed] = await self._server()

    async def end(self) -> None:
        for one in self._exits:
            await one.aclose()


class _Way:
    """The way of a user to the server that is up."""

    def __init__(self, masters: _Masters, clock: FakeClock, user: User | None) -> None:
        self._masters: Final = masters
        self._clock: Final = clock
        self._user: Final = user

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        """See `Transport.open`."""
        async with InProcessTransport(self._masters.app, clock=self._clock, user=self._user).open(call) as answer:
            yield answer

    async def close(self) -> None:
        """See `Transport.close`."""


class _Program:
    """One scheduler, started again whenever it was killed."""

    def __init__(self, masters: _Masters, name: str, clock: FakeClock, plan: Plan) -> None:
        self.name: Final = name
        self._masters: Final = masters
        self._clock: Final = clock
        self._plan: Final = plan
        self._starts = 0
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._go_on: Final = asyncio.Event()
        self._go_on.set()
        self.start()

    def start(self) -> None:
        self._starts += 1
        self._transport = self._masters.transport(_SCHEDULER)
        self._transport.before = self._wait
        seed = f"{self._plan.seed}/{self.name}/{self._starts}"
        self.scheduler = Scheduler(
            Client(self._transport),
            configured(),
            clock=self._clock,
            rng=random.Random(seed),  # noqa: S311 - to be repeated
            identity=f"{self.name}-{self._starts}",
            limit_s=60.0,
            shard=InstanceSettings(name=self.name),
        )
        self._task = asyncio.ensure_future(self.scheduler.run())
        self._tasks.add(self._task)
        self._task.add_done_callback(self._tasks.discard)

    async def _wait(self, _: Call) -> None:
        await self._go_on.wait()

    async def kill(self, away_s: float) -> None:
        _disconnect(self._transport)
        self._masters.transports.remove(self._transport)
        self._task.cancel()
        await self._clock.sleep(away_s)
        self.start()

    async def stop(self, away_s: float) -> None:
        self._go_on.clear()
        await self._clock.sleep(away_s)
        self._go_on.set()

    async def cut(self, away_s: float) -> None:
        transport = self._transport
        _disconnect(transport)
        await self._clock.sleep(away_s)
        transport.before = self._wait

    async def end(self) -> None:
        self._go_on.set()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _disconnect(transport: FaultyTransport) -> None:
    """Nothing reaches the server any more, and nothing comes back."""

    async def refuse(call: Call) -> None:
        raise Unreachable(f"{call}: cut off")

    transport.before = refuse
    transport.cut()


async def run(plan: Plan, *, say: Callable[[str], None] = lambda _: None) -> Report:
    """Run until so many pods were bound; AssertionError if nothing is bound any more."""
    clock, chance = FakeClock(), random.Random(plan.seed)  # noqa: S311 - to be repeated
    store = await store_factory.open_store("memory://", time=clock, rng=chance)
    masters, report, observer = _Masters(store, clock, plan), Report(), AllocationObserver()
    await masters.start()
    client = Client(masters.transport(None))
    for number in range(plan.nodes):
        node = make_node(f"n{number}", cpu=str(plan.slots), memory="1Ti", pods=str(plan.slots * 2))
        await client.create(NODES, {"apiVersion": "v1", **node})
    programs = [_Program(masters, f"s{number}", clock, plan) for number in range(plan.schedulers)]
    following = observer.following(Client(masters.transport(None)), clock=clock, rng=chance)
    await _passing(clock, following.__aenter__())
    faults: set[asyncio.Future[None]] = set()
    harming = asyncio.ensure_future(_harm(programs, masters, clock, chance, report, faults))
    try:
        await _work(_Workload(client, plan, chance, observer), plan, clock, observer, report, say)
        report.conflicts = sum(one.scheduler.attempts.using.figures.conflicts_total for one in programs)
    finally:
        harming.cancel()
        await _passing(clock, _end(programs, masters, store, following, faults))
    report.violations = observer.violations
    return report


async def _end(
    programs: list[_Program],
    masters: _Masters,
    store: Store,
    following: contextlib.AbstractAsyncContextManager[AllocationObserver],
    faults: set[asyncio.Future[None]],
) -> None:
    await asyncio.gather(*faults, return_exceptions=True)
    for program in programs:
        await program.end()
    await following.__aexit__(None, None, None)
    await masters.end()
    await store.close()


async def _harm(
    programs: list[_Program],
    masters: _Masters,
    clock: FakeClock,
    chance: random.Random,
    report: Report,
    faults: set[asyncio.Future[None]],
) -> None:
    """Harm some of the schedulers, or a server, again and again; a scheduler suffers one fault at a time."""
    away: set[str] = set()

    async def suffer(program: _Program, act: Coroutine[Any, Any, None]) -> None:
        try:
            await act
        finally:
            away.discard(program.name)

    while True:
        await clock.sleep(chance.uniform(*_PAUSE_S))
        if chance.random() < 0.1:
            report.faults["failover"] += 1
            await masters.fail_over()
            continue
        able = [one for one in programs if one.name not in away]
        harm = chance.choice(("kill", "stop", "cut"))
        for program in chance.sample(able, min(len(able), chance.randint(1, max(1, len(programs) - 1)))):
            away.add(program.name)
            report.faults[harm] += 1
            act = {"kill": program.kill, "stop": program.stop, "cut": program.cut}[harm]
            task = asyncio.ensure_future(suffer(program, act(chance.uniform(*_AWAY_S))))
            faults.add(task)
            task.add_done_callback(faults.discard)


class _Workload:
    """More pods than fit, of which some that are bound are deleted in each round."""

    def __init__(self, client: Client, plan: Plan, chance: random.Random, observer: AllocationObserver) -> None:
        self._client: Final = client
        self._plan: Final = plan
        self._chance: Final = chance
        self._observer: Final = observer
        self._number = 0
        #: Names by uid.
        self._waiting: Final[dict[str, str]] = {}
        self.bound: Final[dict[str, str]] = {}

    async def round(self) -> None:
        """Delete and create."""
        # Sorted, since the order of a set is another one in each process and a seed is to be repeated.
        for uid in sorted(self._observer.placed() & self._waiting.keys()):
            self.bound[uid] = self._waiting.pop(uid)
        for uid in self._chance.sample(list(self.bound), int(len(self.bound) * self._plan.churn)):
            # A server that fails may or may not have done it.
            with contextlib.suppress(errors.ApiError, TransportError):
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(PODS, self.bound[uid], namespace="default", grace_period_s=0)
                del self.bound[uid]
        for _ in range(self._plan.population - len(self._waiting) - len(self.bound)):
            pod = {"apiVersion": "v1", **make_pod(f"p{self._number}", cpu="1")}
            del pod["metadata"]["uid"]
            self._number += 1
            with contextlib.suppress(errors.ApiError, TransportError):
                made = await self._client.create(PODS, pod)
                self._waiting[made["metadata"]["uid"]] = made["metadata"]["name"]


async def _work(
    workload: _Workload,
    plan: Plan,
    clock: FakeClock,
    observer: AllocationObserver,
    report: Report,
    say: Callable[[str], None],
) -> None:
    """Rounds until enough pods were bound."""
    idle, told = 0, 0
    while not observer.violations and (observer.bindings < plan.bindings or sum(report.faults.values()) < plan.faults):
        before = observer.bindings
        await _passing(clock, workload.round())
        await clock.advance(_ROUND_S)
        report.rounds += 1
        report.bindings = observer.bindings
        report.fullest = max(report.fullest, len(observer.placed()) / (plan.nodes * plan.slots))
        idle = idle + 1 if observer.bindings == before else 0
        assert idle < _IDLE_ROUNDS, f"nothing was bound in {idle} rounds, {report}"
        if observer.bindings >= told + _TELL:
            told = observer.bindings
            say(f"{told} bindings in {report.rounds} rounds, {dict(report.faults)}")


async def _passing(clock: FakeClock, work: Coroutine[Any, Any, Any]) -> Any:
    """Let time pass until something is done."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await clock.advance(_STEP_S)
    return task.result()
