"""Volcano's kinds are defaulted and validated by the server itself."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from rota.testing.api import ApiServer

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


@pytest_asyncio.fixture
async def batch() -> AsyncIterator[ApiServer]:
    async with ApiServer(batch_kinds=True) as server:
        yield server


def job(name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "none", "command": ["true"]}]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [{"replicas": 2, "template": template}], **spec},
    }


def queue(name: str, **spec: Any) -> dict[str, Any]:
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return {**made, "spec": spec}


async def test_a_job_gets_its_defaults(batch: ApiServer) -> None:
    made = await batch.post(JOBS, job("j", plugins={"mpi": []}))
    assert made.code == 201, made
    spec = made.json["spec"]
    assert (spec["queue"], spec["minAvailable"], spec["tasks"][0]["name"]) == ("default", 2, "default0")
    assert set(spec["plugins"]) == {"mpi", "svc", "ssh"}


async def test_an_invalid_job_is_refused_with_all_of_its_errors(batch: ApiServer) -> None:
    refused = await batch.post(JOBS, job("j", minAvailable=3, plugins={"nope": []}, queue="gone"))
    assert refused.code == 422
    paths = {cause["field"] for cause in refused.json["details"]["causes"]}
    assert paths == {"spec.minAvailable", "spec.plugins", "spec.queue"}


async def test_the_pods_of_a_job_are_validated_as_pods(batch: ApiServer) -> None:
    wrong = job("j")
    wrong["spec"]["tasks"][0]["template"]["spec"]["restartPolicy"] = "Sometimes"
    refused = await batch.post(JOBS, wrong)
    assert refused.code == 422
    assert "spec.tasks[0].template.spec.restartPolicy" in refused.json["message"]


async def test_the_queue_of_a_job_is_fixed_and_its_size_is_not(batch: ApiServer) -> None:
    made = (await batch.post(JOBS, job("j"))).json
    made["spec"]["tasks"][0]["replicas"] = 5
    assert (await batch.put(f"{JOBS}/j", made)).code == 200
    moved = await batch.patch(f"{JOBS}/j", {"spec": {"queue": "other"}})
    assert moved.code == 422
    assert "spec.queue" in moved.json["message"]


async def test_a_closed_queue_accepts_no_work_and_can_be_deleted(batch: ApiServer) -> None:
    assert (await batch.post(QUEUES, queue("q"))).json["spec"] == {"weight": 1, "reclaimable": True, "parent": "root"}
    refused = await batch.delete(f"{QUEUES}/q")
    assert (refused.code, "close it first" in refused.json["message"]) == (403, True)
    assert (await batch.patch(f"{QUEUES}/q/status", {"status": {"state": "Closed"}})).code == 200
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    assert (await batch.post(GROUPS, {**group, "spec": {"queue": "q"}})).code == 422
    assert (await batch.delete(f"{QUEUES}/q")).code == 200


async def test_the_default_queue_stays(batch: ApiServer) -> None:
    assert (await batch.delete(f"{QUEUES}/default")).code == 403


async def test_children_do_not_get_more_than_their_parent_has(batch: ApiServer) -> None:
    await batch.post(QUEUES, queue("team", deserved={"cpu": "4"}))
    assert (await batch.post(QUEUES, queue("one", parent="team", deserved={"cpu": "3"}))).code == 201
    refused = await batch.post(QUEUES, queue("two", parent="team", deserved={"cpu": "2"}))
    assert (refused.code, "5 together" in refused.json["message"]) == (422, True)


async def test_a_namespace_editor_commands_its_jobs_and_no_queue(batch: ApiServer) -> None:
    commands = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "ann-edits"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [subject],
    }
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    assert (await batch.post(bindings, binding)).code == 201

    def command(name: str, kind: str, action: str) -> dict[str, Any]:
        made = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": name}}
        return {**made, "action": action, "target": {"apiVersion": "v1", "kind": kind, "name": "default", "uid": ""}}

    ann = batch.acting_as("ann")
    allowed = await ann.post(commands, command("abort", "Job", "AbortJob"))
    assert allowed.code == 201, allowed
    refused = await ann.post(commands, command("close", "Queue", "CloseQueue"))
    assert (refused.code, "permission to update that queue" in refused.json["message"]) == (403, True)
    turned = await ann.put(f"{commands}/abort", {**allowed.json, "target": {**allowed.json["target"], "kind": "Queue"}})
    assert turned.code == 403
    assert (await batch.post(commands, command("close", "Queue", "CloseQueue"))).code == 201
