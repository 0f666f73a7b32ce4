"""Our autoscaler beside the stock one: the same manifests and measurements, the same sizes, conditions and events.

Two masters of ours with a worker each, which measures real processes; on one of them a stock kube-controller-manager
sizes. What pods use is never quite the same, so targets are far below or far above it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.stock.clusters import EVENTS, Cluster, cluster
from tests.stock.test_same_workloads import DEPLOYMENTS, alike, shape

from rota.testing import process_cluster
from rota.testing.servers.kubernetes import ControllerManager
from rota.testing.servers.rota import RotaServer

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(240)]

AUTOSCALERS = ("autoscaling", "v2", "horizontalpodautoscalers")
PATIENCE_S = 100.0


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[RotaServer, RotaServer]]:
    flags = {
        "controllers": "horizontal-pod-autoscaler-controller",
        "use_service_account_credentials": "true",
        "horizontal_pod_autoscaler_sync_period": "5s",
    }
    workers = ("--workers", "1")
    with (
        RotaServer(*workers) as ours,
        RotaServer(*workers, "--controllers", "*,-autoscaling") as bare,
        ControllerManager(bare.kubeconfig("system:kube-controller-manager"), **flags),
    ):
        try:
            yield ours, bare
        finally:
            for one in (ours, bare):
                process_cluster.end_tasks(one.folder)


@pytest.fixture
async def both(servers: tuple[RotaServer, RotaServer]) -> AsyncIterator[tuple[Cluster, Cluster]]:
    async with AsyncExitStack() as running:
        ours, stock = [await running.enter_async_context(cluster(one.kubeconfig(), [])) for one in servers]
        yield ours, stock


def deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "none", "command": ["sleep", "1000"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def autoscaler(name: str, *metrics: Any, maximum: int = 3, target: str = "", **more: Any) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target or name}
    spec = {"scaleTargetRef": reference, "maxReplicas": maximum, "metrics": list(metrics), **more}
    return {"metadata": {"name": name}, "spec": spec}


def memory(average: str) -> dict[str, Any]:
    return {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": average}},
    }


def container(average: str) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "main", "target": target}}


SHARE = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
OF_PODS = {
    "type": "Pods",
    "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "5"}},
}
OF_OBJECT = {
    "type": "Object",
    "object": {
        "metric": {"name": "hits"},
        "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "door"},
        "target": {"type": "Value", "value": "5"},
    },
}
QUEUE = {"name": "length", "selector": {"matchLabels": {"queue": "a"}}}
OUTSIDE = {"type": "External", "external": {"metric": QUEUE, "target": {"type": "AverageValue", "averageValue": "5"}}}
AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}
SLOWLY = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 600}]}}

#: How many pods there are at first, and what sizes them.
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "more": (1, autoscaler("more", memory("1Ki"))),
    "contained": (1, autoscaler("contained", container("1Ki"), maximum=2)),
    "doubled": (2, autoscaler("doubled", memory("1Ki"), maximum=3, behavior=SLOWLY)),
    "held": (2, autoscaler("held", memory("1Ti"))),
    "fewer": (2, autoscaler("fewer", memory("1Ti"), behavior=AT_ONCE)),
    "too-many": (3, autoscaler("too-many", memory("1Ti"), maximum=2)),
    "share": (1, autoscaler("share", SHARE)),
    "pods": (1, autoscaler("pods", OF_PODS)),
    "object": (1, autoscaler("object", OF_OBJECT)),
    "outside": (1, autoscaler("outside", OUTSIDE, OF_PODS)),
    "mixed": (1, autoscaler("mixed", OF_PODS, memory("1Ki"), maximum=2)),
    "off": (0, autoscaler("off", memory("1Ki"))),
    "gone": (0, autoscaler("gone", memory("1Ki"), target="nobody")),
}
#: Where each comes to rest: the reasons of its conditions.
RESTS = {
    "more": {
        "AbleToScale": "ReadyForNewScale",
        "ScalingActive": "ValidMetricFound",
        "ScalingLimited": "TooManyReplicas",
    },
    "share": {"AbleToScale": "SucceededGetScale", "ScalingActive": "FailedGetResourceMetric"},
    "held": {"AbleToScale": "ScaleDownStabilized"},
    "fewer": {"AbleToScale": "ReadyForNewScale", "ScalingLimited": "DesiredWithinRange"},
    "doubled": {"AbleToScale": "ReadyForNewScale", "ScalingLimited": "TooManyReplicas"},
    "mixed": {
        "AbleToScale": "ReadyForNewScale",
        "ScalingActive": "ValidMetricFound",
        "ScalingLimited": "TooManyReplicas",
    },
    "contained": {"AbleToScale": "ReadyForNewScale", "ScalingLimited": "TooManyReplicas"},
    "too-many": {"AbleToScale": "ScaleDownStabilized"},
    "off": {"ScalingActive": "ScalingDisabled"},
    "gone": {"AbleToScale": "FailedGetScale"},
}


async def test_sizes_conditions_and_events_are_alike(both: tuple[Cluster, Cluster]) -> None:
    async def begin(it: Cluster) -> None:
        await it.create(DEPLOYMENTS, *(deployment(name, count) for name, (count, _) in CASES.items()))
        await it.create(AUTOSCALERS, *(one for _, one in CASES.values()))

    async def settle(it: Cluster) -> None:
        missing: dict[str, Any] = {}

        async def at_rest() -> bool:
            found = {one["metadata"]["name"]: reasons(one) for one in await it.list(AUTOSCALERS)}
            missing.clear()
            missing.update(
                {name: found[name] for name, wanted in RESTS.items() if not wanted.items() <= found[name].items()}
            )
            return not missing and "missing request" in str(await it.get(AUTOSCALERS, "share"))

        try:
            await it.until(at_rest, "sizes are found", patience_s=PATIENCE_S)
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {missing}") from None

    await asyncio.gather(*(begin(it) for it in both))
    await asyncio.gather(*(settle(it) for it in both))
    alike(*[await told(it) for it in both])


def reasons(one: Any) -> dict[str, str]:
    return {said["type"]: said["reason"] for said in (one.get("status") or {}).get("conditions") or ()}


async def told(it: Cluster) -> Any:
    """All that was said of each autoscaler, but for what was measured."""
    found = {}
    for one in await it.list(AUTOSCALERS):
        status = shape(one.get("status") or {}, {it.namespace: "<namespace>"})
        status["conditions"] = {said["type"]: said for said in status["conditions"]}
        for said in status["conditions"].values():
            said["message"] = re.sub(r"Pod (\w+)-\w+-<drawn>", r"Pod \1", said["message"])
        for metric in status.get("currentMetrics") or ():
            for source in metric.values():
                if isinstance(source, dict):
                    source["current"] = sorted(source["current"])
        found[one["metadata"]["name"]] = {"spec": one["spec"], "status": status}
    events = {
        (
            one["involvedObject"]["name"],
            one["type"],
            one["reason"],
            shape(one["message"], {it.namespace: "<namespace>"}),
        )
        for one in await it.list(EVENTS)
        if one["involvedObject"]["kind"] == "HorizontalPodAutoscaler"
    }
    # until enough was measured there is nothing to go by, for one of them longer than for the other
    early = re.compile("no metrics returned from resource metrics API|pods might be unready|2 invalid out of 2.*hits")
    return found, sorted(
        re.sub(r"Pod (\w+)-\w+-<drawn>", r"Pod \1", str(one)) for one in events if not early.search(one[3])
    )
