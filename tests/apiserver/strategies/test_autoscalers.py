"""Defaults and validation of HorizontalPodAutoscalers."""

from typing import Any

import pytest

from rota.testing.api import ApiServer

AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
AVERAGE = {"type": "AverageValue", "averageValue": "10"}


def autoscaler(**spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3, **spec}}


def metric(kind: str, **source: Any) -> dict[str, Any]:
    return {"type": kind, kind[0].lower() + kind[1:]: source}


async def test_rules_that_are_not_said_are_filled_in_once_there_are_some(api: ApiServer) -> None:
    waiting = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    made = (await api.post(AUTOSCALERS, autoscaler(behavior=waiting))).json["spec"]
    share = {"type": "Percent", "value": 100, "periodSeconds": 15}
    assert made["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, share],
        },
        "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [share]},
    }
    assert made["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}


@pytest.mark.parametrize(
    "one",
    [
        metric("Pods", metric={"name": "hits"}, target=AVERAGE),
        metric("External", metric={"name": "length"}, target={"type": "Value", "value": "3"}),
        metric("Object", metric={"name": "hits"}, target=AVERAGE, describedObject={"kind": "Ingress", "name": "door"}),
        metric("ContainerResource", name="cpu", container="main", target=AVERAGE),
    ],
)
async def test_metrics_of_every_type_are_taken(api: ApiServer, one: Any) -> None:
    assert (await api.post(AUTOSCALERS, autoscaler(metrics=[one]))).code == 201


@pytest.mark.parametrize(
    ("one", "causes"),
    [
        (metric("Pods", metric={}, target=AVERAGE), ["pods.metric.name"]),
        (metric("Pods", metric={"name": "a/b"}, target=AVERAGE), ["pods.metric.name"]),
        (metric("Pods", metric={"name": "hits"}, target={"type": "Value", "value": "1"}), ["pods.target.averageValue"]),
        (metric("External", metric={"name": "x"}, target={"type": "Value"}), ["external.target.averageValue"]),
        (metric("External", metric={"name": "x"}, target={**AVERAGE, "value": "1"}), ["external.target.value"]),
        (
            metric("Object", metric={"name": "x"}, target={"type": "Value"}, describedObject={"kind": "Ingress"}),
            ["object.describedObject.name", "object.target.averageValue"],
        ),
        (
            metric("Resource", name="cpu", target={}),
            ["resource.target.type"] * 2 + ["resource.target.averageUtilization"],
        ),
        (
            metric("Resource", name="cpu", target={"type": "AverageValue", "averageValue": "0"}),
            ["resource.target.averageValue"],
        ),
        (
            metric("Resource", name="cpu", target={"type": "Utilization", "averageUtilization": 0}),
            ["resource.target.averageUtilization"],
        ),
        (
            metric("Resource", name="cpu", target={**AVERAGE, "averageUtilization": 5}),
            ["resource.target.averageValue"],
        ),
        (metric("ContainerResource", name="cpu", target=AVERAGE), ["containerResource.container"]),
        ({**metric("Resource", name="cpu", target=AVERAGE), "pods": {"metric": {"name": "x"}}}, ["pods"]),
    ],
)
async def test_a_metric_that_could_not_be_reckoned_with_is_refused(api: ApiServer, one: Any, causes: list[str]) -> None:
    answer = await api.post(AUTOSCALERS, autoscaler(metrics=[one]))
    assert answer.code == 422
    assert [said["field"] for said in answer.json["details"]["causes"]] == [f"spec.metrics[0].{one}" for one in causes]


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"stabilizationWindowSeconds": -1}, "stabilizationWindowSeconds"),
        ({"stabilizationWindowSeconds": 3601}, "stabilizationWindowSeconds"),
        ({"selectPolicy": "Some"}, "selectPolicy"),
        ({"policies": []}, "policies"),
        ({"policies": [{"type": "Nodes", "value": 1, "periodSeconds": 1}]}, "policies[0].type"),
        ({"policies": [{"type": "Pods", "value": 0, "periodSeconds": 1}]}, "policies[0].value"),
        ({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}, "policies[0].periodSeconds"),
        ({"tolerance": "-1"}, "tolerance"),
    ],
)
async def test_rules_that_make_no_sense_are_refused(api: ApiServer, rules: Any, field: str) -> None:
    answer = await api.post(AUTOSCALERS, autoscaler(behavior={"scaleUp": rules}))
    assert answer.code == 422
    assert [said["field"] for said in answer.json["details"]["causes"]] == [f"spec.behavior.scaleUp.{field}"]
