"""Create, update and delete, as clients see them."""

from typing import Any

import pytest

from rota.testing.api import ApiServer

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def pod(name: str = "web", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "main", "image": "registry.example/web:1"}]},
    }


def config(name: str = "settings", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "1"}}


async def test_a_created_object_gets_what_only_the_server_can_give(api: ApiServer) -> None:
    answer = await api.post(MAPS, config())
    assert answer.code == 201
    metadata = answer.json["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert (await api.get(f"{MAPS}/settings")).json == answer.json


async def test_a_name_is_given_once(api: ApiServer) -> None:
    await api.post(MAPS, config())
    answer = await api.post(MAPS, config())
    assert answer.code == 409
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "settings" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "settings", "kind": "configmaps"},
        "code": 409,
    }


async def test_generated_names_are_different_and_carry_their_prefix(api: ApiServer) -> None:
    body = config()
    body["metadata"] = {"generateName": "job-"}
    names = {(await api.post(MAPS, body)).json["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


async def test_an_object_without_a_name_is_invalid(api: ApiServer) -> None:
    answer = await api.post(MAPS, {"apiVersion": "v1", "kind": "ConfigMap"})
    assert answer.code == 422
    assert answer.json["message"] == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )


async def test_a_new_object_has_no_resource_version(api: ApiServer) -> None:
    answer = await api.post(MAPS, config(resourceVersion="5"))
    assert (answer.code, answer.json["message"]) == (
        400,
        "resourceVersion should not be set on objects to be created",
    )


async def test_the_body_s_namespace_is_that_of_the_path(api: ApiServer) -> None:
    answer = await api.post(MAPS, config(namespace="other"))
    assert answer.code == 400
    assert answer.json["message"] == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


async def test_a_missing_object_is_named(api: ApiServer) -> None:
    answer = await api.get("/apis/apps/v1/namespaces/default/deployments/web")
    assert answer.code == 404
    assert answer.json["message"] == 'deployments.apps "web" not found'
    assert answer.json["details"] == {"name": "web", "group": "apps", "kind": "deployments"}


async def test_an_update_of_a_seen_version_succeeds_and_of_an_older_one_conflicts(api: ApiServer) -> None:
    first = (await api.post(MAPS, config())).json
    second = await api.put(f"{MAPS}/settings", {**first, "data": {"a": "2"}})
    assert second.code == 200
    assert int(second.json["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    stale = await api.put(f"{MAPS}/settings", {**first, "data": {"a": "3"}})
    assert stale.code == 409
    assert stale.json["message"] == (
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert (await api.get(f"{MAPS}/settings")).json["data"] == {"a": "2"}


async def test_an_update_without_a_version_takes_what_is_there(api: ApiServer) -> None:
    await api.post(MAPS, config())
    body = config()
    body["data"] = {"b": "2"}
    assert (await api.put(f"{MAPS}/settings", body)).json["data"] == {"b": "2"}


async def test_an_update_that_changes_nothing_writes_nothing(api: ApiServer) -> None:
    first = (await api.post(MAPS, config())).json
    again = await api.put(f"{MAPS}/settings", first)
    assert again.json == first


async def test_an_update_of_another_incarnation_conflicts(api: ApiServer) -> None:
    await api.post(MAPS, config())
    answer = await api.put(f"{MAPS}/settings", config(uid="elsewhere"))
    assert answer.code == 409
    assert "Precondition failed: UID in precondition: elsewhere" in answer.json["message"]


async def test_name_and_path_must_agree(api: ApiServer) -> None:
    await api.post(MAPS, config())
    answer = await api.put(f"{MAPS}/settings", config("other"))
    assert (answer.code, answer.json["message"]) == (
        400,
        "the name of the object (other) does not match the name on the URL (settings)",
    )


async def test_an_update_creates_only_kinds_that_allow_it(api: ApiServer) -> None:
    assert (await api.put(f"{MAPS}/settings", config())).code == 404
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1"}, "spec": {}}
    assert (await api.put(f"{path}/n1", lease)).code == 201


async def test_system_fields_cannot_be_changed(api: ApiServer) -> None:
    first = (await api.post(MAPS, config())).json
    first["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
    answer = await api.put(f"{MAPS}/settings", first)
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == "metadata.creationTimestamp"


async def test_a_dry_run_answers_like_a_real_one_and_writes_nothing(api: ApiServer) -> None:
    answer = await api.post(MAPS, config(), dryRun="All")
    assert answer.code == 201
    assert "resourceVersion" not in answer.json["metadata"]
    assert (await api.get(f"{MAPS}/settings")).code == 404
    first = (await api.post(MAPS, config())).json
    assert (await api.post(MAPS, config(), dryRun="All")).code == 409
    changed = await api.patch(f"{MAPS}/settings", {"data": {"a": "9"}}, dryRun="All")
    assert changed.json["data"] == {"a": "9"}
    assert (await api.delete(f"{MAPS}/settings", dryRun="All")).code == 200
    assert (await api.get(f"{MAPS}/settings")).json == first


async def test_a_dry_run_is_all_or_not_asked_for(api: ApiServer) -> None:
    answer = await api.post(MAPS, config(), dryRun="Some")
    assert answer.code == 422
    assert answer.json["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"'
    )


async def test_the_status_has_a_door_of_its_own(api: ApiServer) -> None:
    created = (await api.post(PODS, {**pod(), "status": {"phase": "Running"}})).json
    assert (created.get("status") or {}).get("phase") != "Running"
    through_front = await api.put(f"{PODS}/web", {**created, "status": {"phase": "Running"}})
    assert (through_front.json.get("status") or {}).get("phase") != "Running"
    changed = {**created, "status": {"phase": "Running"}}
    changed["spec"] = {**created["spec"], "nodeName": "sneaky"}
    through_status = await api.put(f"{PODS}/web/status", changed)
    assert through_status.json["status"]["phase"] == "Running"
    assert "nodeName" not in through_status.json["spec"]


async def test_a_deletion_says_what_was_deleted(api: ApiServer) -> None:
    uid = (await api.post(MAPS, config())).json["metadata"]["uid"]
    answer = await api.delete(f"{MAPS}/settings")
    assert answer.code == 200
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "settings", "kind": "configmaps", "uid": uid},
    }
    assert (await api.delete(f"{MAPS}/settings")).code == 404


async def test_preconditions_keep_another_incarnation_from_being_deleted(api: ApiServer) -> None:
    first = (await api.post(MAPS, config())).json["metadata"]
    wrong = await api.delete(f"{MAPS}/settings", {"preconditions": {"uid": "other"}})
    assert wrong.code == 409
    assert wrong.json["message"] == (
        'Operation cannot be fulfilled on ConfigMap "settings": the UID in the precondition (other) does not match '
        f"the UID in record ({first['uid']}). The object might have been deleted and then recreated"
    )
    right = {"preconditions": {"uid": first["uid"], "resourceVersion": first["resourceVersion"]}}
    assert (await api.delete(f"{MAPS}/settings", right)).code == 200


async def test_finalizers_keep_an_object_until_the_last_is_taken_off(api: ApiServer) -> None:
    await api.post(MAPS, config(finalizers=["example.com/a", "example.com/b"]))
    marked = await api.delete(f"{MAPS}/settings")
    assert marked.code == 200
    assert marked.json["metadata"]["deletionTimestamp"]
    assert marked.json["metadata"]["deletionGracePeriodSeconds"] == 0
    refused = await api.patch(f"{MAPS}/settings", {"metadata": {"finalizers": ["example.com/a", "example.com/c"]}})
    assert refused.code == 422
    assert "no new finalizers can be added if the object is being deleted" in refused.json["message"]
    await api.patch(f"{MAPS}/settings", {"metadata": {"finalizers": ["example.com/a"]}})
    assert (await api.get(f"{MAPS}/settings")).code == 200
    assert (await api.patch(f"{MAPS}/settings", {"metadata": {"finalizers": []}})).code == 200
    assert (await api.get(f"{MAPS}/settings")).code == 404


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
async def test_propagation_policies_become_finalizers(api: ApiServer, policy: str, finalizer: str) -> None:
    await api.post(MAPS, config())
    answer = await api.delete(f"{MAPS}/settings", {"propagationPolicy": policy})
    assert answer.json["metadata"]["finalizers"] == [finalizer]
    assert answer.json["metadata"]["deletionTimestamp"]


async def test_an_unknown_propagation_policy_is_refused(api: ApiServer) -> None:
    await api.post(MAPS, config())
    answer = await api.delete(f"{MAPS}/settings", {"propagationPolicy": "Sideways"})
    assert answer.code == 422


async def test_a_job_lets_go_of_its_pods_when_its_deletion_says_nothing_else(api: ApiServer) -> None:
    """As upstream, for clients that are older than garbage collection; kubectl always sends a policy."""
    container = {"name": "c", "image": "i"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    await api.post(jobs, job)
    assert (await api.delete(f"{jobs}/j")).json["metadata"]["finalizers"] == ["orphan"]
    await api.post(jobs, {**job, "metadata": {"name": "k"}})
    await api.delete(f"{jobs}/k", {"propagationPolicy": "Background"})
    assert (await api.get(f"{jobs}/k")).code == 404


async def test_a_pod_that_runs_nowhere_goes_at_once(api: ApiServer) -> None:
    await api.post(PODS, pod())
    answer = await api.delete(f"{PODS}/web")
    assert answer.json["kind"] == "Pod"
    assert (await api.get(f"{PODS}/web")).code == 404


async def test_a_pod_on_a_node_goes_when_its_worker_confirms(api: ApiServer) -> None:
    body = pod()
    body["spec"] |= {"nodeName": "n1", "terminationGracePeriodSeconds": 30}
    await api.post(PODS, body)
    marked = (await api.delete(f"{PODS}/web")).json["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30
    again = (await api.delete(f"{PODS}/web")).json["metadata"]
    assert again["deletionTimestamp"] == marked["deletionTimestamp"]
    longer = (await api.delete(f"{PODS}/web", {"gracePeriodSeconds": 60})).json["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 30
    shorter = (await api.delete(f"{PODS}/web", {"gracePeriodSeconds": 5})).json["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["deletionTimestamp"] < marked["deletionTimestamp"]
    assert (await api.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})).code == 200
    assert (await api.get(f"{PODS}/web")).code == 404


async def test_a_name_that_is_being_deleted_is_not_free(api: ApiServer) -> None:
    await api.post(MAPS, config(finalizers=["example.com/a"]))
    await api.delete(f"{MAPS}/settings")
    answer = await api.post(MAPS, config())
    assert (answer.code, answer.json["message"]) == (
        409,
        'object is being deleted: configmaps "settings" already exists',
    )


async def test_a_collection_is_deleted_as_far_as_it_is_selected(api: ApiServer) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.post(MAPS, config(name, labels={"l": label}))
    answer = await api.request("DELETE", MAPS, query={"labelSelector": "l=x"})
    assert answer.code == 200
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in (await api.get(MAPS)).json["items"]] == ["b"]


async def test_events_are_the_same_in_both_of_their_groups(api: ApiServer) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e1"},
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "regarding": {"kind": "Pod", "name": "web", "namespace": "default"},
        "reason": "Scheduled",
        "note": "it fits",
        "reportingController": "scheduler",
        "reportingInstance": "scheduler-1",
        "action": "Binding",
        "type": "Normal",
    }
    answer = await api.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert answer.code == 201
    assert answer.json["regarding"]["name"] == "web"
    core = (await api.get("/api/v1/namespaces/default/events", fieldSelector="involvedObject.name=web")).json["items"]
    assert [(one["message"], one["involvedObject"]["name"]) for one in core] == [("it fits", "web")]
    new = (await api.get("/apis/events.k8s.io/v1/namespaces/default/events/e1")).json
    assert (new["note"], new["apiVersion"]) == ("it fits", "events.k8s.io/v1")
