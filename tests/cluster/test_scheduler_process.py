"""A scheduler in a process of its own places pods, explains them, and ends with its master."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from rota import control_plane
from rota.api import errors
from rota.apiserver.server import http_server
from rota.client import client_factory, kubeconfig, paths, pods
from rota.kit import system
from rota.kit.metrics import Metrics
from rota.scheduler_process import ProcessEndedError, SchedulerProcess, Start
from rota.store import store_factory
from rota.store.compaction import Compactor
from rota.store.logstore import Settings as StoreSettings
from rota.store.metrics import StoreMetrics
from rota.testing import manifests
from rota.testing.api import ApiServer

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
PODS = "/api/v1/namespaces/default/pods"


@pytest_asyncio.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


async def test_the_scheduler_process_places_explains_and_stops(api: ApiServer) -> None:
    async with http_server.serve(api.app) as served:
        scheduler = SchedulerProcess(lambda: Start(server=served.url), identity="one", clock=system.SystemClock())
        with pytest.raises(errors.ServiceUnavailable):
            await scheduler.explain({}, node="", limit=None)
        running = asyncio.create_task(scheduler.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await scheduler.wait_synced()
            process = scheduler.pid
            assert process is not None
            await api.post("/api/v1/nodes", manifests.node("n", zone="a"))
            async with api.watch(PODS) as events:
                pod = (await api.post(PODS, manifests.pod("p"))).json
                while not (await events.next())["object"]["spec"].get("nodeName"):
                    pass
            assert (await scheduler.explain(pod, node="n", limit=None))["kind"] == "Explanation"
            with pytest.raises(errors.BadRequest, match="no node"):
                await scheduler.explain(pod, node="elsewhere", limit=None)
        finally:
            running.cancel()
            await asyncio.wait([running])
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


async def test_the_death_of_the_process_fails_pending_requests(api: ApiServer) -> None:
    async with http_server.serve(api.app) as served:
        scheduler = SchedulerProcess(lambda: Start(server=served.url), identity="one", clock=system.SystemClock())
        running = asyncio.create_task(scheduler.run())
        async with asyncio.timeout(PATIENCE_S):
            await scheduler.wait_synced()
        assert scheduler.pid is not None
        os.kill(scheduler.pid, signal.SIGSTOP)
        asked = asyncio.create_task(scheduler.explain(manifests.pod("p"), node="", limit=None))
        await asyncio.sleep(0)
        os.kill(scheduler.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ProcessEndedError):
                await running
            with pytest.raises(errors.ServiceUnavailable):
                await asked


async def test_a_master_may_have_its_scheduler_apart(tmp_path: Path) -> None:
    clock, rng = system.SystemClock(), system.rng()
    store = await store_factory.open_store("memory://", time=clock, rng=rng)
    settings = control_plane.Settings(data=tmp_path / "data", port=0, scheduler_apart=True)
    try:
        async with control_plane.running(store, settings) as facts:
            endpoint = kubeconfig.load(Path(facts["config"]), clock=clock)
            async with (
                asyncio.timeout(PATIENCE_S),
                client_factory.to_server(endpoint, clock=clock, rng=rng) as client,
                client.watch(pods.PODS, namespace="default") as events,
            ):
                await client.create(("", "v1", "nodes"), manifests.node("n", zone="a"))
                await client.create(pods.PODS, manifests.pod("p"), namespace="default")
                async for event in events:
                    if event.object["spec"].get("nodeName") == "n":
                        break
                path = paths.item(pods.PODS, "p", namespace="default", subresource="explain")
                assert json.loads(await client.request("GET", path))["kind"] == "Explanation"
    finally:
        await store.close()


@pytest.mark.parametrize("apart", [False, True], ids=["in the master", "apart"])
async def test_a_masters_metrics_tell_of_its_scheduler_controllers_and_store(tmp_path: Path, apart: bool) -> None:
    clock, rng = system.SystemClock(), system.rng()
    metrics = Metrics("process", process=True)
    figures = StoreMetrics(metrics.beside("store"))
    store = await store_factory.open_store("memory://", time=clock, rng=rng, settings=StoreSettings(metrics=figures))
    await Compactor(store, time=clock, metrics=figures).step()
    settings = control_plane.Settings(data=tmp_path / "data", port=0, scheduler_apart=apart, metrics=metrics)
    try:
        async with control_plane.running(store, settings) as facts:
            endpoint = kubeconfig.load(Path(facts["config"]), clock=clock)
            async with (
                asyncio.timeout(PATIENCE_S),
                client_factory.to_server(endpoint, clock=clock, rng=rng) as client,
                client.watch(pods.PODS, namespace="default") as events,
            ):
                await client.create(("", "v1", "nodes"), manifests.node("n", zone="a"))
                await client.create(pods.PODS, manifests.pod("p"), namespace="default")
                async for event in events:
                    if event.object["spec"].get("nodeName") == "n":
                        break
                told = (await client.request("GET", "/metrics")).decode()
        for name in (
            'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0',
            'workqueue_adds_total{name="namespaces"}',
            "rota_controllers_informer_lag_seconds",
            "rota_store_commit_duration_seconds_bucket",
            "rota_store_commit_batch_size_count",
            "rota_store_watch_lag_seconds_bucket",
            "rota_store_slow_watches_total 0.0",
            "rota_store_history_seconds",
            "rota_store_size_bytes",
            "rota_apiserver_requests_total",
            "process_resident_memory_bytes",
        ):
            assert name in told
        families = [line.split()[2] for line in told.splitlines() if line.startswith("# TYPE")]
        assert len(families) == len(set(families))
    finally:
        await store.close()
