"""Pipelines that run by themselves, and what is kept of their runs."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.workloads import listed, reaches

from rota.api import meta, times
from rota.client.verbs import Object
from rota.controllers.pipelines.objects import PIPELINES, RUNS
from rota.controllers.pipelines.schedules import KEPT_S, PipelineController
from rota.testing.virtual_api import VirtualCluster


@contextlib.asynccontextmanager
async def keeping(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:pipelines")
    async with cluster.running(PipelineController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


async def create(cluster: VirtualCluster, **spec: Any) -> None:
    step = {"name": "a", "template": {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}}
    whole = {"metadata": {"name": "p"}, "spec": {"steps": [step], **spec}}
    await cluster.client.create(PIPELINES, whole, namespace="default")


async def runs(cluster: VirtualCluster) -> list[Object]:
    return sorted(await listed(cluster, RUNS), key=meta.name)


async def finish(cluster: VirtualCluster, name: str, *, at: float = 1_700_000_000.0) -> None:
    status = {"status": {"phase": "Succeeded", "finishedAt": times.format_time(at)}}
    await cluster.client.patch(RUNS, name, status, namespace="default", subresource="status")


async def test_a_run_begins_at_every_time_that_the_schedule_names(cluster: VirtualCluster) -> None:
    schedule = {"cron": "* * * * *", "parameters": [{"name": "n", "value": "7"}]}
    await create(cluster, schedule=schedule, parameters=[{"name": "n"}])
    async with keeping(cluster):
        for count in (1, 2, 3):
            await cluster.until(lambda count=count: _has(cluster, count))  # type: ignore[misc]
    made = await runs(cluster)
    assert [one["spec"] for one in made] == [{"pipeline": "p", "parameters": schedule["parameters"]}] * 3
    assert len({meta.name(one) for one in made}) == 3
    pipeline = await cluster.client.get(PIPELINES, "p", namespace="default")
    assert pipeline["status"]["lastRun"] == meta.name(made[-1])
    assert len(pipeline["status"]["active"]) == 3


async def _has(cluster: VirtualCluster, count: int) -> bool:
    return len(await runs(cluster)) >= count


@pytest.mark.parametrize(("policy", "cancelled"), [("Forbid", [None]), ("Replace", [True, None])])
async def test_a_run_that_still_goes_on_is_left_or_replaced(
    cluster: VirtualCluster, policy: str, cancelled: list[bool | None]
) -> None:
    await create(cluster, schedule={"cron": "* * * * *", "concurrencyPolicy": policy})
    async with keeping(cluster):
        await cluster.until(lambda: _has(cluster, 1))
        await cluster.clock.advance(61)
        await cluster.until(lambda: _has(cluster, len(cancelled)))
        found = await runs(cluster)
    assert [one["spec"].get("cancel") for one in found][: len(cancelled)] == cancelled


async def test_while_suspended_nothing_begins(cluster: VirtualCluster) -> None:
    await create(cluster, schedule={"cron": "* * * * *", "suspend": True})
    async with keeping(cluster):
        await cluster.clock.advance(300)
    assert await runs(cluster) == []


async def test_no_more_finished_runs_are_kept_than_the_pipeline_says(cluster: VirtualCluster) -> None:
    await create(cluster, historyLimit=2)
    for number in range(5):
        run = {"metadata": {"name": f"r{number}"}, "spec": {"pipeline": "p"}}
        await cluster.client.create(RUNS, run, namespace="default")
        if number < 4:
            await finish(cluster, f"r{number}")
    async with keeping(cluster):
        await reaches(cluster, PIPELINES, "p", active=["r4"])
        await cluster.until(lambda: _are(cluster, ["r2", "r3", "r4"]))


OWN = {"steps": [{"name": "a", "template": {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}}]}


@pytest.mark.parametrize(
    ("spec", "kept_s"),
    [
        ({"pipelineSpec": OWN, "ttlSecondsAfterFinished": 600}, 600),
        ({"pipelineSpec": OWN, "ttlSecondsAfterFinished": 0}, 0),
        ({"pipelineSpec": OWN}, KEPT_S),
        ({"pipeline": "gone"}, KEPT_S),
        ({"pipeline": "p", "ttlSecondsAfterFinished": 600}, 600),
        ({"pipeline": "p"}, None),
    ],
)
async def test_a_run_is_removed_after_its_own_or_the_default_time(
    cluster: VirtualCluster, spec: dict[str, Any], kept_s: float | None
) -> None:
    await create(cluster)
    await cluster.client.create(RUNS, {"metadata": {"name": "r"}, "spec": spec}, namespace="default")
    now = cluster.clock.now()
    await finish(cluster, "r", at=now - (KEPT_S * 2 if kept_s is None else kept_s - 20))
    async with keeping(cluster):
        await cluster.clock.advance(15)
        assert await _are(cluster, ["r"])
        await cluster.clock.advance(6)
        await cluster.until(lambda: _are(cluster, ["r"] if kept_s is None else []))


async def test_a_run_that_goes_on_is_kept(cluster: VirtualCluster) -> None:
    spec = {"pipelineSpec": OWN, "ttlSecondsAfterFinished": 1}
    await cluster.client.create(RUNS, {"metadata": {"name": "r"}, "spec": spec}, namespace="default")
    async with keeping(cluster):
        await cluster.clock.advance(10)
        assert await _are(cluster, ["r"])


async def test_a_run_can_be_kept_for_longer(cluster: VirtualCluster) -> None:
    spec = {"pipelineSpec": OWN, "ttlSecondsAfterFinished": 100}
    await cluster.client.create(RUNS, {"metadata": {"name": "r"}, "spec": spec}, namespace="default")
    await finish(cluster, "r", at=cluster.clock.now())
    async with keeping(cluster):
        await cluster.clock.advance(50)
        longer = {"spec": {"ttlSecondsAfterFinished": 1000}}
        await cluster.client.patch(RUNS, "r", longer, namespace="default")
        await cluster.clock.advance(100)
        assert await _are(cluster, ["r"])
        await cluster.clock.advance(1000)
        await cluster.until(lambda: _are(cluster, []))


async def test_the_runs_of_a_pipeline_that_is_deleted_are_kept_for_the_usual_time(cluster: VirtualCluster) -> None:
    await create(cluster)
    await cluster.client.create(RUNS, {"metadata": {"name": "r"}, "spec": {"pipeline": "p"}}, namespace="default")
    await finish(cluster, "r", at=cluster.clock.now() - KEPT_S + 30)
    async with keeping(cluster):
        await cluster.clock.advance(5)
        await cluster.client.delete(PIPELINES, "p", namespace="default")
        await cluster.clock.advance(20)
        assert await _are(cluster, ["r"])
        await cluster.clock.advance(10)
        await cluster.until(lambda: _are(cluster, []))


async def _are(cluster: VirtualCluster, names: list[str]) -> bool:
    return [meta.name(one) for one in await runs(cluster)] == names
