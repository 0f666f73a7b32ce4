"""Conversion keeps what both versions can express."""

from typing import Any

from rota.testing.api import ApiServer

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"


def autoscaler() -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 5, "minReplicas": 1, "targetCPUUtilizationPercentage": 70}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": spec,
    }


async def test_an_autoscaler_is_the_same_in_both_versions(api: ApiServer) -> None:
    created = await api.post(V1, autoscaler())
    assert created.code == 201, created
    assert created.json["spec"]["targetCPUUtilizationPercentage"] == 70
    new = (await api.get(f"{V2}/web")).json
    assert new["apiVersion"] == "autoscaling/v2"
    [metric] = new["spec"]["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    changed = await api.patch(f"{V2}/web", {"spec": {"maxReplicas": 9}})
    assert changed.code == 200, changed
    old = (await api.get(f"{V1}/web")).json
    assert (old["spec"]["maxReplicas"], old["spec"]["targetCPUUtilizationPercentage"]) == (9, 70)
    [listed] = (await api.get(V1)).json["items"]
    assert listed["spec"] == old["spec"]
    async with api.watch(V1) as events:
        assert (await events.next())["object"]["spec"] == old["spec"]
