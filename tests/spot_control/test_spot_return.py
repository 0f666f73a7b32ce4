"""Back to spot machines: when it is worth it, a few at a time, and never back and forth."""

import random
from typing import Any

import pytest
from tests.controllers.workloads import EVENTS, NODES, PODS
from tests.spot_control.worlds import CAPACITY, World

from rota.api import meta, times
from rota.spot.return_policy import Settings
from rota.testing import manifests

pytestmark = pytest.mark.slow
#: As the defaults, but sooner.
SOON = Settings(stable_s=120.0, cooldown_s=120.0, every_s=10.0)
PREFERS_SPOT: Any = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {"matchExpressions": [{"key": CAPACITY, "operator": "In", "values": ["spot"]}]},
            }
        ]
    }
}


async def _fled(world: World, count: int = 2, **more: Any) -> None:
    """A workload on a machine that stays, and a spot machine that has come."""
    await world.node("d1", "on-demand")
    await world.replicas("web", count, on="d1", **more)
    await world.node("s1")


async def _on_spot(world: World, count: int) -> None:
    async def so() -> bool:
        return len(await world.pods("web", on="s1")) == count == await world.ready("web")

    await world.cluster.until(so)


async def test_pods_go_back_one_by_one_once_the_pool_was_quiet_for_a_while(world: World) -> None:
    await _fled(world, 3, affinity=PREFERS_SPOT)
    await world.budget("b", 2, app="web")
    async with world.controlled(back=SOON), world.counting_ready("web") as counts:
        await world.clock.advance(110)
        assert len(await world.pods("web", on="d1")) == 3

        async def back() -> bool:
            return len(await world.pods("web", on="s1")) == 3 == await world.ready("web")

        await world.cluster.until(back)
        said = await world.reasons()
        await world.clock.advance(600)
    assert min(counts) == 2
    assert said["SpotReturns"] == 3
    assert world.figure("fallforwards_total", outcome="arrived") == 3
    assert await world.made("web") == 6
    assert await world.places() == {}


async def test_a_workload_with_annotations_goes_back_without_an_affinity(world: World) -> None:
    await _fled(world, annotations={"rota.dev/spot": "prefer"})
    async with world.controlled(back=SOON):
        await _on_spot(world, 2)


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [
        ({}, {}),
        ({"rota.dev/spot": "never"}, {"affinity": PREFERS_SPOT}),
        ({"rota.dev/spot-base": "2"}, {}),
        ({"rota.dev/spot": "prefer", "rota.dev/rebalance": "never"}, {}),
        ({"rota.dev/spot": "prefer"}, {"nodeSelector": {CAPACITY: "on-demand"}}),
        ({"rota.dev/spot": "prefer"}, {"volumes": [{"name": "scratch", "emptyDir": {}}]}),
    ],
)
async def test_pods_that_should_stay_are_not_moved(world: World, annotations: Any, spec: Any) -> None:
    await _fled(world, annotations=annotations, **spec)
    async with world.controlled(back=SOON):
        await world.clock.advance(400)
    assert len(await world.pods("web", on="d1")) == 2
    assert await world.made("web") == 2


async def test_a_pool_that_was_stirred_is_not_trusted(world: World) -> None:
    await _fled(world, annotations={"rota.dev/spot": "prefer"})
    await world.node("s2")
    async with world.controlled(back=SOON):
        for _ in range(4):
            await world.clock.advance(60)
            await world.notice("s2", lead=300)
            await world.clock.advance(5)
            await world.withdraw("s2")
        assert len(await world.pods("web", on="d1")) == 2

        async def back() -> bool:
            return not await world.pods("web", on="d1") and await world.ready("web") == 2

        await world.cluster.until(back)


async def test_a_node_that_is_less_sure_than_others_is_nothing_to_go_back_to(world: World) -> None:
    await _fled(world, annotations={"rota.dev/spot": "prefer"})
    taint = {"key": "aws-node-termination-handler/rebalance-recommendation", "effect": "PreferNoSchedule"}
    await world.client.patch(NODES, "s1", {"spec": {"taints": [taint]}})
    async with world.controlled(back=SOON):
        await world.clock.advance(300)
    assert len(await world.pods("web", on="d1")) == 2


async def test_a_budget_that_says_no_keeps_a_pod(world: World) -> None:
    await _fled(world, annotations={"rota.dev/spot": "prefer"})
    await world.budget("b", 2, app="web")
    async with world.controlled(back=SOON):
        await world.clock.advance(300)
        assert await world.places() == {}
    assert len(await world.pods("web", on="d1")) == 2
    assert await world.made("web") == 2


async def test_a_pod_that_cannot_be_replaced_is_not_sent_away(world: World) -> None:
    await world.node("d1", "on-demand")
    pod = manifests.pod("alone", on="d1")
    pod["metadata"] |= {"namespace": "default", "annotations": {"rota.dev/spot": "prefer"}}
    await world.client.create(PODS, pod)
    await world.node("s1")
    async with world.controlled(back=SOON):
        await world.clock.advance(300)
    assert len(await world.pods(on="d1")) == 1


async def test_a_workload_that_comes_back_elsewhere_is_tried_more_and_more_rarely(world: World) -> None:
    await _fled(world, 1, annotations={"rota.dev/spot": "prefer"})
    world.machines.heeds = False
    async with world.controlled(back=SOON):
        await world.clock.advance(3600)
    tried = world.figure("fallforwards_total", outcome="elsewhere")
    assert 2 <= tried <= 5
    assert await world.made("web") == 1 + tried


async def test_a_dry_run_lists_the_pods_that_would_return(world: World) -> None:
    await _fled(world, annotations={"rota.dev/spot": "prefer"})
    async with world.controlled(back=SOON, dry_run=True):
        await world.clock.advance(300)
    assert len(await world.pods("web", on="d1")) == 2
    # each would go once, the second after the first was given up
    assert world.figure("eviction_requests_total", code="201") == 2
    assert await world.made("web") == 2


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.timeout(120)
async def test_waves_of_notices_never_send_a_pod_back_before_its_time_and_all_comes_to_rest(
    world: World, seed: int
) -> None:
    rng = random.Random(seed)
    for number in range(2):
        await world.node(f"d{number}", "on-demand")
    names = [f"s{number}" for number in range(3)]
    for name in names:
        await world.node(name, **{"topology.kubernetes.io/zone": rng.choice("ab")})
    await world.replicas("web", 6, affinity=PREFERS_SPOT)
    await world.budget("b", 5, app="web")
    ages: list[float] = []
    born: dict[str, float] = {}
    seen: set[str] = set()

    async def watched(seconds: float) -> None:
        for _ in range(int(seconds / 10)):
            await world.clock.advance(10)
            for pod in await world.pods("web"):
                born[meta.name(pod)] = times.parse(pod["metadata"]["creationTimestamp"])
            for event in (await world.client.list(EVENTS)).items:
                name = event["involvedObject"]["name"]
                if event["reason"] == "SpotReturns" and name not in seen:
                    seen.add(name)
                    ages.append(times.parse(event["firstTimestamp"]) - born[name])

    async with world.controlled(back=SOON):
        for _ in range(5):
            going = rng.sample(names, rng.randint(1, 2))
            await world.notice(*going, lead=rng.choice([30, 120]))
            await watched(rng.choice([30, 130]))
            for name in going:
                if rng.random() < 0.5:
                    await world.withdraw(name)
                else:
                    await world.client.delete(NODES, name)
                    await world.node(name)
            await watched(rng.choice([60, 200, 400]))
        await watched(1500)
        made = await world.made("web")
        resting = {meta.uid(pod) for pod in await world.pods("web")}
        await watched(600)
    assert ages
    assert min(ages) >= SOON.cooldown_s
    assert {pod["spec"]["nodeName"] for pod in await world.pods("web")} <= set(names)
    assert await world.made("web") == made
    assert {meta.uid(pod) for pod in await world.pods("web")} == resting
    assert await world.ready("web") == 6
    assert await world.places() == {}
