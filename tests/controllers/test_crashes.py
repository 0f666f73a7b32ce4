"""Controllers that die at each of their writes: just before it, or just after it without its answer.

Whoever takes over brings the work to the same end. A controller dies once for each write and each of the two ways, so
that nothing is left to chance.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.controllers import test_cron_jobs, test_daemon_sets, test_deployments, test_jobs, test_stateful_sets
from tests.controllers.workloads import PODS, Ending, Kubelet, listed, reaches

from rota.api import meta
from rota.client.verbs import Client
from rota.controllers import pod_states
from rota.controllers.cron_jobs.controller import CRON_JOBS, CronJobController
from rota.controllers.daemon_sets.controller import DaemonSetController
from rota.controllers.deployments import sizes
from rota.controllers.deployments.controller import DEPLOYMENTS, REPLICA_SETS, DeploymentController
from rota.controllers.jobs.controller import JOBS, JobController
from rota.controllers.jobs.job_accounting import index_of
from rota.controllers.replica_sets import ReplicaSetController
from rota.controllers.revision_history import REVISIONS
from rota.controllers.stateful_sets.controller import VOLUME_CLAIMS, StatefulSetController
from rota.testing import virtual_api
from rota.testing.virtual_api import VirtualCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

Make = Callable[..., Any]
#: More writes than any of these needs; a run that does not die any more was the last.
_MOST = 80


class DyingClient(Client):
    """A client that answers nothing any more from its so many-eth write on."""

    def __init__(self, client: Client, *, writes: int, sent: bool) -> None:
        super().__init__(client._transport)
        self.died = asyncio.Event()
        self._left = writes
        self._sent = sent

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        """As usual, while it lives."""
        if method == "GET" or "/events" in path:
            return await super().request(method, path, **more)
        self._left -= 1
        if self._left == 0:
            if self._sent:
                await super().request(method, path, **more)
            self.died.set()
        if self._left <= 0:
            await asyncio.Event().wait()
        return await super().request(method, path, **more)


async def dies(cluster: VirtualCluster, make: Make, user: str, *, writes: int, sent: bool) -> bool:
    """Run a controller until it dies; whether it did, or had nothing more to write."""
    client = DyingClient(cluster.acting_as(user), writes=writes, sent=sent)
    async with cluster.running(make(client, clock=cluster.clock, rng=cluster.rng).run):
        for _ in range(60):
            await cluster.clock.advance(1)
            if client.died.is_set():
                return True
    return False


@contextlib.asynccontextmanager
async def lives(cluster: VirtualCluster, make: Make, user: str) -> AsyncIterator[None]:
    async with cluster.running(make(cluster.acting_as(user), clock=cluster.clock, rng=cluster.rng).run):
        yield


async def at_every_write(state_history: Callable[[VirtualCluster, int], Awaitable[bool]]) -> None:
    """Tell a story in which a controller dies at its first write, its second, and so on, until it has no more."""
    for writes in range(1, _MOST):
        async with virtual_api.cluster() as cluster:
            if not await state_history(cluster, writes):
                assert writes > 3
                return
    raise AssertionError(f"more than {_MOST} writes")


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
async def test_a_job_comes_to_the_same_end(mode: str, sent: bool) -> None:
    async def state_history(cluster: VirtualCluster, writes: int) -> bool:
        failed: set[str] = set()

        def ends(pod: Any) -> Ending:
            if not failed and index_of(pod) in {None, 1}:
                failed.add(meta.uid(pod))
            return Ending(code=int(meta.uid(pod) in failed))

        kubelet = Kubelet(cluster, ends=ends)
        async with cluster.running(kubelet.run):
            await test_jobs.create(cluster, test_jobs.job(completions=2, parallelism=2, completionMode=mode))
            died = await dies(cluster, JobController, "rota:controller:jobs", writes=writes, sent=sent)
            async with lives(cluster, JobController, "rota:controller:jobs"):
                found = await test_jobs.complete(cluster)
        codes = list(kubelet.ended.values())
        assert (found["status"]["succeeded"], found["status"]["failed"]) == (2, 1)
        assert (codes.count(0), codes.count(1)) == (2, 1)
        assert len(await listed(cluster, PODS)) == 3
        return died

    await at_every_write(state_history)


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
async def test_a_rollout_comes_to_the_same_end(strategy: str, sent: bool) -> None:
    async def state_history(cluster: VirtualCluster, writes: int) -> bool:
        sets = lives(cluster, ReplicaSetController, "rota:controller:replica-sets")
        async with cluster.running(Kubelet(cluster).run), sets:
            made = test_deployments.deployment(2, strategy={"type": strategy}, revisionHistoryLimit=1)
            await test_deployments.create(cluster, made)
            user = "rota:controller:deployments"
            async with lives(cluster, DeploymentController, user):
                await test_deployments.done(cluster, 2, 1)
            await test_deployments.set_image(cluster, "app:2")
            died = await dies(cluster, DeploymentController, user, writes=writes, sent=sent)
            async with lives(cluster, DeploymentController, user):
                found = await test_deployments.done(cluster, 2, 2)
                await cluster.clock.advance(1)
                found = await cluster.client.get(DEPLOYMENTS, "web", namespace="default")
        assert test_deployments.condition(found, "Progressing") == ("True", "NewReplicaSetAvailable")
        assert await test_deployments.images(cluster) == {"app:2"}
        assert sorted(map(sizes.replicas, await listed(cluster, REPLICA_SETS))) == [0, 2]
        return died

    await at_every_write(state_history)


@pytest.mark.parametrize("sent", [False, True])
async def test_a_set_comes_to_the_same_size(sent: bool) -> None:
    async def state_history(cluster: VirtualCluster, writes: int) -> bool:
        user = "rota:controller:replica-sets"
        async with cluster.running(Kubelet(cluster).run):
            await test_deployments.create(cluster, test_deployments.deployment(3))
            async with lives(cluster, DeploymentController, "rota:controller:deployments"):
                died = await dies(cluster, ReplicaSetController, user, writes=writes, sent=sent)
                async with lives(cluster, ReplicaSetController, user):
                    await test_deployments.done(cluster, 3, 1)
                    (only,) = await listed(cluster, REPLICA_SETS)
                    await reaches(cluster, REPLICA_SETS, meta.name(only), replicas=3, readyReplicas=3)
        assert sum(map(pod_states.is_active, await listed(cluster, PODS))) == 3
        return died

    await at_every_write(state_history)


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("writes", range(1, 6))
async def test_a_run_of_a_cron_job_is_made_once(cluster: VirtualCluster, writes: int, sent: bool) -> None:
    user, made = "rota:controller:cron-jobs", dict[str, set[str]]()

    async def note_and_end() -> None:
        for one in await listed(cluster, JOBS):
            made.setdefault(meta.name(one), set()).add(meta.uid(one))
            await test_cron_jobs.end(cluster, meta.name(one))

    # Every Job is deleted as soon as it has ended, so that its name is free again.
    await cluster.client.create(CRON_JOBS, test_cron_jobs.cron_job("*/5 * * * *", successfulJobsHistoryLimit=0))
    cluster.clock.step_wall(300)
    await dies(cluster, CronJobController, user, writes=writes, sent=sent)
    await note_and_end()
    for _ in range(3):
        async with lives(cluster, CronJobController, user):
            await cluster.clock.advance(2)
            await note_and_end()
    assert [len(uids) for uids in made.values()] == [1]
    assert "active" not in await test_cron_jobs.state(cluster)
    assert await listed(cluster, JOBS) == []


@pytest.mark.parametrize(("surge", "sent"), [(0, False), (1, True)])
async def test_a_daemon_set_comes_to_the_same_end(surge: int, sent: bool) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": 1 - surge}

    async def state_history(cluster: VirtualCluster, writes: int) -> bool:
        user = test_daemon_sets.USER
        async with cluster.running(Kubelet(cluster).run):
            strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
            await test_daemon_sets.create(cluster, "a", updateStrategy=strategy, revisionHistoryLimit=0)
            async with lives(cluster, DaemonSetController, user):
                await test_daemon_sets.done(cluster, 2)
            await test_daemon_sets.set_image(cluster, "app:2")
            died = await dies(cluster, DaemonSetController, user, writes=writes, sent=sent)
            async with lives(cluster, DaemonSetController, user):
                await test_daemon_sets.done(cluster, 2, 2)
                await cluster.clock.advance(2)
        assert set((await test_daemon_sets.active(cluster)).values()) == {"app:2"}
        assert [one["revision"] for one in await listed(cluster, REVISIONS)] == [2]
        return died

    await at_every_write(state_history)


@pytest.mark.parametrize(("policy", "sent"), [("OrderedReady", True), ("Parallel", False)])
async def test_a_stateful_set_comes_to_the_same_end(policy: str, sent: bool) -> None:
    async def state_history(cluster: VirtualCluster, writes: int) -> bool:
        user = test_stateful_sets.USER
        async with cluster.running(Kubelet(cluster).run):
            claimed = {"volumeClaimTemplates": [test_stateful_sets.DATA], "podManagementPolicy": policy}
            await test_stateful_sets.create(cluster, 1, revisionHistoryLimit=0, **claimed)
            async with lives(cluster, StatefulSetController, user):
                await test_stateful_sets.done(cluster, 1)
            await test_stateful_sets.patch(cluster, replicas=2)
            await test_stateful_sets.set_image(cluster, "app:2")
            died = await dies(cluster, StatefulSetController, user, writes=writes, sent=sent)
            async with lives(cluster, StatefulSetController, user):
                await test_stateful_sets.done(cluster, 2, 3)
                await cluster.clock.advance(2)
        assert await test_stateful_sets.images(cluster) == {"db-0": "app:2", "db-1": "app:2"}
        assert [one["revision"] for one in await listed(cluster, REVISIONS)] == [2]
        assert len(await listed(cluster, VOLUME_CLAIMS)) == 2
        return died

    await at_every_write(state_history)
