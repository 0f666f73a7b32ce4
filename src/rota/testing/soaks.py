"""A soak test: a cluster on simulated machines with random faults while tasks run.

    asyncio.run(soak(folder, Plan(seconds=600, seed=7), say=print))

Rounds of tasks run until the time is over; each ends when every task has, and is checked then. The seed determines
all faults, but not their effects, since processes run in real time.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from rota.client import client_factory
from rota.client.verbs import Client
from rota.kit import system
from rota.testing.chaos_workload import PODS, ChaosWorkload, Kind, Task
from rota.testing.hosts import Network
from rota.testing.process_cluster import Master, Member, ProcessCluster, Worker
from rota.testing.servers.etcd import EtcdServer
from rota.testing.servers.postgres import PostgresServer

Say: TypeAlias = Callable[[str], None]
_PATIENCE_S: Final = 300.0
_KINDS: Final = [Kind.SUCCEEDS] * 8 + [Kind.FAILS, Kind.RETRIES]
#: The duration of a fault, and the pause between faults.
_AWAY_S: Final = (0.5, 20.0)
_PEACE_S: Final = (0.5, 4.0)
#: When a master that exited because the store was down is started again, and the message by which it is recognized.
_RESTART_S: Final = 1.0
_NO_STORE: Final = "does not answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The duration, the size and the seed."""

    seconds: float
    seed: int
    store: str = "etcd"
    masters: int = 3
    workers: int = 4
    tasks: int = 200


async def soak(folder: Path, plan: Plan, *, say: Say) -> None:
    """Run rounds until the time is over; AssertionError with the violations."""
    clock = system.SystemClock()
    rng = random.Random(plan.seed)  # noqa: S311 - a repeatable one
    with contextlib.ExitStack() as parts:
        network = parts.enter_context(Network())
        store = (EtcdServer if plan.store == "etcd" else PostgresServer)(address=network.own_address)
        parts.enter_context(store)
        url = store.url if isinstance(store, EtcdServer) else store.create_database()
        fleet = parts.enter_context(ProcessCluster(folder, store_url=url))
        for name in (f"m{number + 1}" for number in range(plan.masters)):
            host = network.host(name)
            fleet.master(name, inside=host.inside, host=host.address)
        for name in (f"w{number + 1}" for number in range(plan.workers)):
            fleet.worker(name, "--lease", "8", "--resources", "cpu=8", inside=network.host(name).inside)
        say(f"{plan.masters} masters and {plan.workers} workers on {plan.store}")
        tormentor = FaultInjector(fleet, network, store, rng=rng, say=say)
        until, number = clock.monotonic() + plan.seconds, 0
        async with client_factory.to_server(fleet.endpoint(), clock=clock, rng=rng) as client:
            while clock.monotonic() < until:
                number += 1
                began = clock.monotonic()
                ordeal = ChaosWorkload(client, folder / f"round-{number}", _tasks(number, plan.tasks, rng))
                async with ordeal.running(), tormentor.at_work():
                    await ordeal.reach(1.0, patience_s=_PATIENCE_S)
                ordeal.check()
                tormentor.check()
                disruptions = sum(one.disruptions for one in ordeal.tasks)
                took_s = clock.monotonic() - began
                say(f"round {number}: {plan.tasks} tasks, {disruptions} disruptions, {took_s:.0f} s")
                await _clear(client)


class FaultInjector:
    """Injects one fault after the other, and repairs each after a while."""

    def __init__(
        self,
        fleet: ProcessCluster,
        network: Network,
        store: EtcdServer | PostgresServer,
        *,
        rng: random.Random,
        say: Say,
    ) -> None:
        self._fleet: Final = fleet
        self._network: Final = network
        self._store: Final = store
        self._rng: Final = rng
        self._say: Final = say
        self._clock: Final = system.SystemClock()
        #: Members that have a fault now and get no other.
        self._away: Final[set[str]] = set()
        self._harms: Final = (
            self._kill_master,
            self._pause_master,
            self._cut_master,
            self._kill_worker,
            self._pause_worker,
            self._cut_worker,
            self._power_off,
            self._restart_store,
        )

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Inject faults until the block ends, and repair all of them."""
        async with asyncio.TaskGroup() as harms:
            working = [asyncio.create_task(self._work(harms)), asyncio.create_task(self.keep_masters())]
            try:
                yield
            finally:
                for one in working:
                    one.cancel()

    async def keep_masters(self) -> None:
        """Start masters again that exited because the store was down, as a service manager does.

        A master that is started while the store is down says so and ends. Any other end is a failure: see `check`.
        """
        while True:
            for master in self._fleet.masters:
                if not master.running and master.name not in self._away and _NO_STORE in master.output:
                    self._say(f"  {master.name} found no store and is started again")
                    master.start(wait=False)
            await self._clock.sleep(_RESTART_S)

    def check(self) -> None:
        """AssertionError if a process has ended by itself, other than for want of the store."""
        members = (*self._fleet.masters, *self._fleet.workers)
        gone = [one for one in members if not one.running and _NO_STORE not in one.output]
        assert not gone, "\n".join(f"{one.name} ended by itself: {one.output[-2000:]}" for one in gone)

    async def _work(self, harms: asyncio.TaskGroup) -> None:
        while True:
            await self._clock.sleep(self._rng.uniform(*_PEACE_S))
            harm, away_s = self._rng.choice(self._harms), self._rng.uniform(*_AWAY_S)
            harms.create_task(harm(away_s))

    async def _kill_master(self, away_s: float) -> None:
        async with self._taking(self._fleet.masters, "killed", away_s) as master:
            if master is not None:
                master.kill()
                await self._clock.sleep(away_s)
                master.start(wait=False)

    async def _pause_master(self, away_s: float) -> None:
        await self._pause(self._fleet.masters, away_s)

    async def _cut_master(self, away_s: float) -> None:
        await self._cut(self._fleet.masters, away_s)

    async def _kill_worker(self, away_s: float) -> None:
        async with self._taking(self._fleet.workers, "killed", away_s) as worker:
            if worker is not None:
                worker.kill()
                await self._clock.sleep(away_s)
                worker.start(wait=False)

    async def _pause_worker(self, away_s: float) -> None:
        await self._pause(self._fleet.workers, away_s)

    async def _cut_worker(self, away_s: float) -> None:
        await self._cut(self._fleet.workers, away_s)

    async def _power_off(self, away_s: float) -> None:
        async with self._taking(self._fleet.workers, "off", away_s) as worker:
            if worker is not None:
                self._network.hosts[worker.name].power_off()
                await self._clock.sleep(away_s)
                worker.start(wait=False, inside=self._network.host(worker.name).inside)

    async def _restart_store(self, away_s: float) -> None:
        if "store" in self._away:
            return
        self._away.add("store")
        try:
            self._say("  store killed")
            await asyncio.to_thread(self._store.kill)
            await self._clock.sleep(min(away_s, 3.0))
            await asyncio.to_thread(self._store.start)
        finally:
            self._away.discard("store")

    async def _pause(self, members: Sequence[Master] | Sequence[Worker], away_s: float) -> None:
        async with self._taking(members, "asleep", away_s) as member:
            if member is not None:
                member.pause()
                try:
                    await self._clock.sleep(away_s)
                finally:
                    member.resume()

    async def _cut(self, members: Sequence[Master] | Sequence[Worker], away_s: float) -> None:
        async with self._taking(members, "cut off", away_s) as member:
            if member is not None:
                host = self._network.hosts[member.name]
                self._network.cut(host)
                try:
                    await self._clock.sleep(away_s)
                finally:
                    self._network.heal(host)

    @contextlib.asynccontextmanager
    async def _taking(
        self, members: Sequence[Master] | Sequence[Worker], what: str, away_s: float
    ) -> AsyncIterator[Member | None]:
        """A ready member, unless fewer than half would be left."""
        there = [one for one in members if one.name not in self._away and one.is_ready]
        if len(there) - 1 < len(members) / 2:
            yield None
            return
        chosen = self._rng.choice(there)
        self._away.add(chosen.name)
        self._say(f"  {chosen.name} {what} for {away_s:.1f} s")
        try:
            yield chosen
        finally:
            self._away.discard(chosen.name)


def _tasks(number: int, count: int, rng: random.Random) -> list[Task]:
    return [
        Task(name=f"r{number}-t{one}", kind=_KINDS[one % len(_KINDS)], seconds=rng.uniform(0.1, 6.0))
        for one in range(count)
    ]


async def _clear(client: Client) -> None:
    await client.delete_collection(PODS, namespace="default")
