"""Jobs that are over go when their time has come."""

from collections.abc import AsyncIterator

import pytest

from rota.api import times
from rota.client.verbs import Object
from rota.controllers.ttl_after_finished import JOBS, TtlAfterFinished, expires_at
from rota.testing import manifests
from rota.testing.virtual_api import VirtualCluster


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:ttl-after-finished")
    async with cluster.running(TtlAfterFinished(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


async def _create(cluster: VirtualCluster, patience: int | None) -> None:
    job = manifests.job("work")
    if patience is not None:
        job["spec"]["ttlSecondsAfterFinished"] = patience
    await cluster.client.create(JOBS, job, namespace="default")


async def _end(cluster: VirtualCluster, kind: str) -> None:
    stamp = times.format_time(cluster.clock.now())
    early = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    conditions = [{"type": one, "status": "True", "lastTransitionTime": stamp} for one in (early, kind)]
    status: Object = {"conditions": conditions, "startTime": stamp}
    if kind == "Complete":
        status["completionTime"] = stamp
    await cluster.client.patch(JOBS, "work", {"status": status}, namespace="default", subresource="status")


async def _is_going(cluster: VirtualCluster) -> bool:
    found = (await cluster.client.list(JOBS, namespace="default")).items
    return not found or "deletionTimestamp" in found[0]["metadata"]


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
async def test_a_job_goes_when_it_has_been_over_for_long_enough(cluster: VirtualCluster, kind: str) -> None:
    await _create(cluster, 100)
    await cluster.clock.advance(200)
    assert not await _is_going(cluster)
    await _end(cluster, kind)
    await cluster.clock.advance(95)
    assert not await _is_going(cluster)
    await cluster.clock.advance(10)
    assert await _is_going(cluster)


async def test_a_job_without_such_a_time_stays(cluster: VirtualCluster) -> None:
    await _create(cluster, None)
    await _end(cluster, "Complete")
    await cluster.clock.advance(1000)
    assert not await _is_going(cluster)


async def test_a_longer_time_counts_though_it_was_given_late(cluster: VirtualCluster) -> None:
    await _create(cluster, 100)
    await _end(cluster, "Complete")
    await cluster.clock.advance(90)
    await cluster.client.patch(JOBS, "work", {"spec": {"ttlSecondsAfterFinished": 500}}, namespace="default")
    await cluster.clock.advance(100)
    assert not await _is_going(cluster)
    await cluster.clock.advance(400)
    assert await _is_going(cluster)


def test_a_job_that_is_being_deleted_has_no_time_left_to_wait_for() -> None:
    over = {"type": "Complete", "status": "True", "lastTransitionTime": times.format_time(100)}
    job: Object = {"metadata": {}, "spec": {"ttlSecondsAfterFinished": 5}, "status": {"conditions": [over]}}
    assert expires_at(job) == 105
    assert expires_at({**job, "metadata": {"deletionTimestamp": times.format_time(100)}}) is None
