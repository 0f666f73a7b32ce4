"""The pages of a scheduler: metrics, configuration, dumps, and the comparison of its cache with the cluster."""

import contextlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
from yarl import URL

from rota.kit.errors import UserError
from rota.scheduler import debug_pages
from rota.scheduler.debug_pages import DebugPages
from rota.scheduler.service import Scheduler
from rota.testing import schedulers
from rota.testing.clusters import make_pod
from rota.testing.schedulers import SchedulingCluster

CONFIG = """
extenders:
- urlPrefix: https://gpu.example
  filterVerb: filter
  ignorable: true
  managedResources: [{name: example.com/gpu}]
  tlsConfig: {keyData: c2VjcmV0, insecure: true}
"""


@pytest.fixture
async def cluster() -> AsyncIterator[SchedulingCluster]:
    async with schedulers.cluster() as made:
        yield made


@contextlib.asynccontextmanager
async def pages(cluster: SchedulingCluster, scheduler: Scheduler) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        debug_pages.serving(scheduler, cluster.client, clock=cluster.clock, address=("127.0.0.1", 0)) as url,
        aiohttp.ClientSession(base_url=url) as session,
    ):
        yield session


async def test_every_page_answers(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", pods="1")
    async with cluster.scheduling() as scheduler, pages(cluster, scheduler) as session:
        await cluster.add_pod("web")
        await cluster.bound("web")
        await cluster.add_pod("late")
        await cluster.refused("late")
        metrics = await (await session.get("/metrics")).text()
        assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0' in metrics
        for path in ("/healthz", "/livez", "/readyz"):
            assert await (await session.get(path)).text() == "ok"
        queue = await (await session.get("/debug/queue")).json()
        assert [each["pod"] for place in queue["pods"].values() for each in place] == ["default/late"]
        cache = await (await session.get("/debug/cache")).json()
        assert [(node["name"], [pod["pod"] for pod in node["pods"]]) for node in cache["nodes"]] == [
            ("n1", ["default/web"])
        ]
        assert await (await session.get("/debug/compare")).json() == {"equal": True, "differences": []}
        assert (await session.get("/debug/nothing")).status == 404
        assert (await session.post("/debug/queue")).status == 405


async def test_the_configuration_is_shown_without_its_secrets(cluster: SchedulingCluster) -> None:
    async with cluster.scheduling(CONFIG) as scheduler, pages(cluster, scheduler) as session:
        shown = (await (await session.get("/configz")).json())["componentconfig"]
        assert shown["kind"] == "KubeSchedulerConfiguration"
        (extender,) = shown["extenders"]
        assert extender["tlsConfig"]["insecure"] is True
        assert "keyData" not in extender["tlsConfig"]
        assert extender["httpTimeout"] == "5s"


async def test_a_port_that_is_taken_is_named(cluster: SchedulingCluster) -> None:
    async with cluster.scheduling() as scheduler, pages(cluster, scheduler) as session:
        taken = URL(str(session._base_url)).port
        assert taken is not None
        with pytest.raises(UserError, match=f"cannot listen on port {taken}: .*; choose another"):
            async with debug_pages.serving(
                scheduler, cluster.client, clock=cluster.clock, address=("127.0.0.1", taken)
            ):
                pass


async def test_a_cache_that_went_wrong_is_found_out(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling() as scheduler:
        shown = DebugPages(scheduler, cluster.client, clock=cluster.clock)
        scheduler.cache.cluster.add_pod(scheduler.cache.interner.pod(make_pod("ghost", on="n1")))
        found: list[str] = []

        async def compare() -> None:
            found.extend(f"{each.kind} {each.object} {each.problem}" for each in await shown.differences())

        async with cluster.running(compare):
            await cluster.until(lambda: _any(found))
        assert "Pod default/ghost is in the cache on n1 and does not exist" in found


async def _any(found: list[str]) -> bool:
    return bool(found)
