"""The four patch types, and the resulting managed fields."""

from typing import Any

import pytest

from rota.testing.api import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


def deployment(replicas: int = 1, image: str = "web:1") -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
    }


async def test_a_merge_patch_sets_and_removes(api: ApiServer) -> None:
    await api.post(MAPS, config(x="1", y="2"))
    answer = await api.patch(f"{MAPS}/a", {"data": {"x": None, "z": "3"}})
    assert (answer.code, answer.json["data"]) == (200, {"y": "2", "z": "3"})


async def test_a_json_patch_is_a_list_of_steps(api: ApiServer) -> None:
    await api.post(MAPS, config(x="1"))
    steps = [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "replace", "path": "/data/x", "value": "2"}]
    assert (await api.patch(f"{MAPS}/a", steps, kind="json")).json["data"] == {"x": "2"}
    failed = await api.patch(f"{MAPS}/a", steps, kind="json")
    assert failed.code == 422
    assert failed.json["message"] == "the server rejected our request due to an error in our request"
    assert (await api.get(f"{MAPS}/a")).json["data"] == {"x": "2"}


async def test_a_strategic_patch_merges_lists_by_key(api: ApiServer) -> None:
    await api.post(DEPLOYMENTS, deployment())
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}
    answer = await api.patch(f"{DEPLOYMENTS}/web", side, kind="strategic")
    images = [one["image"] for one in answer.json["spec"]["template"]["spec"]["containers"]]
    assert sorted(images) == ["side:1", "web:1"]


@pytest.mark.parametrize(("kind", "body"), [("merge", b"{"), ("json", b"{}"), ("strategic", b"[]"), ("apply", b": -")])
async def test_a_broken_patch_is_refused(api: ApiServer, kind: str, body: bytes) -> None:
    await api.post(MAPS, config(x="1"))
    answer = await api.patch(f"{MAPS}/a", body, kind=kind, **({"fieldManager": "me"} if kind == "apply" else {}))
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")


async def test_an_unknown_way_to_patch_is_refused_with_the_known_ones(api: ApiServer) -> None:
    await api.post(MAPS, config())
    answer = await api.request("PATCH", f"{MAPS}/a", body=b"{}", headers={"content-type": "application/json"})
    assert answer.code == 415
    assert answer.json["message"] == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, "
        "application/apply-patch+yaml"
    )


async def test_a_patch_cannot_rename(api: ApiServer) -> None:
    await api.post(MAPS, config())
    answer = await api.patch(f"{MAPS}/a", {"metadata": {"name": "b"}})
    assert (answer.code, answer.json["message"]) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )


async def test_a_version_in_a_patch_must_be_the_present_one(api: ApiServer) -> None:
    first = (await api.post(MAPS, config())).json["metadata"]["resourceVersion"]
    assert (await api.patch(f"{MAPS}/a", {"metadata": {"resourceVersion": first}, "data": {"x": "1"}})).code == 200
    assert (await api.patch(f"{MAPS}/a", {"metadata": {"resourceVersion": first}, "data": {"x": "2"}})).code == 409


async def test_only_an_apply_creates(api: ApiServer) -> None:
    assert (await api.patch(f"{MAPS}/a", {"data": {}})).code == 404
    answer = await api.patch(f"{MAPS}/a", config(x="1"), kind="apply", fieldManager="me")
    assert answer.code == 201
    [owner] = answer.json["metadata"]["managedFields"]
    assert (owner["manager"], owner["operation"]) == ("me", "Apply")
    assert owner["fieldsV1"] == {"f:data": {"f:x": {}}}


async def test_applying_a_null_owns_the_field_without_storing_it(api: ApiServer) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "a"},
        "spec": {"holderIdentity": None, "leaseDurationSeconds": 15},
    }
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
    answer = await api.patch(path, lease, kind="apply", fieldManager="me")
    assert answer.json["spec"] == {"leaseDurationSeconds": 15}
    owned = answer.json["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert owned == {"f:holderIdentity": {}, "f:leaseDurationSeconds": {}}


async def test_bytes_that_are_no_base64_are_refused_where_they_break(api: ApiServer) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"token": "Secret"}}
    answer = await api.post("/api/v1/namespaces/default/secrets", secret)
    assert (answer.code, answer.json["message"].rpartition(": ")[2]) == (400, "illegal base64 data at input byte 4")


async def test_an_empty_map_is_nothing_to_own(api: ApiServer) -> None:
    answer = await api.post(MAPS, config())
    assert "data" not in answer.json
    assert "managedFields" not in answer.json["metadata"]


async def test_an_apply_that_changes_nothing_writes_nothing(api: ApiServer) -> None:
    first = await api.patch(f"{MAPS}/a", config(x="1"), kind="apply", fieldManager="me")
    again = await api.patch(f"{MAPS}/a", config(x="1"), kind="apply", fieldManager="me")
    assert (again.code, again.json) == (200, first.json)


async def test_appliers_that_disagree_conflict_until_one_insists(api: ApiServer) -> None:
    await api.patch(f"{DEPLOYMENTS}/web", deployment(replicas=2), kind="apply", fieldManager="one")
    other = await api.patch(f"{DEPLOYMENTS}/web", deployment(replicas=3), kind="apply", fieldManager="two")
    assert (other.code, other.json["reason"]) == (409, "Conflict")
    assert other.json["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
    assert other.json["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.replicas"}
    ]
    forced = await api.patch(
        f"{DEPLOYMENTS}/web", deployment(replicas=3), kind="apply", fieldManager="two", force="true"
    )
    assert (forced.code, forced.json["spec"]["replicas"]) == (200, 3)


async def test_an_apply_needs_a_manager_and_only_an_apply_can_insist(api: ApiServer) -> None:
    unnamed = await api.patch(f"{MAPS}/a", config(), kind="apply")
    assert unnamed.code == 422
    assert unnamed.json["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )
    await api.post(MAPS, config())
    forced = await api.patch(f"{MAPS}/a", {}, force="true")
    assert forced.code == 422
    assert "force: Forbidden: may not be specified for non-apply patch" in forced.json["message"]


async def test_every_writer_is_recorded_under_its_name(api: ApiServer) -> None:
    await api.request(
        "POST", MAPS, body=config(x="1"), headers={"user-agent": "kubectl/v1.33 (linux)"}, query={"fieldManager": ""}
    )
    await api.patch(f"{MAPS}/a", {"data": {"y": "2"}}, fieldManager="other")
    owners = (await api.get(f"{MAPS}/a")).json["metadata"]["managedFields"]
    assert {owner["manager"]: owner["fieldsV1"]["f:data"] for owner in owners} == {
        "kubectl": {".": {}, "f:x": {}},
        "other": {"f:y": {}},
    }


async def test_unknown_fields_in_a_patch_are_refused_under_strict_validation(api: ApiServer) -> None:
    await api.post(DEPLOYMENTS, deployment())
    for kind, way in (("merge", {}), ("strategic", {}), ("apply", {"fieldManager": "me"})):
        body = {**deployment(), "spec": {"replikas": 2}} if kind == "apply" else {"spec": {"replikas": 2}}
        answer = await api.patch(f"{DEPLOYMENTS}/web", body, kind=kind, fieldValidation="Strict", **way)
        assert answer.code == (400 if kind == "apply" else 422), (kind, answer)
        assert "replikas" in answer.json["message"]


async def test_the_status_is_patched_through_its_own_door(api: ApiServer) -> None:
    await api.post(DEPLOYMENTS, deployment())
    body = {"status": {"replicas": 7}, "spec": {"replicas": 9}}
    answer = await api.patch(f"{DEPLOYMENTS}/web/status", body, fieldManager="controller")
    assert (answer.json["status"]["replicas"], answer.json["spec"]["replicas"]) == (7, 1)
    through_front = await api.patch(f"{DEPLOYMENTS}/web", body)
    assert (through_front.json["status"]["replicas"], through_front.json["spec"]["replicas"]) == (7, 9)
    [status_owner] = [one for one in through_front.json["metadata"]["managedFields"] if one.get("subresource")]
    assert (status_owner["manager"], status_owner["fieldsV1"]) == ("controller", {"f:status": {"f:replicas": {}}})


async def test_objects_of_one_template_have_the_record_that_each_would_have_alone(api: ApiServer) -> None:
    bodies = [deployment(image=image) for image in ("web:1", "web:1", "web:2")]
    bodies[1]["metadata"]["labels"] = {"a": "b"}
    records = []
    for number, body in enumerate(bodies):
        body["metadata"]["name"] = f"web-{number}"
        created = (await api.post(DEPLOYMENTS, body, fieldManager="me")).json
        records.append([{**entry, "time": ""} for entry in created["metadata"]["managedFields"]])
    assert records[0] == records[2]
    assert records[1][0]["fieldsV1"]["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}}
    assert "f:metadata" not in records[0][0]["fieldsV1"]
