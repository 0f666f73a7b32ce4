"""Steps of several pods: together or not at all, with the outputs of the first one."""

import contextlib
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.controllers.pipelines.test_controllers import at_step, controllers, run, step, submit
from tests.controllers.workloads import PODS, Ending, Kubelet, listed, reaches

from rota.api import gangs, meta
from rota.api.batch import kinds
from rota.api.pipelines.object_names import STEP_LABEL
from rota.client.informers.cache import Key
from rota.client.verbs import Object, PatchType
from rota.controllers.batch.pod_groups import PodGroupController
from rota.controllers.garbage import GarbageCollector
from rota.controllers.jobs.controller import JobController
from rota.controllers.pipelines import attempts, engine, objects
from rota.controllers.pipelines.attempts import End, Ended
from rota.controllers.pipelines.objects import JOBS, RUNS, SERVICES, STEP_RUNS
from rota.controllers.pipelines.steps import StepRunController
from rota.testing import virtual_api
from rota.testing.virtual_api import VirtualCluster

META: dict[str, Any] = {"name": "r-a", "namespace": "ns", "uid": "u", "labels": {"rota.dev/item": "3"}}


@contextlib.asynccontextmanager
async def everything(cluster: VirtualCluster) -> AsyncIterator[None]:
    """The controllers of pipelines, of Jobs and of groups, each with its own rights."""
    clock, rng = cluster.clock, cluster.rng
    jobs = JobController(cluster.acting_as("rota:controller:jobs"), clock=clock, rng=rng)
    groups = PodGroupController(cluster.acting_as("rota:controller:batch-groups"), clock=clock, rng=rng)
    async with controllers(cluster), cluster.running(jobs.run), cluster.running(groups.run):
        yield


def of_process(**endings: Ending | None) -> Callable[[Object], Ending | None]:
    """Pods of a gang end by their numbers, `p0` and so on; others go on."""
    return lambda pod: endings.get(f"p{meta.labels(pod).get(gangs.INDEX_LABEL)}")


@pytest.fixture
async def cluster() -> AsyncIterator[VirtualCluster]:
    async with virtual_api.cluster(batch_kinds=True) as made:
        yield made


@pytest.fixture
async def kubelet(cluster: VirtualCluster) -> AsyncIterator[Kubelet]:
    it = Kubelet(cluster, ends=of_process())
    async with cluster.running(it.run):
        yield it


async def pods_of(cluster: VirtualCluster, job: str) -> list[Object]:
    found = await listed(cluster, PODS, f"{gangs.JOB_LABEL}={job}")
    return sorted(found, key=lambda one: int(meta.labels(one)[gangs.INDEX_LABEL]))


async def running_pods(cluster: VirtualCluster, job: str, count: int) -> list[Object]:
    async def all_run() -> bool:
        found = await pods_of(cluster, job)
        return [one.get("status", {}).get("phase") for one in found] == ["Running"] * count

    await cluster.until(all_run)
    return await pods_of(cluster, job)


async def say(cluster: VirtualCluster, pod: Object, **status: Any) -> None:
    await cluster.client.patch(
        PODS,
        meta.name(pod),
        {"status": status},
        type=PatchType.STRATEGIC,
        namespace="default",
        subresource="status",
    )


def ended(message: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "app:1", "imageID": "", "ready": False, "restartCount": 0}
    container["state"] = {"terminated": {"exitCode": 0, "message": message}, "running": None}
    return {"phase": "Succeeded", "containerStatuses": [container]}


async def test_the_pods_of_a_gang_have_one_group_and_the_first_one_gives_the_outputs(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    async with everything(cluster):
        steps = (
            step("train", gang=3, outputs=[{"name": "loss"}]),
            step("report", args=["{{ steps.train.outputs.loss }}"]),
        )
        kubelet.ends = lambda pod: Ending() if meta.labels(pod)["rota.dev/step"] == "report" else None
        await submit(cluster, run(*steps))
        pods = await running_pods(cluster, "r-train-0", 3)
        [group] = await listed(cluster, kinds.POD_GROUPS)
        assert group["spec"]["minMember"] == 3
        assert {meta.annotations(one)[kinds.GROUP_NAME] for one in pods} == {meta.name(group)}
        assert {one["spec"]["schedulerName"] for one in pods} == {kinds.SCHEDULER}
        [service] = [one for one in await listed(cluster, SERVICES) if meta.name(one) == "r-train-0"]
        assert service["spec"]["selector"] == {gangs.JOB_LABEL: "r-train-0"}
        variables = [{one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]} for pod in pods]
        assert {one["MASTER_ADDR"] for one in variables} == {"r-train-0-0.r-train-0"}
        assert {(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods} == {
            (f"r-train-0-{number}", "r-train-0") for number in range(3)
        }
        for number in (2, 1, 0):
            await say(cluster, pods[number], **ended(f"loss=0.{number + 1}\n"))
        await reaches(cluster, RUNS, "r", phase="Succeeded")
        done = await at_step(cluster, "r-train", phase="Succeeded", attempts=1)
    assert (done["status"]["outputs"], done["status"]["node"]) == ({"loss": "0.1"}, "box")
    [report] = await listed(cluster, PODS, "rota.dev/step=report")
    assert report["spec"]["containers"][0]["args"] == ["0.1"]


async def test_a_failed_process_fails_the_gang_and_its_retry_is_a_new_gang(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    async with everything(cluster):
        kubelet.ends = of_process(p1=Ending(code=3))
        await submit(cluster, run(step("a", gang=2, retries={"limit": 1, "initialSeconds": 5})))
        waiting = await at_step(cluster, "r-a", phase="Waiting", failures=1)
        assert waiting["status"]["message"] == "process 1: container main ended with code 3"
        kubelet.ends = of_process(p0=Ending(), p1=Ending())
        await reaches(cluster, RUNS, "r", phase="Succeeded")
        await at_step(cluster, "r-a", phase="Succeeded", attempts=2, failures=1)
    assert [len(await pods_of(cluster, f"r-a-{number}")) for number in (0, 1)][1] == 2


async def test_a_gang_that_loses_a_process_to_a_disruption_begins_anew_for_free(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = lambda pod: Ending() if meta.labels(pod)[gangs.JOB_LABEL] == "r-a-1" else None
    async with everything(cluster):
        await submit(cluster, run(step("a", gang=2)))
        first, second = await running_pods(cluster, "r-a-0", 2)
        # the other process fails before the lost one has ended
        target = {"type": attempts.DISRUPTION, "status": "True", "reason": "PreemptionByScheduler"}
        await say(cluster, second, conditions=[target])
        failed = {**ended("")["containerStatuses"][0], "state": {"terminated": {"exitCode": 1}, "running": None}}
        await say(cluster, first, phase="Failed", containerStatuses=[failed])
        await reaches(cluster, RUNS, "r", phase="Succeeded")
        done = await at_step(cluster, "r-a", phase="Succeeded", attempts=2, disruptions=1)
    assert "failures" not in done["status"]


async def test_cancelling_a_gang_leaves_no_process(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    garbage = GarbageCollector(cluster.acting_as("rota:controller:garbage"), clock=cluster.clock, rng=cluster.rng)
    async with everything(cluster), cluster.running(garbage.run):
        await submit(cluster, run(step("a", gang=2)))
        await running_pods(cluster, "r-a-0", 2)
        await cluster.client.patch(RUNS, "r", {"spec": {"cancel": True}}, namespace="default")
        await reaches(cluster, RUNS, "r", phase="Cancelled")
        assert await pods_of(cluster, "r-a-0") == []
        await cluster.client.delete(RUNS, "r", namespace="default")
        for target in (STEP_RUNS, JOBS, SERVICES):
            name = "r-a" if target == STEP_RUNS else "r-a-0"
            await cluster.until(lambda at=(target, name): _gone(cluster, *at))  # type: ignore[misc]


async def _gone(cluster: VirtualCluster, target: Any, name: str) -> bool:
    return not await cluster.exists(target, name, "default")


async def test_a_gang_whose_services_name_is_taken_waits_for_it(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await cluster.client.create(SERVICES, gangs.service("r-a-0", "default", _stranger()))
    async with everything(cluster):
        kubelet.ends = of_process(p0=Ending(), p1=Ending())
        await submit(cluster, run(step("a", gang=2)))
        await at_step(cluster, "r-a", phase="Waiting", reason="NameTaken")
        assert await listed(cluster, JOBS) == []
        await cluster.client.delete(SERVICES, "r-a-0", namespace="default")
        await reaches(cluster, RUNS, "r", phase="Succeeded")


async def test_no_disruption_is_remembered_of_a_job_that_is_gone(cluster: VirtualCluster) -> None:
    controller = StepRunController(cluster.client, clock=cluster.clock, rng=cluster.rng)
    job = {"metadata": {"name": "r-a-0", "namespace": "default", "uid": "j"}}
    pod = _pod(1, "Failed", lost=True, deleting=True)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "r-a-0", "uid": "j", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    # as a deletion in the background goes: the Job first, then its pods
    controller._attempt_changed("Job", Key("default", "r-a-0"), job, None)
    controller._attempt_changed("Pod", Key("default", "r-a-0-1"), None, pod)
    assert list(controller._disrupted) == ["j"]
    controller._attempt_changed("Pod", Key("default", "r-a-0-1"), pod, None)
    assert not controller._disrupted


def _stranger() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other", "controller": True}


# --- pure -------------------------------------------------------------------------------------------------------------


def test_an_attempt_of_a_gang_is_an_indexed_job_of_its_template() -> None:
    template = {
        "metadata": {"labels": {"mine": "1"}, "annotations": {kinds.QUEUE_NAME: "night"}},
        "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}], "schedulerName": "second"},
    }
    spec = {"template": template, "gang": 4, "timeoutSeconds": 7, "outputs": [{"name": "x"}]}
    made = objects.attempt({"metadata": META, "spec": spec}, 2)
    job = made["spec"]
    assert (made["kind"], made["metadata"]["name"], job["completions"], job["backoffLimit"]) == ("Job", "r-a-2", 4, 0)
    assert "activeDeadlineSeconds" not in job  # the time begins when the pods do, not when they are queued
    pod = job["template"]
    assert (pod["spec"]["activeDeadlineSeconds"], pod["spec"]["schedulerName"]) == (7, "second")
    assert pod["metadata"]["annotations"] == {
        kinds.QUEUE_NAME: "night",
        kinds.MIN_MEMBER: "4",
        "rota.dev/item": "3",
    }
    assert pod["metadata"]["labels"] == {"mine": "1", gangs.PORT_LABEL: str(gangs.port("r-a-2"))}
    names = [one["name"] for one in pod["spec"]["containers"][0]["env"]]
    assert names == ["A", "ROTA_OUTPUTS", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]


@pytest.mark.parametrize("wanted", ["r-a-0", "2nd.run-a-0", "a" * 200 + "-0", "x.-y", "run.a-0"])
def test_names_of_gangs_are_parts_of_host_names(wanted: str) -> None:
    found = gangs.name(wanted)
    assert len(f"{found}-99999") <= 63
    assert re.fullmatch(r"[a-z][a-z0-9-]*[a-z0-9]", found)
    assert (found == wanted) is (wanted == "r-a-0")
    assert gangs.name(found) == found


def test_equal_work_of_gangs_of_different_sizes_is_cached_apart() -> None:
    work = {"template": {"spec": {}}, "outputs": []}
    assert len({engine.cache_key({**work, **more}) for more in ({}, {"gang": 2}, {"gang": 3})}) == 3


def _pod(number: int, phase: str, *, code: int = 1, lost: bool = False, deleting: bool = False) -> Object:
    status: dict[str, Any] = {"phase": phase}
    if phase == "Failed":
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": code}}}]
    if lost:
        status["conditions"] = [{"type": attempts.DISRUPTION, "status": "True", "reason": "Preempted"}]
    more = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    return {"metadata": {"labels": {gangs.INDEX_LABEL: str(number), STEP_LABEL: "a"}, **more}, "status": status}


def test_the_end_of_a_gang_is_explained_by_its_processes() -> None:
    job = Ended(End.FAILED, "BackoffLimitExceeded", "too many")
    stopped = _pod(0, "Failed", code=143, deleting=True)
    assert attempts.end_of_gang(job, [_pod(10, "Failed", code=4), _pod(2, "Failed", code=3), stopped]) == Ended(
        End.FAILED, "Error", "process 2: container main ended with code 3"
    )
    assert attempts.end_of_gang(job, [_pod(0, "Failed"), _pod(1, "Running", lost=True)]) == Ended(
        End.DISRUPTED, "Preempted", "process 1: Preempted"
    )
    assert attempts.end_of_gang(job, []) == job
    gone = Ended(End.DISRUPTED, "NodeLost", "process 1: NodeLost")
    assert attempts.end_of_gang(job, [_pod(0, "Failed")], disruption=gone) == gone
    assert attempts.end_of_gang(Ended(End.SUCCEEDED), [_pod(0, "Succeeded", lost=True)]) == Ended(End.SUCCEEDED)
