"""HorizontalPodAutoscalers size their targets by what pods use; the numbers are those of upstream's rules."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers import test_stateful_sets
from tests.controllers.workloads import PODS, Kubelet, listed, reaches, reasons

from rota.api import errors, meta, times
from rota.client.verbs import Client, Listing, PatchType
from rota.controllers.autoscaling import behavior, condition_messages, replica_calculator
from rota.controllers.autoscaling.behavior import Memory
from rota.controllers.autoscaling.controller import AUTOSCALERS, AutoscalingController
from rota.controllers.autoscaling.metrics_client import POD_METRICS
from rota.controllers.autoscaling.replica_calculator import Measured, Proposal, Reading, Target, Tolerances, Unknown
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
    found = proposed(metric, measured, pods, current=current)
    assert isinstance(found, Proposal), found
    return found.replicas


def proposed(metric: Any, reading: Reading, pods: Sequence[Any], *, current: int = 0) -> Proposal | Unknown:
    count = current or len(pods)
    target = Target(namespace="default", pods=pods, wanted=count, present=count)
    return replica_calculator.propose(metric, reading, target, tolerances=Tolerances(), now=NOW)


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
        ([], {}, "no pods returned by selector while calculating replica count"),
        ([pod("a")], {}, "did not receive metrics for targeted pods (pods might be unready)"),
        (
            [{**pod("a"), "spec": {"containers": [{"name": "x"}]}}],
            {"a": 5},
            "missing request for cpu in container x of Pod a",
        ),
    ],
)
def test_metrics_that_cannot_be_read_are_reported(pods: Any, measured: Any, words: str) -> None:
    known = {name: Measured(amount=amount, at=NOW, window_s=1) for name, amount in measured.items()}
    found = proposed(utilization(50), known, pods, current=1)
    assert isinstance(found, Unknown)
    assert found.reason == "FailedGetResourceMetric"
    assert found.message == f"failed to get cpu utilization: {words}"
    assert found.among_others == f"failed to get cpu resource metric value: {found.message}"


def aimed(kind: str, *, selector: Any = None, **target: str) -> Any:
    """A metric that is a number, aimed at a value or at one for each pod."""
    metric = {"name": "requests", **({"selector": selector} if selector else {})}
    goal = {"type": "Value" if "value" in target else "AverageValue", **target}
    source: dict[str, Any] = {"metric": metric, "target": goal}
    if kind == "Object":
        source["describedObject"] = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"}
    return {"type": kind, kind.lower(): source}


@pytest.mark.parametrize(
    ("metric", "thousandths", "wanted", "shown", "name"),
    [
        # All pods together are to have 20, and have 40: twice as many as are ready.
        (aimed("Object", value="20"), 40_000, 4, {"value": "40"}, "Ingress metric requests"),
        (aimed("External", value="20"), 40_000, 4, {"value": "40"}, "external metric requests(nil)"),
        (aimed("External", value="20"), 21_000, 3, {"value": "21"}, "external metric requests(nil)"),
        # Each of the three is to have 10.
        (aimed("Object", averageValue="10"), 50_000, 5, {"averageValue": "16667m"}, "external metric requests(nil)"),
        (aimed("External", averageValue="10"), 31_000, 3, {"averageValue": "10334m"}, "external metric requests(nil)"),
        (aimed("External", averageValue="10"), 0, 0, {"averageValue": "0"}, "external metric requests(nil)"),
    ],
)
def test_one_number_is_for_all_pods_that_are_ready_or_for_each(
    metric: Any, thousandths: int, wanted: int, shown: Any, name: str
) -> None:
    found = proposed(metric, thousandths, several(*"111", unready=[2]))
    assert isinstance(found, Proposal)
    assert (found.replicas, found.name) == (wanted, name)
    assert found.status[metric["type"].lower()]["current"] == shown


def test_a_pods_metric_is_a_value_per_pod_ready_or_not() -> None:
    metric = aimed("Pods", averageValue="10")
    assert replicas(metric, several(*"111", unready=[1]), [20_000, 20_000, 20_000]) == 6
    assert replicas(metric, several(*"111"), [20_000, 20_000, None]) == 4
    assert replicas(metric, several(*"111"), [2_000, 2_000, None]) == 2


@pytest.mark.parametrize(
    ("metric", "message", "among_others"),
    [
        (aimed("Pods", averageValue="1"), "unable to get metric requests: E", "failed to get pods metric value: "),
        (
            aimed("Object", value="1"),
            "unable to get metric requests: Ingress on default main/E",
            "failed to get object metric value: ",
        ),
        (
            aimed("Object", averageValue="1"),
            "unable to get metric requests: Ingress on default main/E",
            "failed to get object metric value: failed to get requests object metric: ",
        ),
        (
            aimed("External", value="1", selector={"matchLabels": {"b": "2", "a": "1"}}),
            "unable to get external metric default/requests/&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},"
            "MatchExpressions:[]LabelSelectorRequirement{},}: E",
            "failed to get requests external metric value: failed to get external metric requests: ",
        ),
        (
            aimed("External", averageValue="1"),
            "unable to get external metric default/requests/nil: E",
            "failed to get requests external metric value: failed to get requests external metric: ",
        ),
    ],
)
def test_what_cannot_be_read_is_said_in_words_that_people_look_for(
    metric: Any, message: str, among_others: str
) -> None:
    found = proposed(metric, condition_messages.unread(metric, "default", "E"), several("1"))
    assert found == Unknown(f"FailedGet{metric['type']}Metric", message, among_others + message)


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
    found = behavior.decide(it, memory, current=current, wanted=wanted, now=now)
    return found.replicas, found.able[1], found.limited[1]


def test_without_behavior_pods_double_at_once_and_go_after_five_minutes() -> None:
    memory = Memory()
    assert decided(spec(), memory, 3, 15) == (6, "ReadyForNewScale", "ScaleUpLimit")
    # What was recommended a moment ago is still made up for, though it was more than there are.
    assert decided(spec(), memory, 6, 3, 1100) == (12, "ScaleDownStabilized", "ScaleUpLimit")
    assert decided(spec(behavior={}), Memory([(1000, 15)]), 6, 3, 1100)[:2] == (6, "ScaleDownStabilized")
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
    """A client of a cluster whose pods all use the same, in thousandths of a processor; of nothing, if None.

    Where there are `figures`, the server has groups of others behind it who know them, by the paths that are asked.
    """

    millis: int | None = None
    figures: Mapping[str, list[tuple[str, str]]] | None = None
    asked: list[tuple[str, dict[str, str]]]

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        """As usual; what others measure as the test says."""
        if self.figures is None or not (path == "/apis" or ".metrics.k8s.io/" in path):
            return await super().request(method, path, **more)
        if path == "/apis":
            version = {"groupVersion": "custom.metrics.k8s.io/v1beta2", "version": "v1beta2"}
            group = {"name": "custom.metrics.k8s.io", "versions": [version], "preferredVersion": version}
            return json.dumps({"kind": "APIGroupList", "groups": [group]}).encode()
        self.asked.append((path, dict(more.get("query") or ())))
        items = [
            {"describedObject": {"name": name}, "value": value, "timestamp": "2100-01-01T00:00:00Z"}
            for name, value in self.figures.get(path, [])
        ]
        return json.dumps({"kind": "MetricValueList", "items": items}).encode()

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
    client.asked = []
    controller = AutoscalingController(client, clock=cluster.clock, rng=cluster.rng)
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


CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default"


@pytest.mark.slow
async def test_figures_of_others_are_asked_for_as_upstream_does(cluster: VirtualCluster) -> None:
    metrics = [
        aimed("Pods", averageValue="10", selector={"matchLabels": {"verb": "GET"}}),
        aimed("Object", value="100"),
        aimed("External", averageValue="30", selector={"matchLabels": {"queue": "a"}}),
    ]
    async with scaling(cluster, maximum=9, metrics=metrics) as client:
        client.figures = {
            f"{CUSTOM}/pods/*/requests": [("db-0", "10"), ("db-1", "10")],
            f"{CUSTOM}/ingresses.networking.k8s.io/main/requests": [("main", "100")],
            f"{EXTERNAL}/requests": [("", "60"), ("", "60")],
        }
        # Before the second look, 15 s later, at which the target has grown and every metric proposes the same.
        await cluster.clock.advance(14)
        found = await reaches(cluster, AUTOSCALERS, "by-use", desiredReplicas=4)
        assert client.asked[:3] == [
            (f"{CUSTOM}/pods/*/requests", {"metricLabelSelector": "verb=GET", "labelSelector": "app=db"}),
            (f"{CUSTOM}/ingresses.networking.k8s.io/main/requests", {"metricLabelSelector": ""}),
            (f"{EXTERNAL}/requests", {"labelSelector": "queue=a"}),
        ]
        active = meta.condition(found, "ScalingActive") or {}
        assert active["message"].startswith("the HPA was able to successfully calculate a replica count from external")
        assert [one["type"] for one in found["status"]["currentMetrics"]] == ["Pods", "Object", "External"]


@pytest.mark.slow
async def test_unserved_metrics_leave_the_decision_to_others_but_never_scale_down(cluster: VirtualCluster) -> None:
    async with scaling(cluster, metrics=[aimed("Pods", averageValue="10"), utilization(50)]) as client:
        client.millis = 10
        await cluster.clock.advance(20)
        found = await cluster.client.get(AUTOSCALERS, "by-use", namespace="default")
        active = meta.condition(found, "ScalingActive") or {}
        assert (active["status"], active["reason"]) == ("False", "FailedGetPodsMetric")
        assert active["message"] == (
            "the HPA was unable to compute the replica count: unable to get metric requests: unable to fetch metrics "
            "from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
        )
        assert [one["type"] for one in found["status"]["currentMetrics"]] == ["", "Resource"]
        assert found["status"].get("desiredReplicas", 0) == 0
        client.millis = 75
        await reaches(cluster, AUTOSCALERS, "by-use", desiredReplicas=3)
        assert (await said(cluster))["ScalingActive"] == ("True", "ValidMetricFound")


@pytest.mark.slow
async def test_pods_that_two_would_size_are_sized_by_neither(cluster: VirtualCluster) -> None:
    async with scaling(cluster) as client:
        client.millis = 75
        first = await cluster.client.get(AUTOSCALERS, "by-use", namespace="default")
        second = {"metadata": {"name": "too", "namespace": "default"}, "spec": first["spec"]}
        await cluster.client.create(AUTOSCALERS, second)
        await cluster.clock.advance(40)
        assert (await said(cluster))["ScalingActive"] == ("False", "AmbiguousSelector")


@pytest.mark.slow
async def test_whatever_has_a_scale_is_sized(cluster: VirtualCluster) -> None:
    fields = {
        "type": "object",
        "properties": {
            name: {"type": "object", "x-kubernetes-preserve-unknown-fields": True} for name in ("spec", "status")
        },
    }
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": fields},
        "subresources": {"status": {}, "scale": scale},
    }
    names = {"kind": "Herd", "plural": "herds"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    kinds = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    await cluster.client.create(kinds, {"metadata": {"name": "herds.example.com"}, "spec": spec})
    herds = ("example.com", "v1", "herds")
    for _ in range(100):
        with contextlib.suppress(errors.NotFound):
            herd = {
                "apiVersion": "example.com/v1",
                "kind": "Herd",
                "metadata": {"name": "sheep", "namespace": "default"},
            }
            await cluster.client.create(herds, {**herd, "spec": {"replicas": 2}})
            break
        await cluster.clock.advance(1)
    said = {"status": {"replicas": 2, "selector": "app=db"}}
    await cluster.client.patch(herds, "sheep", said, namespace="default", subresource="status", type=PatchType.MERGE)
    target = {"apiVersion": "example.com/v1", "kind": "Herd", "name": "sheep"}
    async with scaling(cluster, scaleTargetRef=target) as client:
        client.millis = 75
        await reaches(cluster, AUTOSCALERS, "by-use", desiredReplicas=3)
        assert (await cluster.client.get(herds, "sheep", namespace="default"))["spec"]["replicas"] == 3
