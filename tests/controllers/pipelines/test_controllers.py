"""Pipelines carried through on a real API server in virtual time, with a kubelet in a few lines."""

import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.workloads import PODS, Ending, Kubelet, a_few_steps, listed, reaches, reasons

from rota.api import meta, times
from rota.api.pipelines.object_names import STEP_LABEL
from rota.client.informers.shared_informers import SharedInformers
from rota.client.verbs import Client, Object, PatchType
from rota.controllers import controller_registry
from rota.controllers.garbage import GarbageCollector
from rota.controllers.pipelines import engine, objects
from rota.controllers.pipelines.objects import PIPELINES, RUNS, STEP_RUNS
from rota.controllers.pipelines.progress import RunState
from rota.controllers.pipelines.runs import PipelineRunController
from rota.controllers.pipelines.states import Decision
from rota.controllers.pipelines.steps import StepRunController
from rota.testing.virtual_api import VirtualCluster


@contextlib.asynccontextmanager
async def controllers(cluster: VirtualCluster, *, sharing: bool = True) -> AsyncIterator[None]:
    """Both of them; in a master they share what they follow, each in a process of its own they do not."""
    runs = cluster.acting_as("rota:controller:pipeline-runs")
    steps = cluster.acting_as("rota:controller:step-runs")
    clock, rng = cluster.clock, cluster.rng
    reader = cluster.acting_as("rota:controllers")
    shared = SharedInformers(reader, controller_registry.SHARED if sharing else (), clock=clock, rng=rng)
    runs, steps = (one.with_settings(informers=shared) for one in (runs, steps))
    run_controller = PipelineRunController(runs, clock=clock, rng=rng)
    step_controller = StepRunController(steps, clock=clock, rng=rng)
    async with (
        cluster.running(shared.run),
        cluster.running(run_controller.run),
        cluster.running(step_controller.run),
    ):
        yield


@pytest.fixture
async def kubelet(cluster: VirtualCluster) -> AsyncIterator[Kubelet]:
    it = Kubelet(cluster, ends=lambda _: Ending())
    async with cluster.running(it.run):
        yield it


def step(name: str, *waits: str, **parts: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "args": parts.pop("args", [])}
    return {"name": name, "dependsOn": list(waits), "template": {"spec": {"containers": [container]}}, **parts}


def run(*steps: Any, name: str = "r", **spec: Any) -> Object:
    given = {key: spec.pop(key) for key in ("parameters_given", "suspend") if key in spec}
    own = {"steps": list(steps), **spec}
    whole: dict[str, Any] = {"pipelineSpec": own}
    if "parameters_given" in given:
        whole["parameters"] = given["parameters_given"]
    if "suspend" in given:
        whole["suspend"] = given["suspend"]
    return {"metadata": {"name": name}, "spec": whole}


async def submit(cluster: VirtualCluster, obj: Object) -> None:
    await cluster.client.create(RUNS, obj, namespace="default")


async def phases(cluster: VirtualCluster) -> dict[str, str]:
    return {
        meta.name(one): (one.get("status") or {}).get("phase", "Waiting") for one in await listed(cluster, STEP_RUNS)
    }


async def at_step(cluster: VirtualCluster, name: str, **wanted: Any) -> Object:
    """The step run, once it is there and its status says all this."""
    await cluster.until(lambda: cluster.exists(STEP_RUNS, name, "default"))
    return await reaches(cluster, STEP_RUNS, name, **wanted)


def of_step(name: str, ending: Ending | None) -> Any:
    """Pods of one step end like this, all others well."""
    return lambda pod: ending if meta.labels(pod)["rota.dev/step"] == name else Ending()


async def test_a_run_goes_through_its_steps_in_order(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    async with controllers(cluster):
        await submit(cluster, run(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")))
        done = await reaches(cluster, RUNS, "r", phase="Succeeded")
    assert done["status"]["counts"] == {"succeeded": 4}
    assert await phases(cluster) == dict.fromkeys(("r-a", "r-b", "r-c", "r-d"), "Succeeded")
    assert await reasons(cluster, "r") == {"Started": 1, "Succeeded": 1}


async def test_a_step_that_is_soon_over_costs_three_writes(
    cluster: VirtualCluster, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Counter[str]()
    request = Client.request

    async def counted(client: Client, method: str, path: str, **rest: Any) -> bytes:
        *_, last = path.rpartition("/namespaces/default/")
        kind, _, below = last.partition("/")
        if method != "GET" and (kind != "pods" or not below):
            sent[f"{method} {kind}"] += 1
        return await request(client, method, path, **rest)

    monkeypatch.setattr(Client, "request", counted)
    kubelet.ends = lambda _: Ending(after_s=0)
    async with controllers(cluster):
        await submit(cluster, run(step("a"), step("b", "a", forEach={"items": list(range(20))}), step("c", "b")))
        for _ in range(200):
            if (await phases(cluster)).get("r-c") == "Succeeded":
                break
            await cluster.clock.advance(0.01)
        await reaches(cluster, RUNS, "r", phase="Succeeded")
    # each is made, gets a pod, and is written down with its end; the run itself begins and ends
    wanted = {"POST stepruns": 22, "POST pods": 22, "PUT stepruns": 22, "PUT pipelineruns": 2}
    assert {what: sent[what] for what in wanted} == wanted


async def test_a_continued_step_is_instructed(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    async with controllers(cluster):
        await submit(cluster, run(step("a")))
        told = await at_step(cluster, "r-a", phase="Running", attempts=1, node="box")
        await reaches(cluster, RUNS, "r", counts={"running": 1})
    assert times.parse(told["status"]["startedAt"]) <= cluster.clock.now() - 0.5


async def test_a_run_of_a_pipeline_keeps_what_it_began_with(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: Ending(after_s=30)
    spec = {"parameters": [{"name": "n", "default": "1"}], "steps": [step("a", args=["{{ parameters.n }}"])]}
    await cluster.client.create(PIPELINES, {"metadata": {"name": "p"}, "spec": spec}, namespace="default")
    given = [{"name": "n", "value": "2"}]
    async with controllers(cluster):
        await submit(cluster, {"metadata": {"name": "r"}, "spec": {"pipeline": "p", "parameters": given}})
        await at_step(cluster, "r-a", phase="Running")
        other = {"spec": {"steps": [step("b")]}}
        await cluster.client.patch(PIPELINES, "p", other, namespace="default")
        await reaches(cluster, RUNS, "r", phase="Succeeded")
    [pod] = await listed(cluster, PODS)
    assert pod["spec"]["containers"][0]["args"] == ["2"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"pipeline": "nowhere"}, "PipelineNotFound"),
        ({"pipeline": "p", "parameters": [{"name": "x", "value": "1"}]}, "InvalidParameters"),
        ({"pipeline": "p"}, "InvalidParameters"),
    ],
)
async def test_a_run_that_cannot_begin_has_failed_and_says_why(
    cluster: VirtualCluster, spec: dict[str, Any], reason: str
) -> None:
    pipeline = {"parameters": [{"name": "n"}], "steps": [step("a")]}
    await cluster.client.create(PIPELINES, {"metadata": {"name": "p"}, "spec": pipeline}, namespace="default")
    async with controllers(cluster):
        await submit(cluster, {"metadata": {"name": "r"}, "spec": spec})
        await reaches(cluster, RUNS, "r", phase="Failed", reason=reason)
    assert await listed(cluster, STEP_RUNS) == []


async def test_a_failure_is_made_up_for_as_often_as_the_step_says(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    tries = Counter[str]()

    def ends(pod: Object) -> Ending:
        tries[meta.uid(pod)] += 1
        return Ending(code=0 if len(tries) == 3 else 1)

    kubelet.ends = ends
    async with controllers(cluster):
        await submit(cluster, run(step("a", retries={"limit": 2, "initialSeconds": 3})))
        await reaches(cluster, RUNS, "r", phase="Succeeded")
    [step_run] = await listed(cluster, STEP_RUNS)
    assert (step_run["status"]["attempts"], step_run["status"]["failures"]) == (3, 2)
    assert sorted(map(meta.name, await listed(cluster, PODS))) == ["r-a-0", "r-a-1", "r-a-2"]


async def test_without_retries_a_failure_fails_the_run_with_its_words(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = of_step("a", Ending(code=3))
    async with controllers(cluster):
        await submit(cluster, run(step("a"), step("b", "a")))
        failed = await reaches(cluster, RUNS, "r", phase="Failed", reason="StepFailed")
    assert failed["status"]["message"] == "a failed"
    [a] = await listed(cluster, STEP_RUNS)
    assert a["status"]["message"] == "container main ended with code 3"


async def test_what_is_lost_to_a_disruption_is_done_again_for_free(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: Ending(after_s=30)
    async with controllers(cluster):
        await submit(cluster, run(step("a")))
        await at_step(cluster, "r-a", phase="Running", attempts=1)
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        lost = {"status": {"phase": "Failed", "conditions": [target]}}
        await cluster.client.patch(
            PODS, "r-a-0", lost, type=PatchType.STRATEGIC, namespace="default", subresource="status"
        )
        await at_step(cluster, "r-a", phase="Running", attempts=2, disruptions=1)
        await cluster.client.delete(PODS, "r-a-1", namespace="default", grace_period_s=0)
        await at_step(cluster, "r-a", phase="Running", attempts=3, disruptions=2)
        await reaches(cluster, RUNS, "r", phase="Succeeded")


async def test_a_pod_that_vanishes_at_once_is_lost_to_a_disruption(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    async with controllers(cluster):
        await submit(cluster, run(step("a")))
        for number in range(7):
            name = f"r-a-{number}"
            await cluster.until(lambda name=name: cluster.exists(PODS, name, "default"))  # type: ignore[misc]
            await cluster.client.delete(PODS, name, namespace="default", grace_period_s=0)
        # over and over: the next one comes after a pause
        told = await at_step(cluster, "r-a", phase="Waiting", attempts=7, disruptions=7)
    assert told["status"]["reason"] == "Vanished"
    assert "failures" not in told["status"]


async def test_a_pod_that_cannot_be_created_is_reported_on_the_step(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    bad = {"name": "a", "template": {"spec": {"containers": [{"name": "Not A Name", "image": "app:1"}]}}}
    async with controllers(cluster):
        await submit(cluster, run(bad))
        await reaches(cluster, RUNS, "r", phase="Failed")
        step_run = await at_step(cluster, "r-a", phase="Failed", reason="InvalidTemplate")
    assert "spec.containers[0].name" in step_run["status"]["message"]


async def test_cancelling_leaves_nothing_running(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    kubelet.farewell_s = 2.0
    async with controllers(cluster):
        await submit(cluster, run(step("a"), step("b"), step("c", "a")))
        await at_step(cluster, "r-a", phase="Running")
        await cluster.client.patch(RUNS, "r", {"spec": {"cancel": True}}, namespace="default")
        await reaches(cluster, RUNS, "r", phase="Cancelled")
    assert await listed(cluster, PODS) == []
    assert await phases(cluster) == {"r-a": "Cancelled", "r-b": "Cancelled"}


async def test_a_try_that_was_begun_and_not_written_down_is_ended_by_a_cancelling(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = lambda _: None
    await begun_unwritten(cluster, "r-a")
    await cluster.client.patch(STEP_RUNS, "r-a", {"spec": {"cancel": True}}, namespace="default")
    async with controllers(cluster):
        await at_step(cluster, "r-a", phase="Cancelled")
    assert await listed(cluster, PODS) == []


async def begun_unwritten(cluster: VirtualCluster, name: str, **spec: Any) -> None:
    """A step run with a pod of which it does not know, as leaders leave it who die in between."""
    template = step("a")["template"]
    wanted = {"metadata": {"name": name}, "spec": {"run": "r", "step": "a", "template": template, **spec}}
    made = await cluster.client.create(STEP_RUNS, wanted, namespace="default")
    await cluster.client.create(PODS, objects.attempt(made, 0), namespace="default")


async def test_a_run_that_started_without_recording_it_holds_the_mutex(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = lambda _: None
    spec = {"run": "r", "step": "a", "template": step("a")["template"], "mutex": "db"}
    first = {"metadata": {"name": "q-a"}, "spec": spec}
    await cluster.client.create(STEP_RUNS, first, namespace="default")
    await cluster.clock.advance(2)  # so that it came first
    await begun_unwritten(cluster, "r-a", mutex="db")
    async with controllers(cluster):
        await cluster.clock.advance(5)
        assert [meta.name(one) for one in await listed(cluster, PODS)] == ["r-a-0"]


async def test_a_run_that_could_not_begin_can_be_tried_again(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    async with controllers(cluster):
        await submit(cluster, {"metadata": {"name": "r"}, "spec": {"pipeline": "p"}})
        await reaches(cluster, RUNS, "r", phase="Failed", reason="PipelineNotFound")
        pipeline = {"metadata": {"name": "p"}, "spec": {"steps": [step("a")]}}
        await cluster.client.create(PIPELINES, pipeline, namespace="default")
        await cluster.client.patch(RUNS, "r", {"spec": {"retry": 1}}, namespace="default")
        await reaches(cluster, RUNS, "r", phase="Succeeded", observedRetry=1)


async def test_a_step_that_cannot_become_a_step_run_is_reported_as_one(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    async with controllers(cluster):
        await submit(cluster, run(step("a", forEach={"items": [{"x": 1}]}, mutex="{{ item }}")))
        await reaches(cluster, RUNS, "r", phase="Failed")
        failed = await at_step(cluster, "r-a-0", phase="Failed", reason="InvalidTemplate")
    assert "mutex" in failed["status"]["message"]


async def test_a_step_whose_pods_name_is_taken_says_so_and_waits(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    other = {"metadata": {"name": "r-a-0"}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    await cluster.client.create(PODS, other, namespace="default")
    async with controllers(cluster):
        await submit(cluster, run(step("a")))
        told = await at_step(cluster, "r-a", phase="Waiting", reason="NameTaken")
        assert "r-a-0" in told["status"]["message"]
        await cluster.client.delete(PODS, "r-a-0", namespace="default", grace_period_s=0)
        await reaches(cluster, RUNS, "r", phase="Succeeded")


async def test_a_step_beyond_the_quota_waits_for_room(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    await cluster.client.create(("", "v1", "resourcequotas"), quota, namespace="default")
    async with controllers(cluster):
        await submit(cluster, run(step("a")))
        told = await at_step(cluster, "r-a", phase="Waiting", reason="QuotaExceeded")
        assert "exceeded quota: q" in told["status"]["message"]
        await cluster.client.delete(("", "v1", "resourcequotas"), "q", namespace="default")
        await reaches(cluster, RUNS, "r", phase="Succeeded")


async def test_a_run_that_is_deleted_leaves_nothing_running(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    async with controllers(cluster), garbage(cluster):
        await submit(cluster, run(step("a"), step("b", forEach={"items": [1, 2]})))
        await at_step(cluster, "r-b-1", phase="Running")
        await cluster.client.delete(RUNS, "r", namespace="default")

        async def nothing() -> bool:
            return not await listed(cluster, PODS) and not await listed(cluster, STEP_RUNS)

        await cluster.until(nothing)


async def test_a_retry_does_again_what_did_not_succeed_and_nothing_else(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = of_step("b", Ending(code=1))
    async with controllers(cluster), garbage(cluster):
        await submit(cluster, run(step("a"), step("b", "a"), step("c", "b"), failurePolicy="Continue"))
        await reaches(cluster, RUNS, "r", phase="Failed")
        first = {meta.name(one): meta.uid(one) for one in await listed(cluster, STEP_RUNS)}
        kubelet.ends = lambda _: Ending()
        await cluster.client.patch(RUNS, "r", {"spec": {"retry": 1}}, namespace="default")
        await reaches(cluster, RUNS, "r", phase="Succeeded", observedRetry=1)
    second = {meta.name(one): meta.uid(one) for one in await listed(cluster, STEP_RUNS)}
    assert first["r-a"] == second["r-a"]
    assert first["r-b"] != second["r-b"]


async def test_a_retry_does_again_what_came_after_a_failure_and_the_end(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = of_step("b", Ending(code=1))
    steps = (
        step("a"),
        step("b", "a"),
        step("mend", when='steps.b.status == "Failed"'),
        step("praise", when='steps.b.status == "Succeeded"'),
        step("other", "a"),
    )
    async with controllers(cluster), garbage(cluster):
        await submit(cluster, run(*steps, onExit=[step("tell")], failurePolicy="Continue"))
        await reaches(cluster, RUNS, "r", phase="Failed")
        first = {meta.name(one): meta.uid(one) for one in await listed(cluster, STEP_RUNS)}
        assert (await phases(cluster))["r-mend"] == "Succeeded"
        kubelet.ends = lambda _: Ending()
        await cluster.client.patch(RUNS, "r", {"spec": {"retry": 1}}, namespace="default")
        await reaches(cluster, RUNS, "r", phase="Succeeded", observedRetry=1)
    second = {meta.name(one): meta.uid(one) for one in await listed(cluster, STEP_RUNS)}
    assert {name for name in first if first[name] == second[name]} == {"r-a", "r-other"}
    found = await phases(cluster)
    assert (found["r-mend"], found["r-praise"], found["r-tell"]) == ("Skipped", "Succeeded", "Succeeded")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_leaders_that_die_during_a_retry_change_nothing(
    cluster: VirtualCluster, kubelet: Kubelet, seed: int
) -> None:
    rng = random.Random(seed)
    kubelet.ends = of_step("b", Ending(code=1))
    steps = (step("a"), step("b", "a"), step("mend", when='steps.b.status == "Failed"'))
    async with garbage(cluster):
        async with controllers(cluster):
            await submit(cluster, run(*steps, onExit=[step("tell")], failurePolicy="Continue"))
            await reaches(cluster, RUNS, "r", phase="Failed")
        ended = {meta.name(one): meta.uid(one) for one in await listed(cluster, STEP_RUNS)}
        kubelet.ends = lambda _: Ending()
        await cluster.client.patch(RUNS, "r", {"spec": {"retry": 1}}, namespace="default")
        for _ in range(15):
            async with controllers(cluster):
                await a_few_steps(rng)
        async with controllers(cluster):
            await reaches(cluster, RUNS, "r", phase="Succeeded", observedRetry=1)
    again = {meta.name(one): meta.uid(one) for one in await listed(cluster, STEP_RUNS)}
    assert {name for name in ended if ended[name] == again[name]} == {"r-a"}
    assert (await phases(cluster))["r-mend"] == "Skipped"


@contextlib.asynccontextmanager
async def garbage(cluster: VirtualCluster) -> AsyncIterator[None]:
    async with cluster.running(GarbageCollector(cluster.client, clock=cluster.clock, rng=cluster.rng).run):
        yield


async def test_of_steps_that_share_a_mutex_one_runs_at_a_time(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    most = 0

    async def look() -> bool:
        nonlocal most
        running = [one for one in await listed(cluster, PODS) if one["status"].get("phase") in {"Pending", "Running"}]
        most = max(most, len(running))
        found = [(one.get("status") or {}).get("phase") for one in await listed(cluster, RUNS)]
        return found == ["Succeeded", "Succeeded"]

    async with controllers(cluster):
        for name in ("r", "q"):
            await submit(cluster, run(step("a", forEach={"items": [1, 2]}, mutex="db"), name=name))
        await cluster.until(look)
    assert most == 1


async def test_a_run_that_waits_for_a_mutex_reports_it(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    kubelet.ends = lambda _: None
    async with controllers(cluster):
        await submit(cluster, run(step("a", forEach={"items": [1, 2]}, mutex="db")))
        await at_step(cluster, "r-a-0", phase="Running")
        told = await at_step(cluster, "r-a-1", phase="Waiting", reason="MutexTaken")
    assert told["status"]["message"] == "it waits for the mutex db, which another has"
    assert meta.labels(told)["rota.dev/item"] == "1"
    [pod] = await listed(cluster, PODS)
    assert meta.annotations(pod)["rota.dev/item"] == "0"
    assert meta.labels(pod) == {"rota.dev/pipeline-run": "r", "rota.dev/step": "a"}


async def test_the_same_work_is_not_done_twice_when_asked_not_to(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    async with controllers(cluster):
        await submit(cluster, run(step("a", cache=True, args=["x"])))
        await reaches(cluster, RUNS, "r", phase="Succeeded")
        await submit(cluster, run(step("a", cache=True, args=["x"]), name="again"))
        await reaches(cluster, RUNS, "again", phase="Succeeded")
        await submit(cluster, run(step("a", cache=True, args=["y"]), name="other"))
        await reaches(cluster, RUNS, "other", phase="Succeeded")
    assert await phases(cluster) == {"r-a": "Succeeded", "again-a": "Cached", "other-a": "Succeeded"}
    assert len(await listed(cluster, PODS, STEP_LABEL)) == 2


async def test_what_a_step_leaves_in_its_outputs_file_is_there_for_others(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    kubelet.ends = of_step("a", None)
    async with controllers(cluster):
        steps = (
            step("a", outputs=[{"name": "x"}, {"name": "y", "default": "z"}]),
            step("b", args=["{{ steps.a.outputs.x }}"]),
        )
        await submit(cluster, run(*steps))
        await at_step(cluster, "r-a", phase="Running", node="box")
        ended: dict[str, Any] = {"name": "main", "image": "app:1", "imageID": "", "ready": False, "restartCount": 0}
        ended["state"] = {"terminated": {"exitCode": 0, "message": "x=7\n"}, "running": None}
        left = {"status": {"phase": "Succeeded", "containerStatuses": [ended]}}
        await cluster.client.patch(
            PODS, "r-a-0", left, type=PatchType.STRATEGIC, namespace="default", subresource="status"
        )
        await reaches(cluster, RUNS, "r", phase="Succeeded")
    first, second = sorted(await listed(cluster, PODS), key=meta.name)
    assert first["spec"]["containers"][0]["env"] == [{"name": "ROTA_OUTPUTS", "value": "/dev/termination-log"}]
    assert second["spec"]["containers"][0]["args"] == ["7"]
    assert (await at_step(cluster, "r-a", phase="Succeeded"))["status"]["outputs"] == {"x": "7", "y": "z"}


async def test_an_output_that_is_missing_fails_the_step_by_its_name(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    async with controllers(cluster):
        await submit(cluster, run(step("a", outputs=[{"name": "x"}])))
        failed = await at_step(cluster, "r-a", phase="Failed", reason="OutputMissing")
    assert failed["status"]["message"].startswith("the step ended with code 0 and there is no output x")


async def test_a_shared_folder_keeps_steps_on_its_node(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    async with controllers(cluster):
        await submit(cluster, run(step("a"), step("b"), workspace={}))
        done = await reaches(cluster, RUNS, "r", phase="Succeeded")
    assert done["status"]["workspaceNode"] == "box"
    folders = {one["spec"]["volumes"][0]["hostPath"]["path"] for one in await listed(cluster, PODS)}
    assert folders == {f"/var/tmp/rota-workspace-{meta.uid(done)}/shared"}
    first, second = sorted(await listed(cluster, PODS), key=meta.name)
    assert meta.annotations(first)["rota.dev/workspace-of"] == "r"
    assert first["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] == "/workspace"
    required = second["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["box"]


async def test_until_a_shared_folder_is_placed_one_step_waits_and_nothing_spins(
    cluster: VirtualCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions = 0
    decide = engine.decide

    def counted(state: RunState, *, now: float) -> Decision:
        nonlocal decisions
        decisions += 1
        assert decisions < 50, "which ends what would not end by itself"
        return decide(state, now=now)

    monkeypatch.setattr(engine, "decide", counted)
    async with controllers(cluster):  # and nobody who places pods
        await submit(cluster, run(step("a", forEach={"items": list(range(2 * engine.MOST_AT_ONCE))}), workspace={}))
        await cluster.until(lambda: cluster.exists(PODS, "r-a-0-0", "default"))
        await cluster.clock.advance(5)
    assert len(await listed(cluster, STEP_RUNS)) == 1
    assert decisions < 10


async def test_a_step_near_others_comes_after_them_and_likes_their_nodes(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    async with controllers(cluster):
        await submit(cluster, run(step("a"), step("b", near=["a"])))
        await reaches(cluster, RUNS, "r", phase="Succeeded")
    pods = {meta.name(one): one for one in await listed(cluster, PODS)}
    assert "affinity" not in pods["r-a-0"]["spec"]
    [liked] = pods["r-b-0"]["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert liked["preference"]["matchExpressions"][0]["values"] == ["box"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_leaders_that_die_at_any_moment_change_nothing(
    cluster: VirtualCluster, kubelet: Kubelet, seed: int
) -> None:
    rng = random.Random(seed)
    steps = [step("a"), step("b", "a", forEach={"items": [1, 2, 3]}), step("c", "a"), step("d", "b", "c")]
    await submit(cluster, run(*steps))
    for _ in range(30):
        async with controllers(cluster, sharing=bool(seed % 2)):
            await a_few_steps(rng)
            await cluster.clock.advance(rng.choice([0, 0.5, 1]))
            await a_few_steps(rng)
    async with controllers(cluster):
        await reaches(cluster, RUNS, "r", phase="Succeeded")
    names = sorted(map(meta.name, await listed(cluster, PODS)))
    assert names == ["r-a-0", "r-b-0-0", "r-b-1-0", "r-b-2-0", "r-c-0", "r-d-0"]
