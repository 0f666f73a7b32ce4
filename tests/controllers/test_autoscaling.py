"""HorizontalPodAutoscalers size their targets by what pods use; the numbers are those of upstream's rules."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers import test_stateful_sets
from tests.controllers.workloads import PODS, Kubelet, listed, reaches, reasons

from rota.api import meta, times
from rota.client.verbs import Client, Listing
from rota.controllers.autoscaling import pace, proposals
from rota.controllers.autoscaling.controller import AUTOSCALERS, POD_METRICS, AutoscalingController
from rota.controllers.autoscaling.pace import Memory
from rota.controllers.autoscaling.proposals import Measured, Proposal, Tolerances, Unknown
from rota.controllers.stateful_sets.controller import STATEFUL_SETS
from rota.testing.virtual_api import VirtualCluster

NOW = 1_700_000_000.0
USER = "rota:controller:autoscaling"


def pod(name: str, *, ready: bool = True, phase: str = "Running", asks: str = "1", age_s: float = 3600) -> Any:
    began = times.format_time(NOW - age_s)
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": began}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": asks, "memory": asks}}}]},
        "status": {"phase": phase, "startTime": began, "conditions": [condition]},
    }


def utilization(percent: int, resource: str = "cpu") -> Any:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": resource, "target": target}}


def replicas(metric: Any, pods: Sequence[Any], millis: Sequence[int | None], current: int = 0) -> int:
    measured = {
        meta.name(one): Measured(amount=amount, at=NOW, window_s=30)
        for one, amount in zip(pods, millis, strict=True)
        if amount is not None
    }
    found = proposals.propose(metric, pods, measured, current=current or len(pods), tolerances=Tolerances(), now=NOW)
    assert isinstance(found, Proposal), found
    return found.replicas


def several(*asks: str, unready: Sequence[int] = ()) -> list[Any]:
    return [pod(f"p{number}", asks=one, ready=number not in unready) for number, one in enumerate(asks)]


@pytest.mark.parametrize(
    ("percent", "pods", "millis", "wanted"),
    [
        (30, several(*"111"), [300, 500, 700], 5),
        (50, several(*"11111"), [100, 300, 500, 250, 250], 3),
        (100, several("0.9", "1", "1.1"), [1010, 1030, 1020], 3),
        # Of two that use twice too much one is counted with nothing beside them.
        (30, several(*"111", unready=[0]), [300, 500, 700], 4),
        # With two that are not ready there would be fewer, and nobody wanted fewer.
        (30, several(*"111", unready=[1, 2]), [400, 500, 700], 3),
        # Fewer are wanted: those that are not ready do not count.
        (50, several(*"11111", unready=[0, 1]), [100, 300, 500, 250, 250], 2),
        # Nothing is known of one: it may use all it asked for, or nothing.
        (50, several(*"1111"), [100, 100, 100, None], 3),
        (50, several(*"1111"), [1000, 1000, 1000, None], 6),
    ],
)
def test_worked_examples_of_utilization(percent: int, pods: Any, millis: Any, wanted: int) -> None:
    assert replicas(utilization(percent), pods, millis) == wanted


def test_a_value_for_each_pod_is_a_measure_too_and_so_is_one_container() -> None:
    target = {"type": "AverageValue", "averageValue": "200m"}
    assert (
        replicas({"type": "Resource", "resource": {"name": "cpu", "target": target}}, several(*"111"), [400] * 3) == 6
    )
    one = {"name": "cpu", "container": "main", "target": {"type": "Utilization", "averageUtilization": 50}}
    assert replicas({"type": "ContainerResource", "containerResource": one}, several(*"11"), [1000, 1000]) == 4


def test_a_pod_that_starts_does_not_count_for_processors_but_for_memory() -> None:
    young = [pod("a"), pod("b", ready=False, age_s=10)]
    assert replicas(utilization(50), young, [500, 1000]) == 2
    assert replicas(utilization(50, "memory"), young, [500, 1000]) == 3


def test_pods_that_have_failed_or_wait_are_left_out() -> None:
    pods = [pod("a"), pod("b"), pod("c", phase="Failed"), pod("d", phase="Pending")]
    assert replicas(utilization(50), pods, [1000, 1000, 5, None], current=3) == 4


@pytest.mark.parametrize(
    ("pods", "measured", "words"),
    [
        ([], {}, "no pods"),
        ([pod("a")], {}, "did not receive metrics"),
        ([{**pod("a"), "spec": {"containers": [{"name": "x"}]}}], {"a": 5}, "missing request for cpu in container x"),
    ],
)
def test_what_cannot_be_told_is_said(pods: Any, measured: Any, words: str) -> None:
    known = {name: Measured(amount=amount, at=NOW, window_s=1) for name, amount in measured.items()}
    found = proposals.propose(utilization(50), pods, known, current=1, tolerances=Tolerances(), now=NOW)
    assert isinstance(found, Unknown)
    assert found.reason == "FailedGetResourceMetric"
    assert words in found.message


@pytest.mark.slow
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=6), st.integers(1, 200))
def test_what_is_in_tolerance_stays_and_the_rest_goes_the_right_way(millis: list[int], percent: int) -> None:
    found = replicas(utilization(percent), several(*"1" * len(millis)), millis)
    ratio = sum(millis) * 100 // (1000 * len(millis)) / percent
    if 0.9 <= ratio <= 1.1:
        assert found == len(millis)
    else:
        assert (found >= len(millis)) if ratio > 1 else (found <= len(millis))


def spec(**more: Any) -> dict[str, Any]:
    return {"minReplicas": 2, "maxReplicas": 20, **more}


def decided(it: Any, memory: Memory, current: int, wanted: int, now: float = 1000.0) -> tuple[int, str, str]:
    found = pace.decide(it, memory, current=current, wanted=wanted, now=now)
    return found.replicas, found.able[1], found.limited[1]


def test_without_behavior_pods_double_at_once_and_go_after_five_minutes() -> None:
    memory = Memory()
    assert decided(spec(), memory, 3, 15) == (6, "ReadyForNewScale", "ScaleUpLimit")
    assert decided(spec(), memory, 6, 3, 1100) == (6, "ScaleDownStabilized", "DesiredWithinRange")
    assert decided(spec(), memory, 6, 3, 1301) == (3, "ReadyForNewScale", "DesiredWithinRange")
    assert decided(spec(), Memory(), 15, 40) == (20, "ReadyForNewScale", "TooManyReplicas")
    assert decided(spec(), Memory(), 4, 0) == (2, "ReadyForNewScale", "TooFewReplicas")


def test_policies_bound_what_changes_in_their_periods() -> None:
    slowly = {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}], "stabilizationWindowSeconds": 0}
    up, down = spec(behavior={"scaleUp": slowly}), spec(behavior={"scaleDown": slowly})
    assert decided(up, Memory(), 5, 20) == (7, "ReadyForNewScale", "ScaleUpLimit")
    assert decided(up, Memory(changes=[(970, 2)]), 7, 20) == (7, "ReadyForNewScale", "ScaleUpLimit")
    assert decided(up, Memory(changes=[(930, 2)]), 7, 20)[0] == 9
    assert decided(down, Memory(), 9, 3) == (7, "ReadyForNewScale", "ScaleDownLimit")
    assert decided(down, Memory(changes=[(970, -2)]), 7, 3)[0] == 7
    both = [*slowly["policies"], {"type": "Percent", "value": 100, "periodSeconds": 60}]  # type: ignore[misc]
    assert decided(spec(behavior={"scaleUp": {"policies": both}}), Memory(), 5, 20)[0] == 10
    assert decided(spec(behavior={"scaleUp": {"policies": both, "selectPolicy": "Min"}}), Memory(), 5, 20)[0] == 7
    assert decided(spec(behavior={"scaleUp": {"selectPolicy": "Disabled"}}), Memory(), 5, 20)[0] == 5
    assert decided(spec(behavior={"scaleUp": {}}), Memory(), 2, 20)[0] == 6


def test_a_window_for_more_pods_waits_for_the_lowest_recommendation() -> None:
    waiting = spec(behavior={"scaleUp": {"stabilizationWindowSeconds": 60}})
    memory = Memory(recommendations=[(980.0, 5)])
    assert decided(waiting, memory, 5, 9)[:2] == (5, "ScaleUpStabilized")
    assert decided(waiting, memory, 5, 9, 1050)[:2] == (9, "ReadyForNewScale")


@pytest.mark.slow
@given(st.integers(1, 20), st.integers(0, 40), st.lists(st.integers(1, 30), max_size=5))
def test_the_bounds_hold_whatever_is_wanted(current: int, wanted: int, before: list[int]) -> None:
    memory = Memory(recommendations=[(990.0 + at, count) for at, count in enumerate(before)])
    found = decided(spec(), memory, current, wanted)[0]
    assert 2 <= found <= 20
    assert found <= max(2 * current, 4, 2)


class MeasuringClient(Client):
    """A client of a cluster whose pods all use the same, in thousandths of a processor; of nothing, if None."""

    millis: int | None = None

    async def list(self, target: Any, **more: Any) -> Listing:
        """As usual; what is used as the test says."""
        if target != POD_METRICS:
            return await super().list(target, **more)
        pods = await super().list(PODS, **more)
        usage = {"cpu": f"{self.millis}m"}
        items = [
            {
                "metadata": one["metadata"],
                "timestamp": "2100-01-01T00:00:00Z",
                "window": "10s",
                "containers": [{"name": "main", "usage": usage}],
            }
            for one in pods.items
            if self.millis is not None
        ]
        return Listing(items=items, resource_version="")


@contextlib.asynccontextmanager
async def scaling(cluster: VirtualCluster, *, maximum: int = 5, **more: Any) -> AsyncIterator[MeasuringClient]:
    """A StatefulSet of two pods, which start at once, and an autoscaler of it."""
    client = MeasuringClient(cluster.acting_as(USER)._transport)
    controller = AutoscalingController(client, clock=cluster.clock, chance=cluster.chance)
    sets = test_stateful_sets.running(cluster)
    async with cluster.running(Kubelet(cluster).run), sets, cluster.running(controller.run):
        made = test_stateful_sets.stateful_set(2, podManagementPolicy="Parallel")
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
        await cluster.client.create(STATEFUL_SETS, made)
        await reaches(cluster, STATEFUL_SETS, "db", readyReplicas=2)
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
        wanted = {"scaleTargetRef": target, "maxReplicas": maximum, "metrics": [utilization(50)], **more}
        await cluster.client.create(
            AUTOSCALERS, {"metadata": {"name": "by-use", "namespace": "default"}, "spec": wanted}
        )
        yield client


async def said(cluster: VirtualCluster) -> dict[str, tuple[str, str]]:
    found = await cluster.client.get(AUTOSCALERS, "by-use", namespace="default")
    return {one["type"]: (one["status"], one["reason"]) for one in meta.conditions(found)}


@pytest.mark.slow
async def test_a_target_grows_with_its_use_and_shrinks_after_a_while(cluster: VirtualCluster) -> None:
    async with scaling(cluster) as client:
        client.millis = 75
        await reaches(cluster, AUTOSCALERS, "by-use", currentReplicas=2, desiredReplicas=3)
        await reaches(cluster, STATEFUL_SETS, "db", readyReplicas=3)
        assert (await said(cluster))["ScalingActive"] == ("True", "ValidMetricFound")
        found = await reaches(cluster, AUTOSCALERS, "by-use", currentReplicas=5)
        assert found["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 75
        await cluster.clock.advance(20)
        assert (await said(cluster))["ScalingLimited"] == ("True", "TooManyReplicas")
        client.millis = 10
        await cluster.clock.advance(200)
        assert (await said(cluster))["AbleToScale"] == ("True", "ScaleDownStabilized")
        await reaches(cluster, STATEFUL_SETS, "db", replicas=1)
        await cluster.clock.advance(2)
        assert (await reasons(cluster, "by-use"))["SuccessfulRescale"] == 3


@pytest.mark.slow
async def test_nothing_changes_while_nothing_is_known(cluster: VirtualCluster) -> None:
    async with scaling(cluster):
        await cluster.clock.advance(40)
        assert (await said(cluster))["ScalingActive"] == ("False", "FailedGetResourceMetric")
        assert len(await listed(cluster, PODS)) == 2
        await cluster.client.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 9}}, namespace="default")
        await reaches(cluster, STATEFUL_SETS, "db", replicas=5)  # the bounds hold all the same
        await cluster.client.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 0}}, namespace="default")
        await cluster.clock.advance(40)
        assert (await said(cluster))["ScalingActive"] == ("False", "ScalingDisabled")


async def test_a_target_that_is_not_there_is_reported(cluster: VirtualCluster) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    async with scaling(cluster, scaleTargetRef=target):
        await cluster.clock.advance(20)
        assert (await said(cluster))["AbleToScale"] == ("False", "FailedGetScale")
