"""Our scheduler and the stock one on one stock cluster at once: thousands of pods, no node oversold."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest
from tests.stock.clusters import PODS, Cluster, cluster
from tests.stock.test_our_scheduler import scheduling

from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.verbs import Object
from rota.kit import system, tasks
from rota.testing import manifests
from rota.testing.servers.kubernetes import Scheduler, StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(240)]

CORES, SLOTS = 4, 40
NODE_COUNT, POD_COUNT = 75, 2_000


@pytest.fixture(scope="module")
def server() -> Iterator[StockApiServer]:
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


class Ledger:
    """How many pods are on each node, after every change."""

    def __init__(self) -> None:
        self.sold: Counter[str] = Counter()
        self.oversold: list[str] = []
        self.by: Counter[str] = Counter()

    def changed(self, _: Key, old: Object | None, new: Object | None) -> None:
        before, after = ((one or {}).get("spec", {}).get("nodeName", "") for one in (old, new))
        if before != after:
            self.sold[before] -= 1
            self.sold[after] += 1
            if after and new is not None:
                self.by[new["spec"]["schedulerName"]] += 1
                if self.sold[after] > SLOTS:
                    self.oversold.append(after)


async def test_no_node_is_oversold_where_there_is_room_and_all_are_placed(server: StockApiServer) -> None:
    """Nobody checks bindings here: for the very last place two schedulers may race, which is not what this is about."""
    nodes = [_node(number) for number in range(NODE_COUNT)]
    clock, rng, ledger = system.SystemClock(), system.rng(), Ledger()
    with Scheduler(server.kubeconfig("system:kube-scheduler"), name="stock"):
        async with cluster(server.kubeconfig(), nodes, heartbeat_s=60.0) as it, scheduling(server, name="ours"):
            source = Source(client=it.client, target=PODS)
            pods = Informer[Object](source, decode=msgspec.json.decode, clock=clock, rng=rng)
            pods.add_handler(ledger.changed)
            async with tasks.Supervisor("ledger", clock=clock, rng=rng) as parts:
                parts.start("pods", pods.run)
                await pods.wait_synced()
                await _create(it, POD_COUNT)

                async def placed() -> bool:
                    return sum(ledger.by.values()) >= POD_COUNT

                await it.until(placed, "all are placed", patience_s=180.0)
    assert ledger.by == {"stock": POD_COUNT // 2, "ours": POD_COUNT // 2}
    assert not ledger.oversold


async def _create(it: Cluster, total: int) -> None:
    left = iter(range(total))

    async def creator() -> None:
        for number in left:
            made = manifests.pod(f"p{number}", schedulerName=("stock", "ours")[number % 2])
            made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
            await it.create(PODS, made)

    await asyncio.gather(*(creator() for _ in range(16)))


def _node(number: int) -> manifests.Document:
    made = manifests.node(f"node-{number}")
    made["status"]["allocatable"] = {"cpu": str(CORES), "memory": "32Gi", "pods": "110"}
    return made
