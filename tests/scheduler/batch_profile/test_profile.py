"""The batch profile of a live scheduler: groups start whole, beside ordinary pods, and say why they wait."""

import asyncio
import threading
from itertools import pairwise
from typing import Any

import pytest

from rota.api import errors
from rota.client import pods as pod_calls
from rota.client.verbs import Client, Object
from rota.kit import offload
from rota.scheduler.batch import binding_plans, passes
from rota.scheduler.batch.mirror import Mirror
from rota.scheduler.batch_profile.gang_binder import GangBinder
from rota.scheduler.batch_profile.kinds import POD_GROUPS
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.testing import batches
from rota.testing.batches import condition
from rota.testing.schedulers import EVENTS

PREEMPT = """
actions: "enqueue, allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
EAGER = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""


async def test_a_gang_that_fits_is_bound_whole_and_runs() -> None:
    async with batches.cluster() as cluster, cluster.batching():
        await cluster.add_node("n1")
        await cluster.add_node("n2")
        await cluster.add_gang("train", 6)
        await cluster.started("train")
        await cluster.run_pods("train")
        group = await cluster.phase("train", "Running")
        assert condition(group, "Scheduled")["status"] == "True"
        await cluster.clock.advance(2)
        assert (await cluster.group("train"))["status"]["running"] == 6


async def test_a_gang_that_does_not_fit_stays_whole_outside_and_says_why() -> None:
    async with batches.cluster() as cluster, cluster.batching(EAGER):
        await cluster.add_node("n1")
        await cluster.add_gang("first", 3)
        await cluster.started("first")
        await cluster.add_gang("second", 2)
        await cluster.phase("second", "Inqueue")
        await cluster.clock.advance(30)
        assert not await cluster.placed("second")
        waiting = await cluster.group("second")
        assert condition(waiting, "Unschedulable")["reason"] == "NotEnoughResources"
        assert "Insufficient cpu" in condition(waiting, "Unschedulable")["message"]
        await cluster.end_pods("first")
        await cluster.started("second")
        group = await cluster.group("second")
        assert condition(group, "Unschedulable")["status"] == "False"


async def test_ordinary_pods_and_gangs_share_one_accounting() -> None:
    async with batches.cluster() as cluster, cluster.batching(EAGER):
        await cluster.add_node("n1")
        await cluster.add_pod("web", cpu="2")
        await cluster.bound("web")
        await cluster.add_gang("train", 3)
        await cluster.phase("train", "Inqueue")
        await cluster.clock.advance(5)
        assert not await cluster.placed("train")
        await cluster.add_gang("small", 2)
        await cluster.started("small")
        await cluster.add_pod("late", cpu="1")
        refused = await cluster.refused("late")
        assert "Insufficient cpu" in refused["message"]


async def test_a_group_of_higher_priority_preempts_and_then_starts() -> None:
    async with batches.cluster() as cluster, cluster.batching(PREEMPT):
        await cluster.add_node("n1")
        await cluster.add_priority("low", 10)
        await cluster.add_priority("high", 1000)
        await cluster.add_gang("night", 4, least=1, priority="low", annotations={"volcano.sh/preemptable": "true"})
        await cluster.started("night")
        await cluster.run_pods("night")
        await cluster.add_gang("urgent", 2, priority="high")
        await cluster.started("urgent")
        assert len(await cluster.members("night")) == 2


async def test_nothing_is_decided_while_nothing_changes() -> None:
    async with batches.cluster() as cluster, cluster.batching() as scheduler:
        await cluster.add_node("n1")
        for number in range(20):
            await cluster.add_gang(f"large-{number}", 5)
        await cluster.clock.advance(20)
        assert scheduler.batch is not None
        metrics = scheduler.metrics.beside("batch", prefix="volcano_")
        before = metrics.value("e2e_scheduling_latency_milliseconds_count")
        assert before
        await cluster.clock.advance(200)
        assert metrics.value("e2e_scheduling_latency_milliseconds_count") == before


async def test_a_queue_shows_what_its_groups_have() -> None:
    async with batches.cluster() as cluster, cluster.batching():
        await cluster.add_node("n1")
        await cluster.add_gang("train", 3)
        await cluster.started("train")
        await cluster.clock.advance(60)
        queue = await cluster.client.get(("scheduling.volcano.sh", "v1beta1", "queues"), "default")
        assert queue["status"]["allocated"]["cpu"] == "3"


async def test_a_group_that_its_queue_does_not_let_in_says_what_is_missing() -> None:
    text = PREEMPT.replace("proportion", "capacity")
    async with batches.cluster() as cluster, cluster.batching(text):
        await cluster.add_node("n1")
        await cluster.add_queue("small", capability={"cpu": "2", "memory": "4Gi"})
        await cluster.add_gang("train", 3, queue="small")
        await cluster.phase("train", "Pending")
        await cluster.clock.advance(60)
        said = condition(await cluster.group("train"), "Unschedulable")
        hint = "could start if the limit of queue small were 3 cpu"
        assert said["message"].endswith(f"waits in queue small for 1 more cpu: 0 of 2 in use; {hint}")


async def test_a_pass_that_outlives_its_leader_binds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_decide, ended, decide = threading.Event(), threading.Event(), threading.Event(), passes.run

    def late(mirror: Mirror, *args: Any, **options: Any) -> passes.PassResult:
        if not mirror.pods:
            return decide(mirror, *args, **options)
        began.set()
        may_decide.wait(30)
        try:
            return decide(mirror, *args, **options)
        finally:
            ended.set()

    monkeypatch.setattr(offload, "INLINE_BYTES", 0)
    async with batches.cluster() as cluster:
        await cluster.add_node("n1")
        async with cluster.batching(EAGER):
            monkeypatch.setattr(passes, "run", late)
            await cluster.add_gang("train", 1)
            assert await asyncio.to_thread(began.wait, 30)
        may_decide.set()
        assert await asyncio.to_thread(ended.wait, 30)
        await cluster.clock.advance(5)
        assert not await cluster.placed("train")


async def test_a_status_that_is_always_refused_is_tried_ever_more_seldom_with_one_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[float] = []
    async with batches.cluster() as cluster, cluster.batching():
        patch = Client.patch

        async def refuse(client: Client, target: Any, name: str, *args: Any, **options: Any) -> Object:
            if target == POD_GROUPS:
                tries.append(cluster.clock.monotonic())
                raise errors.Forbidden("not you")
            return await patch(client, target, name, *args, **options)

        monkeypatch.setattr(Client, "patch", refuse)
        await cluster.add_node("n1")
        await cluster.add_gang("train", 2)
        await cluster.clock.advance(200)
        assert 3 < len(tries) < 30
        assert tries[-1] - tries[-2] > 20
        events = (await cluster.client.list(EVENTS, namespace="default")).items
        told = [one for one in events if one["reason"] == "StatusNotWritten"]
        assert [(one["involvedObject"]["name"], one.get("count", 1)) for one in told] == [("train", 1)]


async def test_a_group_that_loses_its_node_waits_before_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[float] = []
    async with batches.cluster() as cluster, cluster.batching():

        def full(*_: Any) -> str:
            if len(lost) == 4:
                return ""
            lost.append(cluster.clock.monotonic())
            return "cpu"

        monkeypatch.setattr(SchedulerCache, "insufficient", full)
        await cluster.add_node("n1")
        await cluster.add_gang("train", 2)
        await cluster.started("train")
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(lost))
    assert len(lost) == 4


async def test_a_victim_is_not_deleted_when_the_server_only_has_too_much_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    evict, delete = pod_calls.evict, Client.delete
    refused: list[str] = []
    deleted: list[str] = []

    async def busy(client: Client, pod: str, **options: Any) -> None:
        if len(refused) < 2:
            refused.append(pod)
            raise errors.TooManyRequests("too many requests")
        await evict(client, pod, **options)

    async def counted(client: Client, target: Any, name: str, **options: Any) -> Object:
        if options.get("uid"):
            deleted.append(name)
        return await delete(client, target, name, **options)

    monkeypatch.setattr(pod_calls, "evict", busy)
    monkeypatch.setattr(Client, "delete", counted)
    async with batches.cluster() as cluster, cluster.batching(PREEMPT):
        await cluster.add_node("n1")
        await cluster.add_priority("low", 10)
        await cluster.add_priority("high", 1000)
        await cluster.add_gang("night", 4, least=1, priority="low", annotations={"volcano.sh/preemptable": "true"})
        await cluster.started("night")
        await cluster.run_pods("night")
        await cluster.add_gang("urgent", 2, priority="high")
        await cluster.started("urgent")
    assert (len(refused), deleted) == (2, [])


async def test_the_plan_of_a_group_is_removed_from_that_group_before_the_watch_shows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    removed: list[str] = []

    async def remove(_: GangBinder, namespace: str, name: str, uid: str) -> None:
        removed.append(uid)

    monkeypatch.setattr(GangBinder, "remove_plan", remove)
    monkeypatch.setattr(GangBinder, "_atomic", lambda *_: False)
    monkeypatch.setattr(binding_plans, "is_planned", lambda _: False)
    async with batches.cluster() as cluster, cluster.batching():
        await cluster.add_node("n1")
        await cluster.add_gang("train", 2)
        await cluster.started("train")
        await cluster.clock.advance(1)
        assert removed == [(await cluster.group("train"))["metadata"]["uid"]]
