"""The rebalancer on a real API server: what it sees, what it evicts, and what keeps it from that."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rota.client import client_factory
from rota.client.transports.transport import Unreachable
from rota.kit import system
from rota.kit.errors import UserError
from rota.scheduler.plugin_registry import configuration_source
from rota.scheduler.rebalancing import cluster_view
from rota.scheduler.rebalancing.rebalance_plan import Plan, PodFacts, Settings
from rota.scheduler.rebalancing.rebalancer import Outcome, Rebalancer
from rota.testing import manifests
from rota.testing.api import ApiServer
from rota.testing.schedulers import configured

PODS = "/api/v1/namespaces/default/pods"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": True}
TAINT = {"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        for name in ("a", "b"):
            await running.post("/api/v1/nodes", manifests.node(name))
        for number in range(3):
            pod = manifests.pod(f"p{number}", on="a", labels={"app": "web"})
            pod["metadata"]["ownerReferences"] = [OWNER]
            await running.post(PODS, pod)
            status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
            await running.patch(f"{PODS}/p{number}/status", {"status": status})
        await running.patch("/api/v1/nodes/a", TAINT)
        yield running


@asynccontextmanager
async def rebalancing(api: ApiServer) -> AsyncIterator[Rebalancer]:
    clock, rng = system.SystemClock(), random.Random(0)
    async with client_factory.to_application(api.app, clock=clock, rng=rng) as client:
        yield Rebalancer(client, configuration_source.frameworks(configured()), clock=clock, rng=rng)


async def carried_out(rebalancer: Rebalancer, plan: Plan) -> list[Outcome]:
    return [one async for one in rebalancer.carry_out(plan.moves)]


async def terminating(api: ApiServer) -> set[str]:
    listed = (await api.get(PODS)).json["items"]
    return {one["metadata"]["name"] for one in listed if "deletionTimestamp" in one["metadata"]}


async def test_a_plan_changes_nothing_and_carrying_it_out_evicts(api: ApiServer) -> None:
    async with rebalancing(api) as rebalancer:
        plan = await rebalancer.plan(Settings())
        assert {move.name: move.target for move in plan.moves} == {"p0": "b", "p1": "b", "p2": "b"}
        assert not await terminating(api)
        outcomes = await carried_out(rebalancer, plan)
        assert not any(one.refusal for one in outcomes)
        assert await terminating(api) == {"p0", "p1", "p2"}


async def test_no_more_move_than_an_hour_allows(api: ApiServer) -> None:
    async with rebalancing(api) as rebalancer:
        assert len((await rebalancer.plan(Settings(most_per_hour=2))).moves) == 2
        assert len((await rebalancer.plan(Settings(most_per_hour=4), moved=3)).moves) == 1
        assert not (await rebalancer.plan(Settings(most_per_hour=4), moved=5)).moves


async def test_a_namesake_that_came_meanwhile_is_left_alone(api: ApiServer) -> None:
    async with rebalancing(api) as rebalancer:
        plan = await rebalancer.plan(Settings())
        await api.delete(f"{PODS}/p0?gracePeriodSeconds=0")
        await api.post(PODS, manifests.pod("p0", on="b"))
        outcomes = {one.move.name: one.refusal for one in await carried_out(rebalancer, plan)}
        assert "precondition" in outcomes["p0"].lower()
        assert await terminating(api) == {"p1", "p2"}


async def test_a_plan_by_usage_without_usage_metrics_is_refused(api: ApiServer) -> None:
    async with rebalancing(api) as rebalancer:
        with pytest.raises(UserError, match="no usage metrics"):
            await rebalancer.plan(Settings(by_usage=True))


async def test_a_server_that_does_not_answer_keeps_a_pod_where_it_is(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: object, **__: object) -> None:
        raise Unreachable("nobody there")

    async with rebalancing(api) as rebalancer:
        plan = await rebalancer.plan(Settings())
        monkeypatch.setattr("rota.client.pods.evict", gone)
        outcomes = await carried_out(rebalancer, plan)
    assert {one.refusal for one in outcomes} == {"the server could not be asked: nobody there"}
    assert not await terminating(api)


@pytest.mark.parametrize(
    ("annotation", "objects"),
    [
        ({"rota.dev/rebalance": "never"}, True),
        ({"karpenter.sh/do-not-disrupt": "true"}, True),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, True),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}, False),
        ({}, False),
    ],
)
def test_annotations_that_others_know_are_heeded(annotation: dict[str, str], *, objects: bool) -> None:
    pod = manifests.pod("p")
    pod["metadata"]["annotations"] = annotation
    assert bool(cluster_view.facts(pod, now=0).objection) is objects


def test_what_moving_depends_on_is_read_from_the_pod() -> None:
    pod = manifests.pod("p", volumes=[{"name": "v", "emptyDir": {}}])
    pod["metadata"]["ownerReferences"] = [OWNER]
    waiting = {"name": "main", "restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    pod["status"] = {"phase": "Running", "startTime": "1970-01-01T00:01:00Z", "containerStatuses": [waiting]}
    assert cluster_view.facts(pod, now=100) == PodFacts(
        owner_kind="ReplicaSet", age_s=40, restarts=7, crashing=True, local_storage=True
    )


@pytest.mark.parametrize(
    ("kind", "policy", "ends"),
    [
        ("ReplicaSet", "Always", False),
        ("Job", "OnFailure", True),
        ("StepRun", "Never", True),
        ("Workflow", "Never", True),
        ("Job", "Always", True),
    ],
)
def test_a_pod_whose_work_has_an_end_is_known(kind: str, policy: str, *, ends: bool) -> None:
    pod = manifests.pod("p", restartPolicy=policy)
    pod["metadata"]["ownerReferences"] = [{**OWNER, "kind": kind}]
    assert cluster_view.facts(pod, now=0).ends is ends
