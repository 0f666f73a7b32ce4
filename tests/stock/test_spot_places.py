"""Places that are held from the stock scheduler: nobody takes them, and those that they are for find them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stock import spots
from tests.stock.clusters import PODS, cluster, connected
from tests.stock.spots import Onlooker, Plane, machine

from rota.api import meta
from rota.spot import reservations
from rota.testing import manifests

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A stock server with its scheduler and its controllers."""
    with spots.plane(tmp_path_factory.mktemp("plane")) as made:
        yield made


async def test_a_place_is_kept_from_the_stock_scheduler_until_the_successor_comes(plane: Plane, tmp_path: Path) -> None:
    async with connected(plane.server.kubeconfig()) as client:
        config = plane.kubeconfig(await spots.token(client), tmp_path / "spot.kubeconfig")
    nodes = [machine("spot-0"), machine("stays-0", "on-demand")]
    async with (
        cluster(plane.server.kubeconfig(), nodes, start_s=0.2) as it,
        Onlooker(it.client, it.namespace).looking() as onlooker,
        spots.controlling(config),
    ):
        await spots.deployed(it, onlooker, spots.deployment("web", 1, grace_s=1, cores=4))
        assert set(onlooker.nodes.values()) == {"spot-0"}
        await spots.budgeted(it, "web", 1, app="web")
        await spots.notice(it.client, "spot-0", lead_s=60.0)

        async def held() -> bool:
            found = [pod for pod in (await it.client.list(PODS)).items if reservations.is_one(pod)]
            return [reservations.read(pod).node for pod in found] == ["stays-0"]

        await it.until(held, "a place is held", patience_s=90.0)
        greedy = manifests.pod("greedy")
        greedy["metadata"]["namespace"] = it.namespace
        greedy["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        uid = (await it.client.create(PODS, greedy))["metadata"]["uid"]

        async def refused() -> bool:
            found = meta.condition(await it.get(PODS, "greedy"), "PodScheduled")
            return found is not None and found["status"] == "False"

        await it.until(refused, "the other finds no place")
        await it.client.delete(("policy", "v1", "poddisruptionbudgets"), "web", namespace=it.namespace)

        async def moved() -> bool:
            return "stays-0" in onlooker.nodes.values()

        await it.until(moved, "the successor is there", patience_s=60.0)
        assert uid not in onlooker.nodes

        async def given_back() -> bool:
            return not [pod for pod in (await it.client.list(PODS)).items if reservations.is_one(pod)]

        await it.until(given_back, "nothing is held any more", patience_s=90.0)
