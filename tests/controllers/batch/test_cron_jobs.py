"""CronJobs of batch.volcano.sh make Jobs of the same group."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.batch.batch_objects import job, task
from tests.controllers.workloads import listed

from rota.api import meta
from rota.api.batch import kinds
from rota.controllers.batch.cron_jobs import BatchCronJobController
from rota.testing.virtual_api import VirtualCluster


@pytest.fixture(autouse=True)
async def _controller(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:batch-cron-jobs")
    async with cluster.running(BatchCronJobController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


async def create(cluster: VirtualCluster, **spec: Any) -> None:
    template = {"metadata": {"labels": {"made": "so"}}, "spec": job(task())["spec"]}
    made = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": template, **spec},
    }
    await cluster.client.create(kinds.CRON_JOBS, made)


async def jobs(cluster: VirtualCluster) -> list[str]:
    return sorted(meta.name(one) for one in await listed(cluster, kinds.JOBS) if not meta.is_deleting(one))


async def end(cluster: VirtualCluster, name: str, phase: str) -> None:
    state = {"state": {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:00Z"}}
    await cluster.client.patch(kinds.JOBS, name, {"status": state}, namespace="default", subresource="status")
    await cluster.clock.advance(1)


async def test_a_job_is_made_each_minute_and_no_second_one_while_it_runs(cluster: VirtualCluster) -> None:
    await create(cluster, concurrencyPolicy="Forbid")
    await cluster.clock.advance(61)
    (first,) = await jobs(cluster)
    await cluster.clock.advance(60)
    assert await jobs(cluster) == [first]
    status = (await cluster.client.get(kinds.CRON_JOBS, "tick", namespace="default"))["status"]
    assert [one["name"] for one in status["active"]] == [first]
    assert status["active"][0]["apiVersion"] == "batch.volcano.sh/v1alpha1"
    await end(cluster, first, "Completed")
    await cluster.clock.advance(60)
    assert len(await jobs(cluster)) == 2


async def test_a_running_job_is_replaced(cluster: VirtualCluster) -> None:
    await create(cluster, concurrencyPolicy="Replace")
    await cluster.clock.advance(61)
    (first,) = await jobs(cluster)
    await cluster.clock.advance(60)
    (second,) = await jobs(cluster)
    assert first != second


async def test_old_jobs_go(cluster: VirtualCluster) -> None:
    await create(cluster, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    for phase in ("Completed", "Failed", "Completed"):
        await cluster.clock.advance(61)
        await end(cluster, (await jobs(cluster))[-1], phase)
    assert len(await jobs(cluster)) == 1


async def test_a_suspended_cron_job_makes_nothing(cluster: VirtualCluster) -> None:
    await create(cluster, suspend=True)
    await cluster.clock.advance(130)
    assert await jobs(cluster) == []
