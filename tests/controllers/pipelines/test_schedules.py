"""Pipelines that run by themselves, and what is kept of their runs."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.workloads import listed, reaches

from rota.api import meta
from rota.client.verbs import Object
from rota.controllers.pipelines.objects import PIPELINES, RUNS
from rota.controllers.pipelines.schedules import PipelineController
from rota.testing.virtual_api import VirtualCluster


@contextlib.asynccontextmanager
async def keeping(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:pipelines")
    async with cluster.running(PipelineController(client, clock=cluster.clock, chance=cluster.chance).run):
        yield


async def create(cluster: VirtualCluster, **spec: Any) -> None:
    step = {"name": "a", "template": {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}}
    whole = {"metadata": {"name": "p"}, "spec": {"steps": [step], **spec}}
    await cluster.client.create(PIPELINES, whole, namespace="default")


async def runs(cluster: VirtualCluster) -> list[Object]:
    return sorted(await listed(cluster, RUNS), key=meta.name)


async def finish(cluster: VirtualCluster, name: str) -> None:
    at = {"finishedAt": "2026-01-01T00:00:00Z"}
    status = {"status": {"phase": "Succeeded", **at}}
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


async def _are(cluster: VirtualCluster, names: list[str]) -> bool:
    return [meta.name(one) for one in await runs(cluster)] == names
