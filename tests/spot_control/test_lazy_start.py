"""The spot controller of a cluster of ours: it sleeps until there is something to do, and its rights are enough."""

import pytest
from tests.controllers.workloads import PODS
from tests.spot_control.worlds import World

from rota.api import meta
from rota.scheduler.plugin_registry import builtin, configuration_source, third_party
from rota.spot import reservations
from rota.spot_control.lazy_start import LazySpotController
from rota.testing import manifests

pytestmark = pytest.mark.slow
USER = "rota:controller:spot"


def waking(world: World) -> LazySpotController:
    return LazySpotController(
        world.cluster.acting_as(USER),
        configuration_source.frameworks(third_party.default(builtin.registry())),
        clock=world.clock,
        rng=world.cluster.rng,
        metrics=world.metrics,
    )


async def test_it_sleeps_until_a_node_has_a_notice_and_then_acts_with_its_own_rights(world: World) -> None:
    await world.node("n1", "on-demand")
    await world.replicas("web", 2, on="n1")
    await world.budget("b", 1, app="web")
    await world.node("n2", "on-demand")
    async with world.cluster.running(waking(world).run):
        await world.clock.advance(60)
        assert world.metrics.value("leaving_nodes") is None
        await world.notice("n1", lead=120)
        await world.left("n1")

        async def moved() -> bool:
            return len(await world.pods("web", on="n2")) == 2 == await world.ready("web")

        await world.cluster.until(moved)
        await world.withdraw("n1")
        await world.clock.advance(70)
        said = await world.reasons()
    assert (said["SpotEvicted"], said["SpotNodeStays"]) == (2, 1)
    assert world.figure("reservations_total", outcome="made") == 2
    assert world.figure("reservations_total", outcome="refused") == 0
    assert await world.places() == {}


async def test_pods_go_back_with_its_own_rights(world: World) -> None:
    await world.node("d1", "on-demand")
    await world.replicas("web", 1, on="d1", annotations={"rota.dev/spot": "prefer"})
    await world.node("s1")
    async with world.cluster.running(waking(world).run):
        await world.clock.advance(700)
        assert len(await world.pods("web", on="s1")) == 1
    assert world.figure("fallforwards_total", outcome="arrived") == 1


async def test_a_place_that_was_left_behind_wakes_it(world: World) -> None:
    await world.node("d1", "on-demand")
    old = manifests.pod("old", on="s9")
    old["metadata"] |= {"namespace": "default", "uid": "gone-for-long"}
    await world.client.create(
        PODS, reservations.manifest(old, node="d1", owner="", namespace="kube-system", lasts_s=600)
    )
    async with world.cluster.running(waking(world).run):
        await world.clock.advance(10)
    assert await world.places() == {}


async def test_it_may_make_pods_in_its_own_namespace_only(world: World) -> None:
    client = world.cluster.acting_as(USER)
    made = manifests.pod("p")
    made["metadata"]["namespace"] = "default"
    with pytest.raises(Exception, match="cannot create resource"):
        await client.create(PODS, made)
    made["metadata"]["namespace"] = "kube-system"
    assert meta.name(await client.create(PODS, made)) == "p"
