"""CronJobs make a Job for every time of their schedules, once."""

import contextlib
import datetime as dt
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.workloads import a_few_steps, listed, reasons

from rota.api import cron, meta, times
from rota.client.verbs import Object, Propagation
from rota.controllers.cron_jobs import runs
from rota.controllers.cron_jobs.controller import CRON_JOBS, JOBS, CronJobController
from rota.testing import manifests
from rota.testing.virtual_api import VirtualCluster


@contextlib.asynccontextmanager
async def running(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:cron-jobs")
    async with cluster.running(CronJobController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


def cron_job(schedule: str = "* * * * *", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"made": "so"}}, "spec": manifests.job("x")["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


async def jobs(cluster: VirtualCluster) -> list[str]:
    """The names of all Jobs, by the minute."""
    return sorted(meta.name(one) for one in await listed(cluster, JOBS))


async def state(cluster: VirtualCluster) -> Object:
    return (await cluster.client.get(CRON_JOBS, "tick", namespace="default")).get("status") or {}


async def end(cluster: VirtualCluster, name: str, kind: str = "Complete") -> None:
    """Let a Job be over."""
    stamp = times.format_time(cluster.clock.now())
    early = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    conditions = [{"type": one, "status": "True", "lastTransitionTime": stamp} for one in (early, kind)]
    status: Object = {"conditions": conditions, "startTime": stamp}
    if kind == "Complete":
        status["completionTime"] = stamp
    await cluster.client.patch(JOBS, name, {"status": status}, namespace="default", subresource="status")
    await cluster.clock.advance(1)


def minute(cluster: VirtualCluster) -> int:
    return int(cluster.clock.now() // 60)


async def test_a_job_is_made_for_every_time(cluster: VirtualCluster) -> None:
    async with running(cluster):
        await cluster.client.create(CRON_JOBS, cron_job())
        first = minute(cluster) + 1
        await cluster.clock.advance(125)
    assert await jobs(cluster) == [f"tick-{first}", f"tick-{first + 1}"]
    made = await cluster.client.get(JOBS, f"tick-{first}", namespace="default")
    assert meta.annotations(made)[runs.SCHEDULED_AT] == times.format_time(first * 60)
    assert meta.labels(made)["made"] == "so"
    owner = meta.controller_of(made)
    assert owner is not None
    assert (owner["kind"], owner["name"]) == ("CronJob", "tick")
    status = await state(cluster)
    assert [one["name"] for one in status["active"]] == [f"tick-{first}", f"tick-{first + 1}"]
    assert status["lastScheduleTime"] == times.format_time((first + 1) * 60)


async def test_a_job_that_has_ended_is_no_longer_active(cluster: VirtualCluster) -> None:
    async with running(cluster):
        await cluster.client.create(CRON_JOBS, cron_job())
        await cluster.clock.advance(62)
        (name,) = await jobs(cluster)
        await end(cluster, name)
        status = await state(cluster)
        assert "active" not in status
        assert status["lastSuccessfulTime"] == times.format_time(cluster.clock.now() - 1)
        assert await reasons(cluster, "tick") == {"SuccessfulCreate": 1, "SawCompletedJob": 1}


async def test_while_one_runs_another_waits_its_turn_if_that_is_asked_for(cluster: VirtualCluster) -> None:
    async with running(cluster):
        await cluster.client.create(CRON_JOBS, cron_job(concurrencyPolicy="Forbid"))
        await cluster.clock.advance(200)
        (name,) = await jobs(cluster)
        await end(cluster, name)
        late = f"tick-{minute(cluster)}"
        assert await jobs(cluster) == [name, late]
        assert "JobAlreadyActive" in await reasons(cluster, "tick")


async def test_the_next_takes_the_place_of_the_last_if_that_is_asked_for(cluster: VirtualCluster) -> None:
    async with running(cluster):
        await cluster.client.create(CRON_JOBS, cron_job(concurrencyPolicy="Replace"))
        await cluster.clock.advance(190)
        assert await jobs(cluster) == [f"tick-{minute(cluster)}"]
        assert [one["name"] for one in (await state(cluster))["active"]] == [f"tick-{minute(cluster)}"]


async def test_a_suspended_cron_job_makes_nothing_and_makes_up_for_the_last_time_only(
    cluster: VirtualCluster,
) -> None:
    async with running(cluster):
        await cluster.client.create(CRON_JOBS, cron_job(suspend=True))
        await cluster.clock.advance(300)
        assert await jobs(cluster) == []
        await cluster.client.patch(CRON_JOBS, "tick", {"spec": {"suspend": False}}, namespace="default")
        await cluster.clock.advance(1)
        assert await jobs(cluster) == [f"tick-{minute(cluster)}"]


async def test_what_is_too_late_is_left_out(cluster: VirtualCluster) -> None:
    await cluster.client.create(CRON_JOBS, cron_job("0 * * * *", startingDeadlineSeconds=100))
    hour = (int(cluster.clock.now()) // 3600 + 1) * 3600
    cluster.clock.step_wall(hour + 101 - cluster.clock.now())
    async with running(cluster):
        await cluster.clock.advance(5)
        assert await jobs(cluster) == []
    cluster.clock.step_wall(3500)
    async with running(cluster):
        await cluster.clock.advance(5)
        assert await jobs(cluster) == [f"tick-{hour // 60 + 60}"]


async def test_many_missed_times_give_a_warning_and_one_job(cluster: VirtualCluster) -> None:
    await cluster.client.create(CRON_JOBS, cron_job())
    cluster.clock.step_wall(3 * 86400)
    async with running(cluster):
        await cluster.clock.advance(3)
    assert await jobs(cluster) == [f"tick-{minute(cluster)}"]
    assert (await reasons(cluster, "tick"))["TooManyMissedTimes"] == 1


async def test_only_so_many_jobs_that_have_ended_are_kept(cluster: VirtualCluster) -> None:
    async with running(cluster):
        await cluster.client.create(CRON_JOBS, cron_job(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1))
        begun: list[str] = []
        for number in range(6):
            await cluster.clock.advance(60)
            name = f"tick-{minute(cluster)}"
            begun.append(name)
            await end(cluster, name, "Complete" if number % 2 else "Failed")
        await cluster.clock.advance(1)
    assert await jobs(cluster) == [begun[3], begun[4], begun[5]]


async def test_a_schedule_follows_the_clocks_of_its_place(cluster: VirtualCluster) -> None:
    place = cron_job("30 9 * * *", timeZone="America/New_York")
    await cluster.client.create(CRON_JOBS, place)
    cluster.clock.step_wall(86400)
    async with running(cluster):
        await cluster.clock.advance(2)
    (made,) = await listed(cluster, JOBS)
    stamp = dt.datetime.fromisoformat(meta.annotations(made)[runs.SCHEDULED_AT])
    assert (stamp.hour, stamp.minute, stamp.utcoffset()) == (9, 30, dt.timedelta(hours=-5))
    assert meta.name(made) == f"tick-{int(stamp.timestamp()) // 60}"


async def test_a_job_made_by_hand_is_no_run(cluster: VirtualCluster) -> None:
    made = await cluster.client.create(CRON_JOBS, cron_job("0 0 1 1 *"))
    by_hand = manifests.job("by-hand")
    by_hand["metadata"] |= {
        "namespace": "default",
        "ownerReferences": [meta.controller_reference({**made, "apiVersion": "batch/v1", "kind": "CronJob"})],
    }
    await cluster.client.create(JOBS, by_hand)
    async with running(cluster):
        await cluster.clock.advance(2)
    assert "active" not in await state(cluster)
    assert "UnexpectedJob" in await reasons(cluster, "tick")


async def test_a_job_that_went_missing_is_forgotten(cluster: VirtualCluster) -> None:
    async with running(cluster):
        await cluster.client.create(CRON_JOBS, cron_job())
        await cluster.clock.advance(62)
        (name,) = await jobs(cluster)
        await cluster.client.delete(JOBS, name, namespace="default", propagation=Propagation.BACKGROUND)
        await cluster.clock.advance(1)
        assert "active" not in await state(cluster)
        assert await jobs(cluster) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1))
async def test_whenever_the_controller_dies_every_run_is_made_once(cluster: VirtualCluster, seed: int) -> None:
    rng, seen = random.Random(seed), dict[str, float | None]()
    await cluster.client.create(CRON_JOBS, cron_job(concurrencyPolicy="Forbid", successfulJobsHistoryLimit=0))
    for _ in range(60):
        async with running(cluster):
            await a_few_steps(rng)
        await cluster.clock.advance(rng.choice([1, 5, 20]))
        there = await listed(cluster, JOBS)
        assert sum(not runs.end_of(one) for one in there) <= 1
        for one in there:
            if meta.uid(one) not in seen:
                seen[meta.uid(one)] = runs.scheduled_at(one)
            elif not runs.end_of(one) and rng.random() < 0.5:
                await end(cluster, meta.name(one))
    async with running(cluster):
        await cluster.clock.advance(2)
        status = await state(cluster)
    assert len(seen) > 3
    # No time has two Jobs, though the first is deleted as soon as it has ended.
    assert len(set(seen.values())) == len(seen)
    assert status["lastScheduleTime"] >= times.format_time(max(at for at in seen.values() if at is not None))


@given(
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 3 * * *", "30 6-16/4 * * 1-5", "0 0 1 * *", "@every 90s"]),
    st.integers(0, 10**6),
    st.integers(0, 3 * 10**5),
)
def test_the_run_that_is_due_is_the_last_one_not_after_now(schedule: str, start: int, passed: int) -> None:
    parsed = cron.parse(schedule)
    made = {
        "metadata": {"creationTimestamp": times.format_time(1_700_000_000 + start)},
        "spec": {"schedule": schedule},
    }
    now = 1_700_000_000.0 + start + passed
    expected, at, count = None, parsed.after(1_700_000_000 + start, dt.UTC), 0
    while at is not None and at <= now:
        expected, at, count = at, parsed.after(at, dt.UTC), count + 1
    found = runs.due(made, parsed, dt.UTC, now=now)
    assert (None if found is None else found.at) == expected
    assert (found is not None and found.many) == (count > runs.MANY)
    again = runs.next_in_s(made, parsed, dt.UTC, now=now)
    assert at is not None
    assert again == pytest.approx(at - now + 0.1)
