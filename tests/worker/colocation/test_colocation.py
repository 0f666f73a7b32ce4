"""A worker that sells reclaimed capacity, at a real API server, with real processes and the cgroups of this machine."""

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.worker.runtimes.test_batch_tier import favour

from rota.api import errors
from rota.api.reclaimed import BATCH_CPU, BATCH_MEMORY
from rota.client import client_factory
from rota.client.verbs import Client
from rota.forecast.node_series import FORECASTS
from rota.kit import system
from rota.kit.errors import UserError
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.worker import worker_assembly
from rota.worker.agent import PODS
from rota.worker.colocation import colocation
from rota.worker.colocation.measurements import Measurements, parse_pressure
from rota.worker.node import NODES
from rota.worker.runtimes.process.cgroups import ControlGroups
from rota.worker.worker_assembly import Worker

PATIENCE_S = 60.0
BATCH = {BATCH_CPU: "500", BATCH_MEMORY: "64Mi"}
BURN = (sys.executable, "-c", "while True: pass")
SLEEP = ("sleep", "1000")


def needs_tier() -> None:
    probe = ControlGroups(f"rota-probe-{os.getpid()}")
    tier = probe.batch_tier() if probe.available else None
    probe.close()
    if tier is None:
        pytest.skip("needs cgroups that this user may create, with cpu and memory")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with ApiServer() as server:
        clock, rng = system.SystemClock(), random.Random(0)
        async with client_factory.to_application(server.app, clock=clock, rng=rng) as made:
            yield made


@contextlib.asynccontextmanager
async def worker(client: Client, folder: Path) -> AsyncIterator[Worker]:
    settings = worker_assembly.Settings(
        node="w1", folder=folder, address="127.0.0.1", allow_root=True, batch_ceiling=0.9, lease_s=2
    )
    async with worker_assembly.worker(client, settings, clock=system.SystemClock(), rng=random.Random(0)) as made:
        try:
            yield made
        finally:
            for run in list(made.runtime.places()):
                await made.runtime.stop(run, 0)
            await until(lambda: _true(not made.runtime.places()))


async def _true(value: bool) -> bool:
    return value


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(int(PATIENCE_S / 0.05)):
        if await condition():
            return
        await asyncio.sleep(0.05)
    raise TimeoutError


def pod(name: str, *command: str, limits: dict[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": list(command), "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": "w1", "restartPolicy": "Never", "containers": [container]},
    }


async def phase(client: Client, name: str) -> str:
    found = await client.get(PODS, name, namespace="default")
    return str((found.get("status") or {}).get("phase"))


async def test_a_worker_without_cgroups_for_batch_pods_does_not_sell_to_them(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlGroups, "batch_tier", lambda _: None)
    with pytest.raises(UserError, match="leave --batch-ceiling out"):
        async with worker(client, tmp_path / "w"):
            pass


@pytest.mark.slow
async def test_batch_pods_run_in_their_tier_below_a_quota_and_go_for_memory(client: Client, tmp_path: Path) -> None:
    needs_tier()
    async with worker(client, tmp_path / "w") as made:
        tier = made.runtime.batch_tier()
        assert tier is not None
        assert made.colocation is not None
        favour(tier)
        with pytest.raises(errors.Conflict, match=r"Insufficient rota.dev/batch-cpu"):
            await client.create(PODS, pod("early", *BURN, limits=BATCH))
        await client.create(PODS, pod("service", *SLEEP, limits={"cpu": "100m", "memory": "64Mi"}))
        await sells(made, client, tmp_path / "idle")
        await client.create(PODS, pod("batch", *BURN, limits=BATCH))
        for name in ("batch", "service"):
            await until(lambda name=name: _is(client, name, "Running"))  # type: ignore[misc]
        places = {run.split(".")[0]: place for run, place in made.runtime.places().items()}
        uids = {
            one: (await client.get(PODS, one, namespace="default"))["metadata"]["uid"] for one in ("batch", "service")
        }
        assert all("-batch/" in folder for folder in places[uids["batch"]].cgroups)
        assert not any("-batch/" in folder for folder in places[uids["service"]].cgroups)
        adjusted = Path(f"/proc/{places[uids['batch']].pid}/oom_score_adj").read_text()
        assert adjusted.strip() == "1000", "the kernel kills it first"
        await until(lambda: _true(tier.used_nanos() > 0))
        quota = tier.cpu / ("cpu.max" if tier.unified else "cpu.cfs_quota_us")
        most = int(0.9 * len(os.sched_getaffinity(0)) * 100_000)
        await until(lambda: _true(0 < int(quota.read_text().split()[0].replace("max", "0")) <= most))
        # Memory ends: only the batch pod goes.
        short = tmp_path / "proc"
        _machine(short, available_kib=1024)
        made.colocation._measurements = Measurements(  # type: ignore[misc]
            lambda: tier, clock=system.SystemClock(), proc=short
        )
        await until(lambda: _is(client, "batch", "Failed"))
        ended = (await client.get(PODS, "batch", namespace="default"))["status"]
        assert ended["reason"] == "Evicted"
        assert "1Mi of memory left" in ended["message"]
        assert await phase(client, "service") == "Running"


async def sells(made: Worker, client: Client, folder: Path) -> None:
    """Wait until the node sells: on a machine that uses nothing, a cold forecast is what the pods request."""
    _machine(folder, available_kib=1_000_000)
    made.forecasts._measurements = Measurements(  # type: ignore[misc]
        lambda: None, clock=system.SystemClock(), proc=folder
    )

    async def declared() -> bool:
        made.forecasts.measure()
        found = (await client.get(NODES, "w1"))["status"]["allocatable"]
        return int(found[BATCH_CPU]) >= 500 and int(found[BATCH_MEMORY]) >= 64 * 1024**2

    await until(declared)


async def _is(client: Client, name: str, wanted: str) -> bool:
    return await phase(client, name) == wanted


@pytest.mark.slow
async def test_a_node_declares_what_it_sells_and_publishes_its_forecast(client: Client, tmp_path: Path) -> None:
    needs_tier()
    async with worker(client, tmp_path / "w") as made:
        allocatable = (await client.get(NODES, "w1"))["status"]["allocatable"]
        assert allocatable[BATCH_CPU] == "0", "nothing is sold before there is a forecast"
        native = allocatable["cpu"]
        await client.create(PODS, pod("service", *SLEEP, limits={"cpu": "100m", "memory": "64Mi"}))
        await until(lambda: _is(client, "service", "Running"))

        await sells(made, client, tmp_path / "idle")
        assert (await client.get(NODES, "w1"))["status"]["allocatable"]["cpu"] == native
        await made.forecasts.publish()
        published = await client.get(FORECASTS, "w1")
        assert published["status"]["source"] == "Worker"
        assert published["metadata"]["ownerReferences"][0]["kind"] == "Node"


async def test_a_batch_pod_with_cpu_of_its_own_is_refused(client: Client) -> None:
    with pytest.raises(errors.Invalid, match=r"cpu beside rota.dev/batch-cpu"):
        await client.create(PODS, pod("both", *SLEEP, limits={**BATCH, "cpu": "1"}))


def _machine(folder: Path, *, available_kib: int, ticks: int = 0) -> None:
    (folder / "pressure").mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"cpu {ticks} 0 0 0 0 0 0 0 0 0\nbtime 1\n")
    (folder / "meminfo").write_text(f"MemTotal: 1048576 kB\nMemFree: 1 kB\nMemAvailable: {available_kib} kB\n")
    text = "some avg10=50.00 avg60=0 avg300=0 total=0\nfull avg10=25.00 avg60=0 avg300=0 total=0\n"
    (folder / "pressure/memory").write_text(text)


async def test_a_sample_tells_others_from_batch(tmp_path: Path) -> None:
    class Tier:
        nanos = 0

        def used_nanos(self) -> int:
            return self.nanos

        def memory_bytes(self) -> int:
            return 1024 * 100

    clock, tier = FakeClock(), Tier()
    made = Measurements(lambda: tier, clock=clock, proc=tmp_path)  # type: ignore[arg-type, return-value]
    _machine(tmp_path, available_kib=1_000_000)
    assert made.take() is None
    await clock.advance(2.0)
    _machine(tmp_path, available_kib=1_000_000, ticks=3 * os.sysconf("SC_CLK_TCK"))
    tier.nanos = 10**9
    sample = made.take()
    assert sample is not None
    assert (round(sample.others_milli), round(sample.batch_milli)) == (1000, 500)
    assert sample.stalled == 0.25
    assert sample.others_memory == (1_048_576 - 1_000_000 - 100) * 1024


def test_pressure_is_zero_where_the_kernel_has_no_line_for_it() -> None:
    assert parse_pressure("some avg10=3.00 avg60=0.00\n") == 0.0


def test_settings_share_one_ceiling() -> None:
    made = colocation.ColocationSettings.below(0.7)
    assert (made.offers.ceiling, made.quota.ceiling) == (0.7, 0.7)
