"""Jobs run pods to their end, count each once, and say when it is over and why."""

import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.workloads import PODS, Ending, Kubelet, a_few_steps, listed, reaches, reasons

from rota.api import meta, times
from rota.client import pods as pod_actions
from rota.client.verbs import Object, Propagation
from rota.controllers import pod_states
from rota.controllers.jobs import job_accounting as job_tally
from rota.controllers.jobs.controller import JOBS, JobController
from rota.controllers.jobs.job_accounting import FINALIZER, INDEX, index_of
from rota.testing import manifests
from rota.testing.virtual_api import VirtualCluster

QUOTAS = ("", "v1", "resourcequotas")


@contextlib.asynccontextmanager
async def running(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:jobs")
    async with cluster.running(JobController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


@pytest.fixture
async def kubelet(cluster: VirtualCluster) -> AsyncIterator[Kubelet]:
    it = Kubelet(cluster, ends=lambda _: Ending())
    async with cluster.running(it.run), running(cluster):
        yield it


def job(**spec: Any) -> Object:
    made = manifests.job("work")
    made["spec"] |= spec
    return made


def indexed(completions: int, **spec: Any) -> Object:
    return job(completions=completions, parallelism=completions, completionMode="Indexed", **spec)


async def create(cluster: VirtualCluster, obj: Object) -> Object:
    return await cluster.client.create(JOBS, obj, namespace="default")


async def change(cluster: VirtualCluster, **spec: Any) -> None:
    await cluster.client.patch(JOBS, "work", {"spec": spec}, namespace="default")


async def over(cluster: VirtualCluster, kind: str, reason: str) -> Object:
    """The Job, once it has ended like this."""

    async def said() -> bool:
        found = meta.condition(await cluster.client.get(JOBS, "work", namespace="default"), kind)
        return found is not None and (found["status"], found["reason"]) == ("True", reason)

    for _ in range(20):
        try:
            await cluster.until(said)
        except AssertionError:
            continue
        return await cluster.client.get(JOBS, "work", namespace="default")
    raise AssertionError((await cluster.client.get(JOBS, "work", namespace="default"))["status"])


async def complete(cluster: VirtualCluster) -> Object:
    return await over(cluster, "Complete", "CompletionsReached")


async def pods(cluster: VirtualCluster) -> list[Object]:
    return sorted(await listed(cluster, PODS), key=lambda one: int(one["metadata"]["resourceVersion"]))


def failing_once(*indexes: int, code: int = 1) -> Any:
    """Pods of these indexes fail the first time."""
    tried: set[int | None] = set()
    known: dict[str, Ending] = {}

    def ends(pod: Object) -> Ending:
        if meta.uid(pod) not in known:
            index = index_of(pod)
            known[meta.uid(pod)] = Ending(code if index in indexes and index not in tried else 0)
            tried.add(index)
        return known[meta.uid(pod)]

    return ends


async def disrupt(cluster: VirtualCluster, pod: Object) -> None:
    """What a drain does."""
    await pod_actions.evict(cluster.client, meta.name(pod), namespace="default")


async def test_a_job_runs_so_many_pods_so_many_at_a_time(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, job(completions=5, parallelism=2))
    await reaches(cluster, JOBS, "work", active=2, ready=2)
    found = await complete(cluster)
    status = found["status"]
    assert (status["succeeded"], status["ready"], status["terminating"]) == (5, 0, 0)
    assert status["uncountedTerminatedPods"] == {}
    assert not status.keys() & {"active", "failed", "completedIndexes", "failedIndexes"}
    assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert status["completionTime"] >= status["startTime"]
    made = await pods(cluster)
    assert len(made) == 5
    assert all(meta.name(one).startswith("work-") and not meta.finalizers(one) for one in made)
    await cluster.clock.advance(1)
    assert await reasons(cluster, "work") == {"SuccessfulCreate": 5, "Completed": 1}


async def test_a_job_without_completions_is_done_when_one_is_and_the_others_have_ended(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = lambda pod: Ending(after_s=5.0 if meta.name(pod) == first[0] else 9.0) if first else None
    first: list[str] = []
    await create(cluster, job(completions=None, parallelism=3))
    await reaches(cluster, JOBS, "work", active=3, ready=3)
    made = await pods(cluster)
    first.append(meta.name(made[0]))
    for one in made:  # so that the kubelet looks at them again
        await cluster.client.patch(PODS, meta.name(one), {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    await reaches(cluster, JOBS, "work", succeeded=1, active=2)
    found = await complete(cluster)
    assert found["status"]["succeeded"] == 3
    assert len(await pods(cluster)) == 3


async def test_each_pod_of_an_indexed_job_knows_its_index(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, indexed(4))
    found = await complete(cluster)
    assert (found["status"]["completedIndexes"], found["status"]["succeeded"]) == ("0-3", 4)
    for index, pod in enumerate(sorted(await pods(cluster), key=lambda one: meta.labels(one)[INDEX])):
        assert meta.annotations(pod)[INDEX] == meta.labels(pod)[INDEX] == str(index)
        assert pod["spec"]["hostname"] == f"work-{index}"
        assert meta.name(pod).startswith(f"work-{index}-")
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"


async def test_a_failed_index_is_tried_again(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = failing_once(1)
    await create(cluster, indexed(3))
    found = await complete(cluster)
    assert (found["status"]["completedIndexes"], found["status"]["failed"]) == ("0-2", 1)
    assert sorted(index_of(one) or 0 for one in await pods(cluster)) == [0, 1, 1, 2]


async def test_after_too_many_failures_with_growing_pauses_a_job_has_failed(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = lambda _: Ending(code=1)
    await create(cluster, job(backoffLimit=3))
    found = await over(cluster, "Failed", "BackoffLimitExceeded")
    status = found["status"]
    assert (status["failed"], status.get("succeeded", 0)) == (4, 0)
    assert [one["type"] for one in status["conditions"]] == ["FailureTarget", "Failed"]
    assert status["conditions"][1]["message"] == "Job has reached the specified backoff limit"
    assert "completionTime" not in status
    made = [times.parse(one["metadata"]["creationTimestamp"]) for one in await pods(cluster)]
    pauses = [later - earlier for earlier, later in zip(sorted(made), sorted(made)[1:], strict=False)]
    assert [10 <= pauses[0] <= 13, 20 <= pauses[1] <= 23, 40 <= pauses[2] <= 43] == [True] * 3
    await cluster.clock.advance(1)
    assert (await reasons(cluster, "work"))["BackoffLimitExceeded"] == 1


async def test_what_still_runs_is_stopped_when_a_job_has_failed(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda pod: Ending(code=1) if index_of(pod) == 0 else None
    kubelet.farewell_s = 5.0
    await create(cluster, indexed(3, backoffLimit=0))
    await reaches(cluster, JOBS, "work", terminating=2)
    found = await cluster.client.get(JOBS, "work", namespace="default")
    assert meta.is_condition_true(found, "FailureTarget")
    assert not meta.is_condition_true(found, "Failed")
    found = await over(cluster, "Failed", "BackoffLimitExceeded")
    assert found["status"]["failed"] == 3
    assert [pod_states.phase(one) for one in await pods(cluster)] == ["Failed"]


async def test_a_pod_lost_to_a_disruption_costs_no_retry_and_no_time(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    await create(cluster, job(backoffLimit=0))
    for _ in range(3):
        await reaches(cluster, JOBS, "work", active=1, ready=1, terminating=0)
        (pod,) = [one for one in await pods(cluster) if pod_states.is_active(one)]
        begun = cluster.clock.now()
        await disrupt(cluster, pod)
        await cluster.clock.advance(0.5)
        await reaches(cluster, JOBS, "work", active=1, ready=1)
        assert cluster.clock.now() - begun < 5
    kubelet.ends = lambda _: Ending()
    (pod,) = [one for one in await pods(cluster) if pod_states.is_active(one)]
    await cluster.client.patch(PODS, meta.name(pod), {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    found = await complete(cluster)
    assert "failed" not in found["status"]


def rule(action: str, **about: Any) -> Object:
    return {"rules": [{"action": action, **about}]}


DISRUPTED = [{"type": "DisruptionTarget"}]


async def test_a_rule_may_have_disruptions_counted_as_upstream_does(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    await create(cluster, job(backoffLimit=0, podFailurePolicy=rule("Count", onPodConditions=DISRUPTED)))
    await reaches(cluster, JOBS, "work", active=1, ready=1)
    (pod,) = await pods(cluster)
    await disrupt(cluster, pod)
    found = await over(cluster, "Failed", "BackoffLimitExceeded")
    assert found["status"]["failed"] == 1


async def test_a_deleted_pod_counts_as_failed(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    await create(cluster, job(backoffLimit=0))
    await reaches(cluster, JOBS, "work", active=1, ready=1)
    (pod,) = await pods(cluster)
    await cluster.client.delete(PODS, meta.name(pod), namespace="default")
    await over(cluster, "Failed", "BackoffLimitExceeded")


async def test_a_rule_fails_the_job_at_once_by_exit_code(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: Ending(code=42)
    policy = rule("FailJob", onExitCodes={"operator": "In", "values": [42]})
    await create(cluster, job(backoffLimit=6, podFailurePolicy=policy))
    found = await over(cluster, "Failed", "PodFailurePolicy")
    (pod,) = await pods(cluster)
    said = f"Container main for pod default/{meta.name(pod)} failed with exit code 42 matching FailJob rule at index 0"
    assert meta.condition(found, "Failed")["message"] == said  # type: ignore[index]


async def test_a_rule_ignores_failures(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = failing_once(0, code=7)
    policy = rule("Ignore", onExitCodes={"operator": "NotIn", "values": [8]})
    await create(cluster, indexed(1, backoffLimit=0, podFailurePolicy=policy))
    found = await complete(cluster)
    assert "failed" not in found["status"]
    assert len(await pods(cluster)) == 2


async def test_each_index_has_retries_of_its_own(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda pod: Ending(code=1 if index_of(pod) == 1 else 0)
    await create(cluster, indexed(3, backoffLimitPerIndex=2))
    found = await over(cluster, "Failed", "FailedIndexes")
    status = found["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
    assert (status["succeeded"], status["failed"]) == (2, 3)
    of_one = [one for one in await pods(cluster) if index_of(one) == 1]
    counts = [meta.annotations(one)["batch.kubernetes.io/job-index-failure-count"] for one in of_one]
    assert sorted(counts) == ["0", "1", "2"]
    made = sorted(times.parse(one["metadata"]["creationTimestamp"]) for one in of_one)
    assert made[1] - made[0] >= 10
    assert made[2] - made[1] >= 20


async def test_too_many_failed_indexes_end_a_job(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda pod: Ending(code=1) if index_of(pod) in {1, 3} else None
    await create(cluster, indexed(5, backoffLimitPerIndex=0, maxFailedIndexes=1))
    found = await over(cluster, "Failed", "MaxFailedIndexesExceeded")
    assert found["status"]["failedIndexes"] == "1,3"


async def test_a_rule_fails_an_index_at_once(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda pod: Ending(code=3 if index_of(pod) == 0 else 0)
    policy = rule("FailIndex", onExitCodes={"containerName": "main", "operator": "In", "values": [3]})
    await create(cluster, indexed(2, backoffLimitPerIndex=5, podFailurePolicy=policy))
    found = await over(cluster, "Failed", "FailedIndexes")
    assert found["status"]["failed"] == 1


async def test_a_disruption_costs_an_index_no_retry(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    await create(cluster, indexed(1, backoffLimitPerIndex=0))
    await reaches(cluster, JOBS, "work", active=1, ready=1)
    (pod,) = await pods(cluster)
    kubelet.ends = lambda _: Ending()
    await disrupt(cluster, pod)
    found = await complete(cluster)
    assert found["status"]["failedIndexes"] == ""
    (pod,) = await pods(cluster)
    assert meta.annotations(pod)["batch.kubernetes.io/job-index-failure-count"] == "0"
    assert meta.annotations(pod)["batch.kubernetes.io/job-index-ignored-failure-count"] == "1"


@pytest.mark.parametrize(
    "policy", [{"succeededIndexes": "0,2"}, {"succeededCount": 2}, {"succeededIndexes": "0-3", "succeededCount": 2}]
)
async def test_a_job_may_be_content_with_some_of_its_indexes(
    cluster: VirtualCluster, kubelet: Kubelet, policy: Object
) -> None:
    kubelet.ends = lambda pod: Ending() if index_of(pod) in {0, 2} else None
    await create(cluster, indexed(5, successPolicy={"rules": [{"succeededIndexes": "4"}, policy]}))
    found = await over(cluster, "Complete", "SuccessPolicy")
    assert found["status"]["completedIndexes"] == "0,2"
    assert meta.condition(found, "Complete")["message"] == "Matched rules at index 1"  # type: ignore[index]
    assert "failed" not in found["status"]
    await cluster.clock.advance(2)
    assert {index_of(one) for one in await pods(cluster)} == {0, 2}


async def test_a_job_that_takes_too_long_has_failed(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    begun = cluster.clock.now()
    await create(cluster, job(activeDeadlineSeconds=30))
    found = await over(cluster, "Failed", "DeadlineExceeded")
    assert 30 <= cluster.clock.now() - begun < 35
    assert found["status"]["failed"] == 1


async def test_a_suspended_job_has_no_pods_and_its_time_does_not_run(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    await create(cluster, job(suspend=True, activeDeadlineSeconds=30))
    await cluster.clock.advance(60)
    found = await cluster.client.get(JOBS, "work", namespace="default")
    assert meta.condition(found, "Suspended")["reason"] == "JobSuspended"  # type: ignore[index]
    assert "startTime" not in found["status"]
    assert await pods(cluster) == []
    await change(cluster, suspend=False)
    await reaches(cluster, JOBS, "work", active=1, ready=1)
    await change(cluster, suspend=True)
    await reaches(cluster, JOBS, "work", active=0, terminating=0)
    assert await pods(cluster) == []
    await cluster.clock.advance(60)
    await change(cluster, suspend=False)
    kubelet.ends = lambda _: Ending(after_s=20)
    found = await complete(cluster)
    suspended = meta.condition(found, "Suspended")
    assert suspended is not None
    assert (suspended["status"], suspended["reason"]) == ("False", "JobResumed")
    assert "failed" not in found["status"]
    assert (await reasons(cluster, "work"))["Resumed"] == 2


async def test_fewer_at_a_time_is_no_failure(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    await create(cluster, job(completions=6, parallelism=4))
    await reaches(cluster, JOBS, "work", active=4, ready=4)
    await change(cluster, parallelism=1)
    await reaches(cluster, JOBS, "work", active=1, terminating=0)
    await cluster.clock.advance(1)
    assert len(await pods(cluster)) == 1
    assert "failed" not in (await cluster.client.get(JOBS, "work", namespace="default"))["status"]


async def test_an_indexed_job_grows_and_shrinks(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda pod: Ending() if index_of(pod) == 0 else None
    await create(cluster, indexed(4))
    await reaches(cluster, JOBS, "work", active=3, succeeded=1)
    await change(cluster, completions=2, parallelism=2)
    await reaches(cluster, JOBS, "work", active=1, terminating=0)
    await cluster.clock.advance(1)
    assert sorted(index_of(one) or 0 for one in await pods(cluster)) == [0, 1]
    await change(cluster, completions=5, parallelism=5)
    await reaches(cluster, JOBS, "work", active=4, succeeded=1)


@pytest.mark.parametrize(("policy", "together"), [("Failed", 1), ("TerminatingOrFailed", 2)])
async def test_a_pod_is_replaced_when_it_begins_to_end_or_when_it_has(
    cluster: VirtualCluster, kubelet: Kubelet, policy: str, together: int
) -> None:
    kubelet.ends = lambda _: None
    kubelet.farewell_s = 20.0
    await create(cluster, job(podReplacementPolicy=policy))
    await reaches(cluster, JOBS, "work", active=1, ready=1)
    (pod,) = await pods(cluster)
    await disrupt(cluster, pod)
    await cluster.clock.advance(5)
    assert len(await pods(cluster)) == together
    await cluster.clock.advance(30)
    await reaches(cluster, JOBS, "work", active=1, terminating=0)
    assert len(await pods(cluster)) == 1


async def test_jobs_of_another_controller_are_left_alone(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await create(cluster, job(managedBy="example.com/other"))
    await cluster.clock.advance(5)
    assert await pods(cluster) == []
    assert "startTime" not in ((await cluster.client.get(JOBS, "work", namespace="default")).get("status") or {})


async def test_pods_of_a_job_that_is_gone_are_let_go(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    await create(cluster, job(completions=2, parallelism=2))
    await reaches(cluster, JOBS, "work", active=2)
    await cluster.client.delete(JOBS, "work", namespace="default", propagation=Propagation.BACKGROUND)
    await cluster.clock.advance(2)
    assert not any(FINALIZER in meta.finalizers(one) for one in await pods(cluster))


async def test_a_job_that_is_deleted_in_the_foreground_lets_its_pods_go(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = lambda _: None
    await create(cluster, job())
    await reaches(cluster, JOBS, "work", active=1)
    await cluster.client.delete(JOBS, "work", namespace="default", propagation=Propagation.FOREGROUND)
    (pod,) = await pods(cluster)
    await cluster.client.delete(PODS, meta.name(pod), namespace="default")  # what the garbage collector does
    await cluster.clock.advance(2)
    assert await pods(cluster) == []


async def test_containers_that_are_restarted_too_often_end_a_job(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    made = job(backoffLimit=2)
    made["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    await create(cluster, made)
    await reaches(cluster, JOBS, "work", active=1, ready=1)
    (pod,) = await pods(cluster)
    for restarts in (1, 2):
        assert not meta.is_condition_true(await cluster.client.get(JOBS, "work", namespace="default"), "Failed")
        statuses = [{**pod["status"]["containerStatuses"][0], "restartCount": restarts}]
        await cluster.client.patch(
            PODS, meta.name(pod), {"status": {"containerStatuses": statuses}}, namespace="default", subresource="status"
        )
        await cluster.clock.advance(1)
    await over(cluster, "Failed", "BackoffLimitExceeded")


async def test_pods_that_cannot_be_made_are_made_when_they_can(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    hard = {"pods": "1"}
    await cluster.client.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace="default")
    figures = {"status": {"hard": hard, "used": {"pods": "0"}}}
    await cluster.client.patch(QUOTAS, "q", figures, namespace="default", subresource="status")
    kubelet.ends = lambda _: None
    await create(cluster, job(completions=3, parallelism=3))
    await reaches(cluster, JOBS, "work", active=1)
    assert "FailedCreate" in await reasons(cluster, "work")
    await cluster.client.delete(QUOTAS, "q", namespace="default")
    await reaches(cluster, JOBS, "work", active=3)
    assert len(await pods(cluster)) == 3


async def test_a_job_with_a_selector_of_its_own_adopts_pods_and_counts_them(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    stray = manifests.pod("stray", labels={"app": "work"}, restartPolicy="Never")
    await cluster.client.create(PODS, stray, namespace="default")
    made = job(manualSelector=True, selector={"matchLabels": {"app": "work"}}, completions=2, parallelism=1)
    made["spec"]["template"]["metadata"] = {"labels": {"app": "work"}}
    await create(cluster, made)
    found = await complete(cluster)
    assert found["status"]["succeeded"] == 2
    adopted = await cluster.client.get(PODS, "stray", namespace="default")
    assert meta.controller_of(adopted)["uid"] == meta.uid(found)  # type: ignore[index]
    assert len(await pods(cluster)) == 2


@pytest.mark.slow
async def test_a_large_job_is_counted_in_portions(cluster: VirtualCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_tally, "MOST_UNCOUNTED", 40)
    kubelet = Kubelet(cluster)
    async with cluster.running(kubelet.run):
        async with running(cluster):
            await create(cluster, job(completions=90, parallelism=90))
            await reaches(cluster, JOBS, "work", active=90, ready=90)
        # All of them end while nobody counts.
        kubelet.ends = lambda _: Ending()
        for one in await pods(cluster):
            await cluster.client.patch(PODS, meta.name(one), {"metadata": {"labels": {"a": "b"}}}, namespace="default")
        await cluster.clock.advance(5)
        assert len(kubelet.ended) == 90
        async with running(cluster):
            found = await complete(cluster)
    assert found["status"]["succeeded"] == 90
    assert len(await pods(cluster)) == 90


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_whenever_the_controller_dies_every_pod_is_counted_once(cluster: VirtualCluster, seed: int) -> None:
    rng = random.Random(seed)
    fates: dict[str, Ending] = {}

    def ends(pod: Object) -> Ending:
        fate = Ending(code=int(rng.random() < 0.3), after_s=rng.choice([0.5, 1.0, 3.0]))
        return fates.setdefault(meta.uid(pod), fate)

    kubelet = Kubelet(cluster, ends=ends)
    spec: dict[str, Any] = {"completions": 8, "parallelism": 3, "backoffLimit": 1000}
    if seed % 2:
        spec["completionMode"] = "Indexed"
    async with cluster.running(kubelet.run):
        await create(cluster, job(**spec))
        for _ in range(400):
            async with running(cluster):
                await a_few_steps(rng)
            await cluster.clock.advance(0.5)
            found = await cluster.client.get(JOBS, "work", namespace="default")
            if meta.is_condition_true(found, "Complete"):
                break
        async with running(cluster):
            found = await complete(cluster)
    codes = list(kubelet.ended.values())
    assert found["status"]["succeeded"] == codes.count(0) == 8
    assert found["status"].get("failed", 0) == codes.count(1)
    assert len(await pods(cluster)) == len(codes)
    if seed % 2:
        assert found["status"]["completedIndexes"] == "0-7"
