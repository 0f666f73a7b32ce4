"""What is told about spot machines as a whole."""

import pytest
from tests.spot_control.worlds import World

pytestmark = pytest.mark.slow
TYPE = "node.kubernetes.io/instance-type"


async def test_savings_are_reported_per_hour_and_in_total(world: World) -> None:
    await world.node("s1", **{TYPE: "big", "rota.dev/price": "0.10"})
    await world.node("s2", **{TYPE: "odd", "rota.dev/price": "0.10"})
    await world.node("d1", "on-demand", **{TYPE: "big", "rota.dev/price": "0.40"})
    async with world.controlled():
        await world.clock.advance(3700)
    assert world.figure("money_saved_per_hour") == pytest.approx(0.3)
    assert world.figure("money_saved_total") == pytest.approx(0.3, rel=0.1)
    assert world.figure("nodes_without_price") == 1
    assert world.figure("nodes", capacity="spot") == 2


async def test_the_spot_share_of_a_workload_is_reported_beside_its_limit(world: World) -> None:
    await world.node("d1", "on-demand")
    await world.replicas("web", 1, on="d1", annotations={"rota.dev/spot-base": "1", "rota.dev/spot-max-share": "50"})
    await world.replicas("silent", 1, on="d1")
    await world.node("s1")
    await world.client.patch(("apps", "v1", "replicasets"), "web", {"spec": {"replicas": 4}}, namespace="default")
    await world.clock.advance(10)
    async with world.controlled():
        await world.clock.advance(70)
    names = {"namespace": "default", "workload": "ReplicaSet/web"}
    assert world.figure("workload_spot_share", **names) == 0.75
    assert world.figure("workload_spot_share_limit", **names) == 0.25
    assert world.metrics.value("workload_spot_share", namespace="default", workload="ReplicaSet/silent") is None


async def test_churn_counts_those_that_were_sent_away_within_a_day(world: World) -> None:
    await world.node("s1")
    await world.replicas("web", 2, on="s1")
    await world.node("s2")
    await world.node("d1", "on-demand")
    async with world.controlled():
        await world.clock.advance(70)
        await world.notice("s1")
        await world.left("s1")
        await world.clock.advance(70)
        assert world.figure("evictions_per_pod_day") == 1.0
