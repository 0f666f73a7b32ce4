"""Jobs of batch.volcano.sh: pods, phases, policies, commands."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.batch.batch_objects import PODS, command, ends, job, on, pods, reaches_phase, task
from tests.controllers.workloads import Ending, Kubelet, listed, reasons

from rota.api import errors, meta
from rota.api.batch import kinds
from rota.client.paths import Target
from rota.client.verbs import Client, Object, Propagation
from rota.controllers.batch.jobs import BatchJobController
from rota.kit.metrics import Metrics
from rota.testing.virtual_api import VirtualCluster


@contextlib.asynccontextmanager
async def running(cluster: VirtualCluster, metrics: Metrics | None = None) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:batch-jobs")
    controller = BatchJobController(client, clock=cluster.clock, rng=cluster.rng, metrics=metrics)
    async with cluster.running(controller.run):
        yield


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("controllers")


@pytest.fixture(autouse=True)
async def _controller(cluster: VirtualCluster, metrics: Metrics) -> AsyncIterator[None]:
    async with running(cluster, metrics):
        yield


async def create(cluster: VirtualCluster, made: Object) -> Object:
    return await cluster.client.create(kinds.JOBS, made)


async def groups(cluster: VirtualCluster) -> list[Object]:
    return await listed(cluster, kinds.POD_GROUPS)


async def let_in(cluster: VirtualCluster) -> None:
    """Do what the scheduler does with groups: let them into their queues."""
    for group in await groups(cluster):
        if ((group.get("status") or {}).get("phase") or "Pending") == "Pending":
            await cluster.client.patch(
                kinds.POD_GROUPS, meta.name(group), {"status": {"phase": "Inqueue"}}, namespace="default"
            )


async def test_a_job_runs_to_its_end_and_its_group_goes(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = ends(w=0)
    await create(cluster, job(task("w", 3)))
    done = await reaches_phase(cluster, "Completed")
    status = done["status"]
    assert (status["succeeded"], status["minAvailable"]) == (3, 3)
    assert status["taskStatusCount"] == {"w": {"phase": {"Succeeded": 3}}}
    assert [one["status"] for one in status["conditions"]] == ["Pending", "Running", "Completed"]
    assert status["runningDuration"]
    await cluster.clock.advance(1)
    assert await groups(cluster) == []


async def test_pods_have_the_marks_of_their_job(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    made = await create(cluster, job(task("w", 2), queue="default", priorityClassName=""))
    await reaches_phase(cluster, "Running")
    pod = (await pods(cluster))["work-w-1"]
    assert meta.labels(pod)["volcano.sh/job-name"] == "work"
    annotations = meta.annotations(pod)
    assert annotations["scheduling.k8s.io/group-name"] == f"work-{meta.uid(made)}"
    assert (annotations["volcano.sh/task-spec"], annotations["volcano.sh/task-index"]) == ("w", "1")
    assert (annotations["volcano.sh/job-version"], annotations["volcano.sh/queue-name"]) == ("0", "default")
    assert pod["spec"]["schedulerName"] == "default-scheduler"


async def test_the_group_says_what_must_start_together(cluster: VirtualCluster) -> None:
    await create(cluster, job(task("ps", 2, minAvailable=1), task("w", 4), minAvailable=3))
    await cluster.clock.advance(1)
    (group,) = await groups(cluster)
    spec = group["spec"]
    assert (spec["minMember"], spec["minTaskMember"]) == (3, {"ps": 1, "w": 4})
    assert spec["minResources"] == {"cpu": "1500m"}


async def test_pods_wait_until_the_scheduler_lets_the_group_in(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, job(task("w", 2), scheduler="volcano"))
    await cluster.clock.advance(5)
    assert await pods(cluster) == {}
    waiting = await reaches_phase(cluster, "Pending")
    assert waiting["status"]["state"]["reason"] == "PodGroupPending"
    assert "queue default" in waiting["status"]["state"]["message"]
    await let_in(cluster)
    await reaches_phase(cluster, "Running")
    assert set(await pods(cluster)) == {"work-w-0", "work-w-1"}


async def test_the_reason_of_the_scheduler_is_shown(cluster: VirtualCluster) -> None:
    await create(cluster, job(task("w", 2), scheduler="volcano"))
    await cluster.clock.advance(1)
    (group,) = await groups(cluster)
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "2/2 tasks wait"}
    await cluster.client.patch(
        kinds.POD_GROUPS, meta.name(group), {"status": {"conditions": [condition]}}, namespace="default"
    )
    await cluster.clock.advance(1)
    found = await cluster.client.get(kinds.JOBS, "work", namespace="default")
    assert found["status"]["state"]["message"] == "2/2 tasks wait"


async def test_failed_pods_without_a_policy_fail_the_job_when_all_have_ended(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = ends(a=0, b=1)
    await create(cluster, job(task("a", 2), task("b", 1)))
    failed = await reaches_phase(cluster, "Failed")
    assert (failed["status"]["succeeded"], failed["status"]["failed"]) == (2, 1)
    assert failed["status"].get("retryCount", 0) == 0


async def test_a_job_completes_if_enough_pods_have_succeeded(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda pod: Ending(code=int(meta.name(pod).endswith("-0")))
    await create(cluster, job(task("w", 3, minAvailable=2), minAvailable=2))
    await reaches_phase(cluster, "Completed")


async def test_min_success_ends_a_job_early_and_stops_the_rest(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = ends(w=0)
    await create(cluster, job(task("server"), task("w", 2), minSuccess=1, minAvailable=3))
    await reaches_phase(cluster, "Completed")
    await cluster.clock.advance(5)
    assert "work-server-0" not in await pods(cluster)


ENDED_BY = {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}


@pytest.mark.parametrize("action", ENDED_BY)
async def test_a_failed_pod_ends_the_job_as_its_policy_says(
    action: str, cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = ends(bad=1)
    await create(cluster, job(task("bad"), task("good", 2), policies=[on("PodFailed", action)]))
    ended = await reaches_phase(cluster, ENDED_BY[action])
    assert (ended["status"]["version"], ended["status"]["failed"]) == (1, 1)
    assert set(await pods(cluster)) == {"work-bad-0"}
    assert (await reasons(cluster, "work"))["ExecuteAction"] == 1


async def test_a_job_is_restarted_until_its_retries_are_used_up(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = ends(bad=1)
    await create(cluster, job(task("bad"), task("good"), policies=[on("PodFailed", "RestartJob")], maxRetry=3))
    failed = await reaches_phase(cluster, "Failed")
    assert (failed["status"]["retryCount"], failed["status"]["version"]) == (3, 3)
    # The last failure stays readable: it names the cause.
    assert set(await pods(cluster)) == {"work-bad-0"}
    assert sum(code == 1 for code in kubelet.ended.values()) == 3


async def test_a_job_that_recovers_after_a_restart_completes(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    def once(pod: Object) -> Ending:
        return Ending(code=int(meta.annotations(pod)["volcano.sh/job-retry-count"] == "0"))

    kubelet.ends = once
    await create(cluster, job(task("w", 2), policies=[on("PodFailed", "RestartJob")]))
    done = await reaches_phase(cluster, "Completed")
    assert (done["status"]["retryCount"], done["status"]["version"]) == (1, 1)
    assert [one["status"] for one in done["status"]["conditions"]][-1] == "Completed"


@pytest.mark.parametrize(
    ("action", "replaced"),
    [("RestartTask", {"work-a-0", "work-a-1"}), ("RestartPod", {"work-a-0"})],
)
async def test_a_targeted_restart_replaces_what_it_is_about(
    action: str, replaced: set[str], cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    broken: set[str] = set()

    def first_fails(pod: Object) -> Ending | None:
        if meta.name(pod) == "work-a-0" and (not broken or meta.uid(pod) in broken):
            broken.add(meta.uid(pod))
            return Ending(code=1, after_s=3)
        return None

    kubelet.ends = first_fails
    await create(cluster, job(task("a", 2, policies=[on("PodFailed", action)]), task("b")))
    await reaches_phase(cluster, "Running")
    before = await pods(cluster)

    async def retried() -> bool:
        found = (await cluster.client.get(kinds.JOBS, "work", namespace="default"))["status"]
        return (found.get("retryCount"), found["state"]["phase"], found.get("running")) == (1, "Running", 3)

    await cluster.until(retried)
    after = await pods(cluster)
    assert {name for name in before if meta.uid(before[name]) != meta.uid(after[name])} == replaced
    assert len(await groups(cluster)) == 1


async def test_a_partition_is_restarted_alone(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    failing: set[str] = set()

    def fails(pod: Object) -> Ending | None:
        if meta.name(pod) == "work-w-3" and (not failing or meta.uid(pod) in failing):
            failing.add(meta.uid(pod))
            return Ending(code=1, after_s=3)
        return None

    kubelet.ends = fails
    partitions = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    policy = on("PodFailed", "RestartPartition")
    await create(cluster, job(task("w", 4, partitionPolicy=partitions, policies=[policy])))
    await reaches_phase(cluster, "Running")
    before = await pods(cluster)
    (group,) = await groups(cluster)
    assert group["spec"]["subGroupPolicy"][0] == {
        "name": "w",
        "subGroupSize": 2,
        "minSubGroups": 1,
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "w"}},
        "matchLabelKeys": ["volcano.sh/partition-id"],
    }

    async def whole_again() -> bool:
        now = await pods(cluster)
        changed = {name for name in before if name in now and meta.uid(before[name]) != meta.uid(now[name])}
        return changed == {"work-w-2", "work-w-3"} and len(now) == 4

    await cluster.until(whole_again)


async def test_policies_of_a_task_come_before_those_of_the_job(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = ends(a=1)
    policies = [on("PodFailed", "AbortJob")]
    await create(cluster, job(task("a", policies=[on("PodFailed", "TerminateJob")]), task("b"), policies=policies))
    await reaches_phase(cluster, "Terminated")


async def test_an_exit_code_has_its_own_policy(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = ends(w=3)
    codes = [{"exitCode": 4, "action": "TerminateJob"}, {"exitCode": 3, "action": "AbortJob"}]
    await create(cluster, job(task("w"), task("other"), policies=codes))
    ended = await reaches_phase(cluster, "Aborted")
    assert ended["status"]["conditions"][-1]["status"] == "Aborted"


async def test_an_exit_code_without_a_policy_does_nothing(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = ends(w=5)
    await create(cluster, job(task("w"), task("other"), policies=[{"exitCode": 3, "action": "AbortJob"}]))
    await reaches_phase(cluster, "Running")
    await cluster.clock.advance(20)
    await reaches_phase(cluster, "Running")


async def test_a_completed_task_can_complete_the_job(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = ends(main=0)
    main = task("main", 2, policies=[on("TaskCompleted", "CompleteJob")])
    await create(cluster, job(main, task("ps")))
    done = await reaches_phase(cluster, "Completed")
    assert done["status"]["succeeded"] == 2
    assert set(await pods(cluster)) == {"work-main-0", "work-main-1"}


async def test_an_evicted_pod_is_replaced(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, job(task("w", 2)))
    await reaches_phase(cluster, "Running")
    before = await pods(cluster)
    await cluster.client.delete(PODS, "work-w-0", namespace="default")

    async def replaced() -> bool:
        now = await pods(cluster)
        return "work-w-0" in now and meta.uid(now["work-w-0"]) != meta.uid(before["work-w-0"])

    await cluster.until(replaced)
    assert meta.uid((await pods(cluster))["work-w-1"]) == meta.uid(before["work-w-1"])


@pytest.mark.parametrize("grace_s", [0, 30])
@pytest.mark.parametrize("event", ["PodEvicted", "*"])
async def test_an_eviction_is_acted_on_once(
    event: str, grace_s: int, cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.farewell_s = 3.0
    await create(cluster, job(task("w", 2), policies=[on(event, "RestartJob")]))
    await reaches_phase(cluster, "Running")
    await cluster.client.delete(PODS, "work-w-0", namespace="default", grace_period_s=grace_s)
    await cluster.clock.advance(0.2)

    async def again() -> bool:
        found = (await cluster.client.get(kinds.JOBS, "work", namespace="default"))["status"]
        return bool(found.get("retryCount", 0) >= 1 and found["state"]["phase"] == "Running")

    await cluster.until(again)
    await cluster.clock.advance(20)
    done = await reaches_phase(cluster, "Running")
    assert (done["status"]["retryCount"], done["status"]["version"]) == (1, 1)
    assert set(await pods(cluster)) == {"work-w-0", "work-w-1"}


async def test_a_pod_that_waits_too_long_is_acted_on(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.broken = lambda pod: meta.name(pod) == "work-w-1"
    await create(cluster, job(task("w", 2), policies=[on("PodPending", "AbortJob", timeout="10s")]))
    await cluster.clock.advance(8)
    await reaches_phase(cluster, "Pending")
    await cluster.clock.advance(3)
    await reaches_phase(cluster, "Aborted")


async def test_an_action_with_a_timeout_waits(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = ends(bad=1)
    await create(cluster, job(task("bad"), task("good"), policies=[on("PodFailed", "TerminateJob", timeout="30s")]))
    await cluster.clock.advance(20)
    await reaches_phase(cluster, "Running")
    await cluster.clock.advance(15)
    await reaches_phase(cluster, "Terminated")


async def test_a_group_in_an_unknown_state_is_an_event(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, job(task("w", 2), policies=[on("Unknown", "AbortJob")]))
    await reaches_phase(cluster, "Running")
    (group,) = await groups(cluster)
    await cluster.client.patch(
        kinds.POD_GROUPS, meta.name(group), {"status": {"phase": "Unknown"}}, namespace="default"
    )
    await reaches_phase(cluster, "Aborted")


async def test_containers_that_restart_too_often_fail_their_task(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    policy = on("TaskFailed", "TerminateJob")
    await create(cluster, job(task("w", 2, maxRetry=4, policies=[policy])))
    await reaches_phase(cluster, "Running")
    for name, restarts in (("work-w-0", 3), ("work-w-1", 1)):
        pod = (await pods(cluster))[name]
        statuses = [{**one, "restartCount": restarts} for one in pod["status"]["containerStatuses"]]
        await cluster.client.patch(
            PODS, name, {"status": {"containerStatuses": statuses}}, namespace="default", subresource="status"
        )
    await reaches_phase(cluster, "Terminated")


async def test_an_updated_job_can_be_restarted(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, job(task("w", 2), policies=[on("JobUpdated", "RestartJob")]))
    await reaches_phase(cluster, "Running")
    await cluster.client.patch(kinds.JOBS, "work", {"spec": {"minAvailable": 1}}, namespace="default")

    async def restarted() -> bool:
        found = (await cluster.client.get(kinds.JOBS, "work", namespace="default"))["status"]
        return (found.get("retryCount"), found["state"]["phase"]) == (1, "Running")

    await cluster.until(restarted)


async def test_a_job_is_suspended_and_resumed_by_commands(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    made = await create(cluster, job(task("w", 2)))
    await reaches_phase(cluster, "Running")
    await cluster.client.create(kinds.COMMANDS, command("AbortJob", made))
    await reaches_phase(cluster, "Aborted")
    assert (await pods(cluster), await listed(cluster, kinds.COMMANDS)) == ({}, [])
    await cluster.client.create(kinds.COMMANDS, command("ResumeJob", made))
    resumed = await reaches_phase(cluster, "Running")
    assert resumed["status"]["retryCount"] == 1
    assert len(await pods(cluster)) == 2
    assert (await reasons(cluster, "work"))["CommandIssued"] == 2


@pytest.mark.parametrize("phase", ["Aborting", "Restarting"])
async def test_an_action_whose_status_cannot_be_written_at_first_is_carried_out_later(
    phase: str, cluster: VirtualCluster, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Client.update
    refused: list[str] = []

    async def once_refused(client: Client, target: Target, obj: Object, **options: Any) -> Object:
        if target == kinds.JOBS and obj["status"]["state"]["phase"] == phase and not refused:
            refused.append(phase)
            raise errors.Conflict("the object has been modified")
        return await update(client, target, obj, **options)

    monkeypatch.setattr(Client, "update", once_refused)
    made = await create(cluster, job(task("w", 2), policies=[on("PodEvicted", "RestartJob")]))
    await reaches_phase(cluster, "Running")
    if phase == "Aborting":
        await cluster.client.create(kinds.COMMANDS, command("AbortJob", made))
        await reaches_phase(cluster, "Aborted")
    else:
        await cluster.client.delete(PODS, "work-w-0", namespace="default", grace_period_s=0)

        async def restarted() -> bool:
            found = await cluster.client.get(kinds.JOBS, "work", namespace="default")
            return bool(found["status"].get("retryCount"))

        await cluster.until(restarted)
    assert refused == [phase]


async def test_a_pod_whose_deletion_failed_can_be_evicted_later(
    cluster: VirtualCluster, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = Client.delete
    refused: list[str] = []

    async def once_refused(client: Client, target: Target, name: str, **options: Any) -> Object:
        if (target, name) == (PODS, "work-w-1") and not refused:
            refused.append(name)
            raise errors.InternalError("the server is busy")
        return await delete(client, target, name, **options)

    await create(cluster, job(task("w", 2), policies=[on("PodFailed", "RestartTask"), on("PodEvicted", "AbortJob")]))
    await reaches_phase(cluster, "Running")
    before = {name: meta.uid(one) for name, one in (await pods(cluster)).items()}
    monkeypatch.setattr(Client, "delete", once_refused)
    await cluster.client.patch(
        PODS, "work-w-0", {"status": {"phase": "Failed"}}, namespace="default", subresource="status"
    )
    await cluster.clock.advance(5)
    assert refused == ["work-w-1"]
    after = {name: meta.uid(one) for name, one in (await pods(cluster)).items()}
    assert (after["work-w-0"] == before["work-w-0"], after["work-w-1"] == before["work-w-1"]) == (False, True)
    await reaches_phase(cluster, "Running")
    await cluster.client.delete(PODS, "work-w-1", namespace="default", grace_period_s=0)
    await reaches_phase(cluster, "Aborted")


@pytest.mark.parametrize(("iteration", "starts"), [("all", False), ("any", True)])
async def test_a_task_starts_after_the_tasks_that_it_depends_on(
    iteration: str, starts: bool, cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.broken = lambda pod: meta.name(pod).startswith("work-slow")
    last = task("last", dependsOn={"name": ["quick", "slow"], "iteration": iteration})
    await create(cluster, job(task("quick"), task("slow"), last))
    await cluster.clock.advance(5)
    assert ("work-last-0" in await pods(cluster)) is starts
    kubelet.broken = lambda _: False
    # The pod has waited; a new look at it lets it go on.
    await cluster.client.patch(PODS, "work-slow-0", {"metadata": {"labels": {"look": "again"}}}, namespace="default")
    await reaches_phase(cluster, "Running")


async def test_a_job_is_scaled(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    made = await create(cluster, job(task("w", 3)))
    await reaches_phase(cluster, "Running")

    async def resize(replicas: int) -> None:
        live = await cluster.client.get(kinds.JOBS, "work", namespace="default")
        live["spec"]["tasks"][0] |= {"replicas": replicas, "minAvailable": replicas}
        live["spec"]["minAvailable"] = replicas
        await cluster.client.update(kinds.JOBS, live)
        await cluster.clock.advance(5)

    await resize(1)
    assert set(await pods(cluster)) == {"work-w-0"}
    await resize(4)
    assert len(await pods(cluster)) == 4
    (group,) = await groups(cluster)
    assert (group["spec"]["minMember"], group["spec"]["minResources"]) == (4, {"cpu": "2"})
    assert meta.name(group) == f"work-{meta.uid(made)}"
    final = await cluster.client.get(kinds.JOBS, "work", namespace="default")
    assert final["status"].get("retryCount", 0) == 0


async def test_a_finished_job_goes_after_its_time(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = ends(w=0)
    await create(cluster, job(task("w"), ttlSecondsAfterFinished=30))
    await reaches_phase(cluster, "Completed")
    await cluster.clock.advance(25)
    assert "deletionTimestamp" not in (await cluster.client.get(kinds.JOBS, "work", namespace="default"))["metadata"]
    await cluster.clock.advance(10)
    found = await listed(cluster, kinds.JOBS)
    assert all(meta.is_deleting(one) for one in found)


async def test_nothing_is_remembered_of_a_job_that_is_gone(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    client = cluster.acting_as("rota:controller:batch-jobs")
    controller = BatchJobController(client, clock=cluster.clock, rng=cluster.rng)
    memories = [one for one in vars(controller).values() if isinstance(one, dict)]
    async with cluster.running(controller.run):
        await create(cluster, job(task("w", 2)))
        await reaches_phase(cluster, "Running")
        assert any(memories)
        await cluster.client.delete(kinds.JOBS, "work", namespace="default", propagation=Propagation.BACKGROUND)
        for name in await pods(cluster):
            await cluster.client.delete(PODS, name, namespace="default", grace_period_s=0)
        await cluster.clock.advance(5)
        assert not any(memories)


async def test_the_series_of_a_job_goes_with_it(cluster: VirtualCluster, kubelet: Kubelet, metrics: Metrics) -> None:
    kubelet.ends = ends(w=0)

    def counted() -> float | None:
        series = metrics.beside("batch", prefix="volcano_")
        return series.value("job_completed_phase_count_total", job_name="work", queue_name="default")

    await create(cluster, job(task("w")))
    await reaches_phase(cluster, "Completed")
    assert counted() == 1
    await cluster.client.delete(kinds.JOBS, "work", namespace="default", propagation=Propagation.BACKGROUND)
    await cluster.clock.advance(5)
    assert counted() is None


async def test_a_new_controller_goes_on_where_the_last_one_ended(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, job(task("w", 3), policies=[on("PodFailed", "RestartJob")]))
    await reaches_phase(cluster, "Running")
    before = await pods(cluster)
    async with running(cluster):
        await cluster.clock.advance(10)
        assert {meta.uid(one) for one in (await pods(cluster)).values()} == {meta.uid(one) for one in before.values()}


async def test_a_job_whose_queue_was_closed_says_so(cluster: VirtualCluster) -> None:
    await cluster.client.create(
        kinds.QUEUES,
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}},
    )
    made = job(queue="q")
    await create(cluster, made)
    closed: dict[str, Any] = {"status": {"state": "Closed"}}
    await cluster.client.patch(kinds.QUEUES, "q", closed, subresource="status")
    other = {**made, "metadata": {"name": "later", "namespace": "default"}}
    with pytest.raises(Exception, match="queue q is Closed"):
        await create(cluster, other)


async def test_a_job_gets_the_objects_of_its_plugins_and_they_follow_its_size(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    config = ("", "v1", "configmaps")
    await create(cluster, job(task("w", 2), plugins={"svc": [], "ssh": [], "env": []}))
    done = await reaches_phase(cluster, "Running")
    assert done["status"]["controlledResources"] == {"plugin-env": "env", "plugin-ssh": "ssh", "plugin-svc": "svc"}
    first = await cluster.client.get(config, "work-svc", namespace="default")
    assert first["data"]["VC_W_NUM"] == "2"
    keys = await cluster.client.get(("", "v1", "secrets"), "work-ssh", namespace="default")
    assert (meta.controller_of(keys) or {})["name"] == "work"
    live = await cluster.client.get(kinds.JOBS, "work", namespace="default")
    live["spec"]["tasks"][0]["replicas"] = 3
    await cluster.client.update(kinds.JOBS, live)
    await cluster.clock.advance(3)
    assert (await cluster.client.get(config, "work-svc", namespace="default"))["data"]["VC_W_NUM"] == "3"
    assert (await cluster.client.get(("", "v1", "secrets"), "work-ssh", namespace="default"))["data"] == keys["data"]


async def test_an_object_of_another_owner_is_not_taken_over(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    taken = {"metadata": {"name": "work-svc", "namespace": "default"}, "data": {"mine": "yes"}}
    await cluster.client.create(("", "v1", "configmaps"), taken)
    await create(cluster, job(task("w"), plugins={"svc": []}))
    await cluster.clock.advance(5)
    assert await pods(cluster) == {}
    assert (await reasons(cluster, "work"))["PluginError"] >= 1
    found = await cluster.client.get(("", "v1", "configmaps"), "work-svc", namespace="default")
    assert found["data"] == {"mine": "yes"}
