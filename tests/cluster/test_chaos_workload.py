"""Masters and workers on machines of their own, hurt in a fixed order while tasks run: nothing is lost or doubled.

The long form, in random order, is `make soak`.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.api import errors
from rota.client import client_factory
from rota.client.verbs import Client
from rota.kit import system
from rota.testing import hosts
from rota.testing.chaos_workload import PODS, TOLERATIONS, ChaosWorkload, Kind, Task
from rota.testing.hosts import Network
from rota.testing.process_cluster import ProcessCluster
from rota.testing.servers.etcd import EtcdServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.etcd,
    pytest.mark.timeout(300),
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
def fleet(tmp_path: Path, network: Network, store: EtcdServer) -> Iterator[ProcessCluster]:
    """Two masters and three workers, each on a machine of its own."""
    with ProcessCluster(tmp_path, store_url=store.url) as made:
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
async def client(fleet: ProcessCluster) -> AsyncIterator[Client]:
    async with client_factory.to_server(fleet.endpoint(), clock=system.SystemClock(), rng=random.Random(0)) as made:
        yield made


def some_tasks(count: int) -> list[Task]:
    rng = random.Random(7)
    kinds = [Kind.SUCCEEDS] * 8 + [Kind.FAILS, Kind.RETRIES]
    return [Task(name=f"t{n}", kind=kinds[n % 10], seconds=rng.uniform(0.1, 4.0)) for n in range(count)]


async def test_whatever_is_killed_cut_or_restarted_every_task_runs_as_often_as_it_may(
    fleet: ProcessCluster, network: Network, store: EtcdServer, client: Client, tmp_path: Path
) -> None:
    (first, _), (w1, _, w3) = fleet.masters, fleet.workers
    ordeal = ChaosWorkload(client, tmp_path / "marks", some_tasks(200))
    beats = tmp_path / "beats"
    await client.create(PODS, witness(beats, node="w2"))
    await until(lambda: _is_there(beats))
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
        # Cut off, a worker goes on; its pod has been given up meanwhile, and it cannot know.
        await until(lambda: _is_gone(client, "witness"))
        assert await _beats(beats)
        network.heal(network.hosts["w2"])
        w3.start(wait=False, inside=network.host("w3").inside)
        await ordeal.reach(1.0, patience_s=PATIENCE_S)
    ordeal.check()
    await until(lambda: _is_still(beats))


def witness(beats: Path, *, node: str) -> dict[str, Any]:
    """A pod that says again and again that it runs."""
    script = f"while true; do echo beat >> {beats}; sleep 0.1; done"
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 1,
        "tolerations": TOLERATIONS,
        "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script]}],
    }
    metadata = {"name": "witness", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - what is waited for happens in other processes
            await asyncio.sleep(0.2)


async def _is_there(path: Path) -> bool:
    return path.exists()


async def _is_gone(client: Client, pod: str) -> bool:
    try:
        await client.get(PODS, pod, namespace="default")
    except errors.NotFound:
        return True
    return False


async def _beats(path: Path) -> bool:
    """Whether it says something within a second."""
    before = path.stat().st_size
    await asyncio.sleep(1.0)
    return path.stat().st_size > before


async def _is_still(path: Path) -> bool:
    return not await _beats(path)
