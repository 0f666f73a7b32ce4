"""Places that are held in the cluster until the successors have come."""

from typing import Any

import pytest
from tests.controllers.workloads import NODES, PODS
from tests.spot_control.worlds import World

from rota.api import errors, meta
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.controllers.disruption import BUDGETS
from rota.spot import reservations
from rota.spot_control import placeholder_pods
from rota.testing import manifests

pytestmark = pytest.mark.slow
SYSTEM = "kube-system"


async def _blocked(world: World, **spec: Any) -> None:
    """Two pods on a machine that goes, a budget that lets nobody go, and one machine with room."""
    await world.node("s1")
    await world.replicas("web", 2, on="s1", cpu="2", terminationGracePeriodSeconds=10, **spec)
    await world.budget("b", 2, app="web")
    await world.node("d1", "on-demand")


async def _told(world: World) -> bool:
    """Whether the successor was told of its place, which is held until then."""
    found = [pod for pod in await world.pods("web") if not meta.is_deleting(pod)]
    if [pod for pod in found if pod["status"].get("nominatedNodeName") == "d1"]:
        return True
    assert len(await world.places()) == 1 or await world.pods("web", on="s1")
    return False


async def _taker(world: World, name: str = "taker") -> str:
    """A pod that wants two processors, and where it got them."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "2"}}}
    made = manifests.pod(name)
    made["metadata"]["namespace"] = "default"
    made["spec"]["containers"] = [container]
    await world.client.create(PODS, made)
    await world.clock.advance(5)
    found = await world.client.get(PODS, name, namespace="default")
    return str(found["spec"].get("nodeName") or "")


async def test_a_reserved_place_is_kept_while_a_budget_refuses(world: World) -> None:
    await _blocked(world)
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(5)
        leavers = {meta.name(pod) for pod in await world.pods("web", on="s1")}
        assert await world.places() == dict.fromkeys(leavers, "d1")
        assert world.figure("places_reserved") == 2
        assert await _taker(world) == ""
        await world.client.delete(BUDGETS, "b", namespace="default")
        await world.left("s1")

        async def moved() -> bool:
            return len(await world.pods("web", on="d1")) == 2 == await world.ready("web")

        await world.cluster.until(moved)
        await world.clock.advance(2)
        assert await world.places() == {}
        assert len(await world.pods("taker", on="d1")) == 0
    assert world.figure("reservations_total", outcome="made") == 2
    assert world.figure("reservations_total", outcome="given_back") == 2
    assert world.figure("places_reserved") == 0


async def test_the_successor_is_nominated_before_its_place_is_freed(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 1, on="s1", cpu="4")
    await world.budget("b", 1, app="web")
    await world.node("d1", "on-demand")
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(5)
        assert await _taker(world) == ""
        world.machines.places = False
        await world.client.delete(BUDGETS, "b", namespace="default")
        await world.cluster.until(lambda: _told(world))
        await world.clock.advance(1)
        assert await world.places() == {}


async def test_a_controller_that_died_leaves_nothing_that_the_next_one_does_not_find(world: World) -> None:
    await _blocked(world)
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(5)
    before = {meta.uid(pod) for pod in (await world.client.list(PODS, namespace=SYSTEM)).items}
    assert len(before) == 2
    async with world.controlled():
        await world.clock.advance(5)
        after = {meta.uid(pod) for pod in (await world.client.list(PODS, namespace=SYSTEM)).items}
        assert after == before
    await world.withdraw("s1")
    async with world.controlled():
        await world.clock.advance(5)
        assert await world.places() == {}


async def test_places_of_pods_that_are_no_more_are_given_back_at_the_start(world: World) -> None:
    await world.node("d1", "on-demand")
    old = manifests.pod("old", on="s9")
    old["metadata"] |= {"namespace": "default", "uid": "gone-for-long"}
    made = reservations.manifest(old, node="d1", owner="", namespace=SYSTEM, lasts_s=600)
    await world.client.create(PODS, made)
    async with world.controlled():
        await world.clock.advance(1)
        assert await world.places() == {}


async def test_what_calls_itself_a_place_in_somebodys_namespace_is_none(world: World) -> None:
    await _blocked(world)
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(5)
        leavers = await world.pods("web", on="s1")
        await world.node("d2", "on-demand")
        for old in leavers:
            made = reservations.manifest(old, node="d2", owner="", namespace="default", lasts_s=600)
            await world.client.create(PODS, made)
        await world.clock.advance(5)
        held = (await world.client.list(PODS, namespace=SYSTEM)).items
        assert {reservations.read(pod).leaver for pod in held} == {meta.uid(pod) for pod in leavers}
    assert world.figure("reservations_total", outcome="made") == 2
    assert world.figure("reservations_total", outcome="given_back") == 0


async def test_a_place_for_a_successor_that_has_not_come_outlives_a_restart(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 1, on="s1", cpu="4")
    await world.node("d1", "on-demand")
    (old,) = await world.pods("web")
    owner = old["metadata"]["ownerReferences"][0]["uid"]
    made = reservations.manifest(old, node="d1", owner=owner, namespace=SYSTEM, lasts_s=600)
    world.machines.places = False
    assert await _taker(world) == ""
    await world.client.create(PODS, made)
    await world.client.delete(PODS, meta.name(old), namespace="default")
    async with world.controlled():
        await world.cluster.until(lambda: _told(world))
        await world.clock.advance(1)
        assert await world.places() == {}


async def test_a_pod_that_loses_its_reservation_to_a_higher_priority_gets_another(world: World) -> None:
    await _blocked(world)
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(5)
        await world.node("d2", "on-demand")
        leaver = next(iter(await world.places()))
        (taken,) = [
            pod
            for pod in (await world.client.list(PODS, namespace=SYSTEM)).items
            if reservations.read(pod).pod == f"default/{leaver}"
        ]
        await world.client.delete(PODS, meta.name(taken), namespace=SYSTEM, grace_period_s=0)
        await world.clock.advance(10)
        assert (await world.places())[leaver] in {"d1", "d2"}
        assert len(await world.pods("web", on="s1")) == 2
    assert world.figure("reservations_total", outcome="lost") == 1


async def test_places_on_a_node_that_goes_itself_are_given_back(world: World) -> None:
    await _blocked(world)
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(5)
        await world.node("d2", "on-demand")
        await world.notice("d1", lead=300)
        await world.clock.advance(5)
        assert set((await world.places()).values()) == {"d2"}
        await world.client.delete(NODES, "d2")
        await world.clock.advance(5)
        assert await world.places() == {}


async def test_where_no_places_may_be_made_pods_leave_by_plan(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 2, on="s1")
    await world.node("d1", "on-demand")
    async with world.controlled(namespace="not-there"):
        await world.notice("s1", lead=120)
        await world.left("s1")
    assert world.figure("reservations_total", outcome="refused") >= 1
    assert world.figure("pods_evicted_total") == 2


@pytest.mark.parametrize(
    ("problem", "in_s"), [(TransportError("hung up", uncertain=False), 8), (errors.Conflict("no room any more"), 12)]
)
async def test_a_place_that_cannot_be_made_just_now_is_made_soon(
    world: World, monkeypatch: pytest.MonkeyPatch, problem: Exception, in_s: float
) -> None:
    create, failed = Client.create, False

    async def fails_once(client: Client, what: Any, body: Any, **more: Any) -> Any:
        nonlocal failed
        if reservations.is_one(body) and not failed:
            failed = True
            raise problem
        return await create(client, what, body, **more)

    monkeypatch.setattr(Client, "create", fails_once)
    await _blocked(world)
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(in_s)
        assert failed
        assert set((await world.places()).values()) == {"d1"}
        assert len(await world.places()) == 2


async def test_at_most_so_many_places_are_held(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placeholder_pods, "MOST", 1)
    await world.priority("high", 1000)
    await _blocked(world)
    await world.replicas("top", 1, cpu="2", on="d1", priorityClassName="high")
    await world.budget("c", 1, app="top")
    for name in ("d2", "d3"):
        await world.node(name, "on-demand")
    async with world.controlled():
        await world.notice("s1", "d1", lead=300)
        await world.clock.advance(10)
        held = await world.places()
    assert len(held) == 1
    assert next(iter(held)).startswith("top")


@pytest.mark.parametrize(
    ("kind", "below", "waits", "kept"),
    [
        ("ReplicaSet", False, False, 0),
        ("ReplicaSet", False, True, 1),
        ("ReplicaSet", True, True, 0),
        ("StatefulSet", True, False, 1),
    ],
)
async def test_a_reservation_keeps_out_waiting_pods_unless_the_successor_could_preempt(
    world: World, *, kind: str, below: bool, waits: bool, kept: int
) -> None:
    await world.priority("high", 1000)
    await world.node("d1", "on-demand")
    if below:
        await world.replicas("low", 1, on="d1")
    await world.node("s1")
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
    pod = manifests.pod("one", on="s1", priorityClassName="high")
    pod["metadata"] |= {"namespace": "default", "ownerReferences": [owner]}
    await world.client.create(PODS, pod)
    world.machines.farewell_s, world.machines.places = 20, False
    if waits:
        assert await _taker(world) == ""
    async with world.controlled():
        await world.notice("s1", lead=300)
        await world.clock.advance(5)
        # it has been told to go, and no successor has come
        assert all(meta.is_deleting(one) for one in await world.pods(on="s1"))
        assert len(await world.places()) == kept


async def test_where_seconds_are_left_pods_go_before_places_are_held(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 2, on="s1", terminationGracePeriodSeconds=1)
    await world.node("d1", "on-demand")

    async def left() -> bool:
        assert world.figure("pods_evicted_total") == 2 or not await world.places()
        return not await world.pods("web", on="s1")

    async with world.controlled():
        await world.notice("s1", lead=10)
        await world.cluster.until(left)
    assert world.figure("pods_evicted_total") == 2


async def test_a_dry_run_holds_nothing(world: World) -> None:
    await _blocked(world)
    async with world.controlled(dry_run=True):
        await world.notice("s1", lead=300)
        await world.clock.advance(5)
        assert await world.places() == {}
    assert world.figure("reservations_total", outcome="made") == 2
