from typing import Any

from tests.apiserver.subresources.harness import make_pod

from rota.testing.api import ApiServer

_PODS = "/api/v1/namespaces/default/pods"
_BATCHES = "/apis/rota.dev/v1alpha1/bindingbatches"


async def _cluster(api: ApiServer, *pods: str, cpu: str = "1") -> None:
    node = {"metadata": {"name": "n1"}}
    assert (await api.post("/api/v1/nodes", node)).code == 201
    status = {"status": {"allocatable": {"cpu": "2", "pods": "10"}}}
    assert (await api.patch("/api/v1/nodes/n1/status", status)).code == 200
    for name in pods:
        assert (await api.post(_PODS, make_pod(name, {"cpu": cpu}))).code == 201


def _binding(name: str, node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


async def test_a_binding_is_answered_with_a_plain_success(api: ApiServer) -> None:
    await _cluster(api, "a")
    answer = await api.post(f"{_PODS}/a/binding", _binding("a"))
    assert (answer.code, answer.json["status"]) == (201, "Success")
    assert (await api.get(f"{_PODS}/a")).json["spec"]["nodeName"] == "n1"


async def test_a_binding_can_be_posted_to_the_namespace_as_well(api: ApiServer) -> None:
    await _cluster(api, "a")
    assert (await api.post("/api/v1/namespaces/default/bindings", _binding("a"))).code == 201


async def test_a_binding_for_another_pod_of_that_name_is_refused(api: ApiServer) -> None:
    await _cluster(api, "a")
    answer = await api.post(f"{_PODS}/a/binding", _binding("a", uid="of-another"))
    assert answer.code == 409
    assert "Precondition failed: UID in precondition: of-another" in answer.json["message"]


async def test_labels_and_annotations_of_a_binding_are_added_to_the_pod(api: ApiServer) -> None:
    await _cluster(api, "a")
    await api.post(f"{_PODS}/a/binding", _binding("a", annotations={"x": "1"}, labels={"y": "2"}))
    metadata = (await api.get(f"{_PODS}/a")).json["metadata"]
    assert (metadata["annotations"], metadata["labels"]) == ({"x": "1"}, {"y": "2"})


async def test_a_dry_run_says_what_would_happen_and_binds_nothing(api: ApiServer) -> None:
    await _cluster(api, "a", "b", cpu="2")
    assert (await api.post(f"{_PODS}/a/binding", _binding("a"), dryRun="All")).code == 201
    assert "nodeName" not in (await api.get(f"{_PODS}/a")).json["spec"]
    assert (await api.post(f"{_PODS}/a/binding", _binding("a"))).code == 201
    assert (await api.post(f"{_PODS}/b/binding", _binding("b"), dryRun="All")).code == 409


async def test_a_binding_to_something_else_than_a_node_is_invalid(api: ApiServer) -> None:
    await _cluster(api, "a")
    answer = await api.post(f"{_PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": "n1"}})
    assert answer.code == 422
    assert answer.json["message"] == (
        'Binding "a" is invalid: target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'
    )
    assert (await api.post(f"{_PODS}/a/binding", _binding("b"))).json["message"] == (
        "name in URL does not match name in Binding object"
    )


async def test_a_batch_gets_one_verdict_for_each_pod(api: ApiServer) -> None:
    await _cluster(api, "a", "b", "c")
    batch = [_binding(name, namespace="default") for name in ("a", "b", "c")]
    answer = await api.post(_BATCHES, {"bindings": batch})
    assert answer.code == 201
    assert answer.json["bound"] == 2
    assert [one["status"]["code"] for one in answer.json["verdicts"]] == [201, 201, 409]
    assert answer.json["verdicts"][2]["status"]["details"]["causes"][0] == {
        "reason": "InsufficientResource",
        "message": "Insufficient cpu: requested 1, free 0",
        "field": "cpu",
    }


async def test_an_atomic_batch_is_bound_whole_or_not_at_all(api: ApiServer) -> None:
    await _cluster(api, "a", "b", "c")
    batch = [_binding(name, namespace="default") for name in ("a", "b", "c")]
    assert (await api.post(_BATCHES, {"bindings": batch, "atomic": True})).json["bound"] == 0
    assert (await api.post(_BATCHES, {"bindings": batch[:2], "atomic": True})).json["bound"] == 2


async def test_a_batch_that_cannot_be_understood_binds_nothing(api: ApiServer) -> None:
    await _cluster(api, "a")
    twice = [_binding("a", namespace="default")] * 2
    answer = await api.post(_BATCHES, {"bindings": [*twice, _binding("b")]})
    assert answer.code == 422
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [
        "bindings[1].metadata.name",
        "bindings[2].metadata.namespace",
    ]


async def test_an_atomic_batch_that_no_transaction_can_hold_is_refused(api: ApiServer) -> None:
    batch = [_binding(f"p{number}", namespace="default") for number in range(127)]
    answer = await api.post(_BATCHES, {"bindings": batch, "atomic": True})
    assert answer.code == 422
    assert "has at most 126 keys" in answer.json["message"]
