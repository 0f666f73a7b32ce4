"""Masters and workers on machines of their own, hurt in a fixed order while tasks run: nothing is lost or doubled.

The long form, in random order, is `make soak`.
"""

import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rota.client import connecting
from rota.client.verbs import Client
from rota.kit import system
from rota.testing import hosts
from rota.testing.fleets import Fleet
from rota.testing.hosts import Network
from rota.testing.ordeals import Kind, Ordeal, Task
from rota.testing.servers.etcd import EtcdServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.etcd,
    pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing() or "-"),
]
PATIENCE_S = 90.0


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as made:
        yield made


@pytest.fixture
def store(network: Network) -> Iterator[EtcdServer]:
    with EtcdServer(address=network.own_address) as server:
        yield server


@pytest.fixture
def fleet(tmp_path: Path, network: Network, store: EtcdServer) -> Iterator[Fleet]:
    """Two masters and three workers, each on a machine of its own."""
    with Fleet(tmp_path, store_url=store.url) as made:
        for name in ("m1", "m2"):
            host = network.host(name)
            made.master(name, inside=host.inside, host=host.address)
        for name in ("w1", "w2", "w3"):
            inside = network.host(name).inside
            made.worker(name, "--lease", "8", "--resources", "cpu=8", inside=inside, wait=False)
        for worker in made.workers:
            worker.wait_ready()
        yield made


@pytest.fixture
async def client(fleet: Fleet) -> AsyncIterator[Client]:
    async with connecting.to_server(fleet.endpoint(), clock=system.SystemClock(), chance=random.Random(0)) as made:
        yield made


def some_tasks(count: int) -> list[Task]:
    chance = random.Random(7)
    kinds = [Kind.SUCCEEDS] * 8 + [Kind.FAILS, Kind.RETRIES]
    return [Task(name=f"t{n}", kind=kinds[n % 10], seconds=chance.uniform(0.1, 4.0)) for n in range(count)]


async def test_whatever_is_killed_cut_or_restarted_every_task_runs_as_often_as_it_may(
    fleet: Fleet, network: Network, store: EtcdServer, client: Client, tmp_path: Path
) -> None:
    (first, _), (w1, _, w3) = fleet.masters, fleet.workers
    ordeal = Ordeal(client, tmp_path / "marks", some_tasks(200))
    async with ordeal.running():
        await ordeal.reach(0.1, patience_s=PATIENCE_S)
        first.kill()
        w1.kill()
        network.cut(network.hosts["w2"])
        await ordeal.reach(0.2, patience_s=PATIENCE_S)
        w1.start(wait=False)
        store.kill()
        store.start()
        first.start(wait=False)
        await ordeal.reach(0.4, patience_s=PATIENCE_S)
        network.hosts["w3"].power_off()
        await ordeal.reach(0.6, patience_s=PATIENCE_S)
        network.heal(network.hosts["w2"])
        w3.start(wait=False, inside=network.host("w3").inside)
        await ordeal.reach(1.0, patience_s=PATIENCE_S)
    ordeal.check()
