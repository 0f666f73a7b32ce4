from typing import Any

import pytest
from tests.apiserver.subresources.harness import make_pod

from rota.testing.api import ApiServer

_PODS = "/api/v1/namespaces/default/pods"
_TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets"])
async def test_a_workload_is_scaled_through_its_scale(api: ApiServer, plural: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/{plural}"
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": _TEMPLATE}
    created = (await api.post(path, {"metadata": {"name": "w"}, "spec": spec})).json
    scale = (await api.get(f"{path}/w/scale")).json
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert scale["metadata"]["uid"] == created["metadata"]["uid"]
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"]["selector"] == "app=web"
    scale["spec"]["replicas"] = 5
    assert (await api.put(f"{path}/w/scale", scale)).json["spec"] == {"replicas": 5}
    assert (await api.patch(f"{path}/w/scale", {"spec": {"replicas": 7}})).code == 200
    live = (await api.get(f"{path}/w")).json
    assert (live["spec"]["replicas"], live["metadata"]["generation"]) == (7, 3)


async def test_a_scale_of_another_time_is_a_conflict_and_a_negative_one_invalid(api: ApiServer) -> None:
    path = "/api/v1/namespaces/default/replicationcontrollers"
    await api.post(path, {"metadata": {"name": "w"}, "spec": {"template": _TEMPLATE}})
    scale = (await api.get(f"{path}/w/scale")).json
    assert scale["status"]["selector"] == "app=web"
    assert (await api.patch(f"{path}/w/scale", {"spec": {"replicas": 3}})).code == 200
    assert (await api.put(f"{path}/w/scale", scale)).code == 409
    answer = await api.patch(f"{path}/w/scale", {"spec": {"replicas": -1}})
    assert answer.json["message"] == (
        'Scale.autoscaling "w" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )


async def test_a_custom_kind_is_scaled_where_its_definition_says(api: ApiServer) -> None:
    schema: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema, "status": schema}}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    definition = {
        "metadata": {"name": "crews.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "crews", "kind": "Crew"},
            "versions": [version],
        },
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with api.watch(definitions) as events:
        assert (await api.post(definitions, definition)).code == 201
        while not _is_established((await events.next())["object"]):
            pass
    path = "/apis/example.com/v1/namespaces/default/crews"
    crew = {"apiVersion": "example.com/v1", "kind": "Crew", "metadata": {"name": "c"}, "spec": {"size": 2}}
    assert (await api.post(path, crew)).code == 201
    assert (await api.get(f"{path}/c/scale")).json["spec"] == {"replicas": 2}
    assert (await api.patch(f"{path}/c/scale", {"spec": {"replicas": 4}})).code == 200
    assert (await api.get(f"{path}/c")).json["spec"] == {"size": 4}


def _is_established(definition: dict[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


async def test_a_pod_without_a_node_has_no_logs(api: ApiServer) -> None:
    await api.post(_PODS, make_pod("a"))
    answer = await api.get(f"{_PODS}/a/log")
    assert (answer.code, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "text/plain"


async def test_a_worker_that_cannot_be_reached_is_named(api: ApiServer) -> None:
    await api.post(_PODS, make_pod("a", node="n1"))
    answer = await api.get(f"{_PODS}/a/log")
    assert (answer.code, answer.json["reason"]) == (500, "InternalError")
    assert answer.json["message"].startswith('Get "https://n1:10250/containerLogs/default/a/main": ')


async def test_one_of_several_containers_must_be_chosen(api: ApiServer) -> None:
    pod = make_pod("a")
    pod["spec"]["containers"].append({"name": "side", "image": "x"})
    pod["spec"]["initContainers"] = [{"name": "first", "image": "x"}]
    await api.post(_PODS, pod)
    assert (await api.get(f"{_PODS}/a/log")).json["message"] == (
        "a container name must be specified for pod a, choose one of: [main side] "
        "or one of the init containers: [first]"
    )
    assert (await api.get(f"{_PODS}/a/log", container="first")).code == 200
    answer = await api.get(f"{_PODS}/a/log", container="other")
    assert (answer.code, answer.json["message"]) == (400, "container other is not valid for pod a")


async def test_log_options_that_make_no_sense_are_refused(api: ApiServer) -> None:
    await api.post(_PODS, make_pod("a"))
    answer = await api.get(f"{_PODS}/a/log", tailLines=-1)
    assert (answer.code, answer.json["details"]["causes"][0]["field"]) == (422, "tailLines")
    assert (await api.get(f"{_PODS}/a/log", sinceSeconds=1, sinceTime="2020-01-01T00:00:00Z")).code == 422
    assert (await api.get(f"{_PODS}/a/log", sinceTime="soon")).code == 400


@pytest.mark.parametrize(
    ("name", "instead"),
    [("resize", "change the resources of the workload's template"), ("ephemeralcontainers", "kubectl exec")],
)
async def test_what_pods_cannot_do_here_is_not_announced_and_says_what_to_do_instead(
    api: ApiServer, name: str, instead: str
) -> None:
    await api.post(_PODS, make_pod("a"))
    answer = await api.patch(f"{_PODS}/a/{name}", {})
    assert (answer.code, answer.json["reason"]) == (405, "MethodNotAllowed")
    assert instead in answer.json["message"]
    listed = [one["name"] for one in (await api.get("/api/v1")).json["resources"]]
    assert "pods/eviction" in listed
    assert f"pods/{name}" not in listed


async def test_a_namespace_goes_when_its_last_finalizer_is_taken_off(api: ApiServer) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    await api.delete("/api/v1/namespaces/n")
    live = (await api.get("/api/v1/namespaces/n")).json
    assert (live["status"]["phase"], live["spec"]["finalizers"]) == ("Terminating", ["kubernetes"])
    assert (await api.put("/api/v1/namespaces/n", {**live, "spec": {}})).json["spec"] == live["spec"]
    live = (await api.get("/api/v1/namespaces/n")).json
    assert (await api.put("/api/v1/namespaces/n/finalize", {**live, "spec": {}})).code == 200
    assert (await api.get("/api/v1/namespaces/n")).code == 404
