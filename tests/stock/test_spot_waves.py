"""The spot controller and the extender in a stock cluster: waves of notices, budgets kept, nobody sent away in vain."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.stock import audits, spots
from tests.stock.clusters import NODES, Cluster, cluster, connected
from tests.stock.spots import USER, Onlooker, Plane, machine
from tests.stock.test_extenders import StockScheduler
from tests.stock.test_spot_extender import settings

from rota.client.verbs import Selection
from rota.kit import system
from rota.spot import evacuation, return_policy
from rota.spot_control import node_state
from rota.testing import manifests
from rota.testing.process_cluster import Member
from rota.testing.servers import processes
from rota.testing.servers.kubernetes import ControllerManager

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A stock scheduler that asks our extender, and all that it needs."""
    port, folder = processes.free_port(), tmp_path_factory.mktemp("plane")
    with spots.plane(folder, scheduler=False) as made:
        config = made.server.kubeconfig("system:kube-scheduler")
        asked = Member(
            "extender",
            ("extender", "--kubeconfig", str(config), "--listen", f"127.0.0.1:{port}"),
            folder=folder / "extender",
            ready="Answering schedulers",
        )
        try:
            with StockScheduler(config, name="default-scheduler", extenders=[settings(port, ignorable=False)]):
                yield made
        finally:
            asked.stop()


@pytest.fixture
async def config(plane: Plane, tmp_path: Path) -> Path:
    """The controller's way in."""
    async with connected(plane.server.kubeconfig()) as client:
        return plane.kubeconfig(await spots.token(client), tmp_path / "spot.kubeconfig")


@contextlib.asynccontextmanager
async def world(
    plane: Plane, nodes: list[manifests.Document], *, start_s: float = 0.2, heartbeat_s: float = 2.0
) -> AsyncIterator[tuple[Cluster, Onlooker]]:
    """Nodes, a namespace, and somebody who looks on."""
    async with (
        cluster(plane.server.kubeconfig(), nodes, start_s=start_s, heartbeat_s=heartbeat_s) as it,
        Onlooker(it.client, it.namespace).looking() as onlooker,
    ):
        yield it, onlooker


def told_once(plane: Plane, it: Cluster, onlooker: Onlooker, *nodes: str) -> list[str]:
    """The uids of all pods that were told to go, each once and for a reason: it was on one of these nodes."""
    granted = audits.granted(plane.audit.asked(by=USER, namespace=it.namespace))
    assert set(granted.values()) <= {1}
    assert {onlooker.nodes[uid] for uid in granted} <= set(nodes)
    return list(granted)


async def test_half_of_the_spot_machines_go_and_the_service_stays_and_goes_back(plane: Plane, config: Path) -> None:
    soon = return_policy.Settings(stable_s=3.0, cooldown_s=3.0, most_at_once=4, every_s=1.0)
    spot, stays = [f"spot-{n}" for n in range(8)], [f"stays-{n}" for n in range(4)]
    nodes = [*(machine(name) for name in spot), *(machine(name, "on-demand") for name in stays)]
    async with world(plane, nodes) as (it, onlooker), spots.controlling(config, back=soon):
        await spots.high_priority(it.client)
        shop = spots.deployment("shop", 12, priorityClassName="high-priority")
        await spots.deployed(it, onlooker, shop, spots.deployment("batch", 12))
        assert set(onlooker.nodes.values()) <= set(spot)
        await spots.budgeted(it, "shop", 10, app="shop")
        await spots.budgeted(it, "batch", 8, app="batch")
        onlooker.reset()
        leaving = spot[::2]
        deadline = await spots.notice(it.client, *leaving, lead_s=60.0)
        await spots.empty(it, onlooker, *leaving)
        assert system.SystemClock().now() < deadline - evacuation.SAFETY_S

        async def whole() -> bool:
            return onlooker.serving("shop") == 12 and onlooker.serving("batch") == 12

        await it.until(whole, "both serve as before")
        assert onlooker.fewest["shop"] >= 10
        assert onlooker.fewest["batch"] >= 8
        # half of the spot machines have room for 16 at most: the others are on machines that stay
        assert len(onlooker.on(*stays)) >= 8
        told_once(plane, it, onlooker, *leaving)
        # the machines are gone, others come, and after a while of peace all is on spot machines again
        for name in leaving:
            await it.client.delete(NODES, name)
            await it.client.create(NODES, machine(name))
        await spots.empty(it, onlooker, *stays)
        await it.until(whole, "both serve as before")
        assert onlooker.fewest["shop"] >= 10
        assert onlooker.fewest["batch"] >= 8
        assert told_once(plane, it, onlooker, *leaving, *stays)
        assert (await spots.reasons(it, "spot-"))["SpotNodeEvacuated"] == len(leaving)


async def test_two_hundred_notices_at_once_trip_no_breaker(plane: Plane, config: Path) -> None:
    spot = [f"spot-{n}" for n in range(200)]
    nodes = [*(machine(name) for name in spot), *(machine(f"stays-{n}", "on-demand", cores=32) for n in range(8))]
    async with world(plane, nodes, heartbeat_s=60.0) as (it, onlooker), spots.controlling(config):
        apps = [f"app-{n}" for n in range(3)]
        await spots.deployed(it, onlooker, *(spots.deployment(app, 20, cores=3) for app in apps))
        assert set(onlooker.nodes.values()) < set(spot)
        for app in apps:
            await spots.budgeted(it, app, 12, app=app)
        onlooker.reset()
        deadline = await spots.notice(it.client, *spot, lead_s=90.0)
        await spots.empty(it, onlooker, *spot, patience_s=90.0)
        assert system.SystemClock().now() < deadline
        assert all(onlooker.fewest[app] >= 12 for app in apps)
        assert len(told_once(plane, it, onlooker, *spot)) == 60
        nodes_now = (await it.client.list(NODES, selection=Selection(labels=f"{spots.CAPACITY}=spot"))).items
        assert all(node_state.since(node) is not None for node in nodes_now)


async def test_a_pod_of_two_budgets_is_asked_for_once_and_goes_in_its_last_moment(plane: Plane, config: Path) -> None:
    async with (
        world(plane, [machine("spot-0"), machine("stays-0", "on-demand")]) as (it, onlooker),
        spots.controlling(config),
    ):
        await spots.deployed(it, onlooker, spots.deployment("torn", 2, grace_s=1))
        assert set(onlooker.nodes.values()) == {"spot-0"}
        for name in ("one", "two"):
            await spots.budgeted(it, name, 0, app="torn")
        old = [pod["metadata"]["uid"] for pod in onlooker.on("spot-0")]
        deadline = await spots.notice(it.client, "spot-0", lead_s=8.0)
        await spots.empty(it, onlooker, "spot-0")
        assert system.SystemClock().now() < deadline
        asked = plane.audit.asked(by=USER, namespace=it.namespace)
        for uid in old:
            first, second = [one for one in asked if one.uid == uid]
            assert (first.verb, first.code) == ("create", 500)
            assert "more than one PodDisruptionBudget" in first.message
            assert (second.verb, second.code) == ("delete", 200)
        told = await spots.reasons(it, "torn")
        assert (told["SpotTwoBudgets"], told["SpotDeletedAtDeadline"]) == (2, 2)


async def test_a_new_machine_under_an_old_name_is_another_one(plane: Plane, config: Path) -> None:
    async with (
        world(plane, [machine("spot-0"), machine("stays-0", "on-demand", cores=8)]) as (it, onlooker),
        spots.controlling(config),
    ):
        await spots.deployed(it, onlooker, spots.deployment("shop", 3))
        await spots.notice(it.client, "spot-0", lead_s=30.0)
        await spots.empty(it, onlooker, "spot-0")
        before = told_once(plane, it, onlooker, "spot-0")
        await it.client.delete(NODES, "spot-0")
        await it.client.create(NODES, machine("spot-0"))
        await spots.deployed(it, onlooker, spots.deployment("more", 3))
        assert len(onlooker.on("spot-0")) == 3
        # whoever is on the new one is left alone until it goes itself
        assert told_once(plane, it, onlooker, "spot-0") == before
        node = await it.client.get(NODES, "spot-0")
        assert not node["spec"].get("taints")
        await spots.notice(it.client, "spot-0", lead_s=30.0)
        await spots.empty(it, onlooker, "spot-0")
        assert len(told_once(plane, it, onlooker, "spot-0")) == len(before) + 3


async def test_a_node_lost_without_notice_is_reported_and_no_pod_is_evicted(plane: Plane, config: Path) -> None:
    watched = ControllerManager(
        plane.server.kubeconfig(),
        controllers="node-lifecycle-controller,taint-eviction-controller",
        leader_elect="false",
        node_monitor_period="1s",
        node_monitor_grace_period="6s",
        node_startup_grace_period="6s",
    )
    impatient = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
        for key in ("not-ready", "unreachable")
    ]
    async with (
        world(plane, [machine("spot-0"), machine("stays-0", "on-demand")]) as (it, onlooker),
        spots.controlling(config),
    ):
        await spots.deployed(it, onlooker, spots.deployment("shop", 3, grace_s=0, tolerations=impatient))
        assert {pod["spec"]["nodeName"] for pod in onlooker.on("spot-0", "stays-0")} == {"spot-0"}
        with watched:
            it.nodes.silence("spot-0")

            async def moved() -> bool:
                return len(onlooker.on("stays-0")) == 3 == onlooker.serving("shop")

            await it.until(moved, "the pods are made again elsewhere", patience_s=60)
        assert not plane.audit.asked(by=USER, namespace=it.namespace)

        async def told() -> bool:
            return (await spots.reasons(it, "spot-0"))["SpotLostWithoutNotice"] == 1

        await it.until(told, "somebody hears of it")
