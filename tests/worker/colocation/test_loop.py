"""One step of the loop on files instead of cgroups: who is evicted, who may burst, and what is offered."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api.reclaimed import BATCH_CPU, BATCH_MEMORY
from rota.testing.clocks import FakeClock
from rota.worker.colocation.colocation import Colocation, ColocationSettings
from rota.worker.colocation.measurements import Measurements
from rota.worker.host_resources import HostResources
from rota.worker.pod_machine.pods import Pod
from rota.worker.runtimes.batch_tier import BatchTier
from rota.worker.runtimes.runtime_interface import Place, run_id

GIBIBYTE = 1024**3
MACHINE = HostResources(
    node="n",
    address="127.0.0.1",
    capacity={},
    allocatable={"cpu": 4000, "memory": 8 * GIBIBYTE},
    sold={BATCH_CPU: 4000, BATCH_MEMORY: 8 * GIBIBYTE},
)


class Parts:
    """The parts of a worker: pods, their cgroups as folders, and a list of evicted pods."""

    def __init__(self) -> None:
        self.all: list[Pod] = []
        self.folders: dict[str, Place] = {}
        self.evicted: list[str] = []
        self.tier: BatchTier | None = None

    @property
    def runtime(self) -> Any:
        return self

    def batch_tier(self) -> BatchTier | None:
        return self.tier

    def places(self) -> Mapping[str, Place]:
        return self.folders

    def pods(self) -> list[Pod]:
        return self.all

    def evict(self, uid: str, message: str) -> None:
        self.evicted.append(uid)

    def add(self, uid: str, limits: dict[str, str], now: float) -> None:
        container = {"name": "c", "resources": {"limits": limits, "requests": limits}}
        metadata = {"name": uid, "namespace": "default", "uid": uid}
        document = {"metadata": metadata, "spec": {"containers": [container]}, "status": {}}
        self.all.append(Pod(document, now=now, address="127.0.0.1"))


class Machine:
    """Files as the kernel has them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pressure").mkdir(parents=True, exist_ok=True)
        self.ticks = 0
        self.set(busy_cores=0.0, available=4 * GIBIBYTE)

    def set(self, *, busy_cores: float, available: int, stalled: float = 0.0) -> None:
        """What the machine does in the next second."""
        self.ticks += int(busy_cores * os.sysconf("SC_CLK_TCK"))
        (self.folder / "stat").write_text(f"cpu {self.ticks} 0 0 0 0 0 0 0 0 0\nbtime 1\n")
        memory = f"MemTotal: {8 * 1024**2} kB\nMemFree: 0 kB\nMemAvailable: {available // 1024} kB\n"
        (self.folder / "meminfo").write_text(memory)
        (self.folder / "pressure/memory").write_text(f"full avg10={100 * stalled:.2f} avg60=0.00\n")


def made(parts: Parts, folder: Path, clock: FakeClock, peaks: Mapping[str, float]) -> Colocation:
    measurements = Measurements(lambda: None, clock=clock, proc=folder)
    return Colocation(
        parts, MACHINE, lambda: peaks, settings=ColocationSettings(), clock=clock, measurements=measurements
    )


@given(
    classes=st.lists(st.booleans(), max_size=6),
    trace=st.lists(st.tuples(st.integers(0, 8 * GIBIBYTE), st.floats(0, 1), st.floats(0, 4)), max_size=12),
)
@settings(deadline=None, max_examples=30)
async def test_only_batch_pods_are_evicted_whatever_happens(
    tmp_path_factory: Any, classes: list[bool], trace: list[tuple[int, float, float]]
) -> None:
    clock, parts, machine = FakeClock(), Parts(), Machine(tmp_path_factory.mktemp("proc"))
    for number, batch in enumerate(classes):
        limits = {BATCH_CPU: "1000", BATCH_MEMORY: "1Gi"} if batch else {"cpu": "1", "memory": "1Gi"}
        parts.add(f"{'batch' if batch else 'service'}-{number}", limits, clock.now())
    loop = made(parts, machine.folder, clock, {"cpu": 0.0, "memory": 0.0})
    for available, stalled, cores in trace:
        machine.set(busy_cores=cores, available=available, stalled=stalled)
        loop.step()
        await clock.advance(120.0)
    assert not [uid for uid in parts.evicted if not uid.startswith("batch")]
    if any(classes) and len(trace) > 1 and trace[-1][0] < GIBIBYTE // 8:
        assert parts.evicted, "memory has ended"


async def test_a_throttled_service_bursts_and_returns_to_its_limit(tmp_path: Path) -> None:
    clock, parts, machine = FakeClock(), Parts(), Machine(tmp_path / "proc")
    group = tmp_path / "group"
    group.mkdir()
    (group / "cpu.cfs_quota_us").write_text("50000")
    (group / "cpu.stat").write_text("nr_periods 10\nnr_throttled 0\n")
    parts.add("service", {"cpu": "500m", "memory": "1Gi"}, clock.now())
    parts.folders[run_id("service", "c", 0)] = Place(pid=1, started_at=0, cgroups=[str(group)])
    loop = made(parts, machine.folder, clock, {})
    quotas = []
    for throttled in (0, 0, 5, 9, 9, 9):
        (group / "cpu.stat").write_text(f"nr_periods 100\nnr_throttled {throttled}\n")
        loop.step()
        await clock.advance(2.0)
        quotas.append(int((group / "cpu.cfs_quota_us").read_text()))
    assert quotas == [50_000, 50_000, 60_000, 72_000, 57_600, 50_000]


async def test_a_container_that_has_ended_does_not_keep_others_from_bursting(tmp_path: Path) -> None:
    clock, parts, machine = FakeClock(), Parts(), Machine(tmp_path / "proc")
    for name in ("gone", "stays"):
        group = tmp_path / name
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text("1")
        (group / "cpu.stat").write_text("nr_throttled 0\n")
        parts.add(name, {"cpu": "500m", "memory": "1Gi"}, clock.now())
        parts.folders[run_id(name, "c", 0)] = Place(pid=1, started_at=0, cgroups=[str(group)])
    loop = made(parts, machine.folder, clock, {})
    for throttled in (0, 0, 5):
        loop.step()
        shutil.rmtree(tmp_path / "gone", ignore_errors=True)
        (tmp_path / "stays/cpu.stat").write_text(f"nr_throttled {throttled}\n")
        await clock.advance(2.0)
    loop.step()
    assert (tmp_path / "stays/cpu.cfs_quota_us").read_text() == "60000"


async def test_pods_are_evicted_and_capacity_is_offered_although_no_quota_can_be_written(tmp_path: Path) -> None:
    clock, parts, machine = FakeClock(), Parts(), Machine(tmp_path / "proc")
    parts.add("batch", {BATCH_CPU: "1000", BATCH_MEMORY: "1Gi"}, clock.now())
    parts.tier = BatchTier(tmp_path / "none", tmp_path / "none", tmp_path / "none", unified=True)
    loop = made(parts, machine.folder, clock, {"cpu": 1000.0, "memory": 0.0})
    loop.step()
    machine.set(busy_cores=0.0, available=0)
    await clock.advance(10.0)
    with pytest.raises(OSError, match=r"cpu\.max"):
        loop.step()
    assert parts.evicted == ["batch"]
    assert loop.offered()[BATCH_CPU] == 2600


async def test_a_tier_that_was_made_again_gets_its_quota(tmp_path: Path) -> None:
    clock, parts, machine = FakeClock(), Parts(), Machine(tmp_path / "proc")
    parts.tier = BatchTier(tmp_path, tmp_path, tmp_path, unified=True)
    loop = made(parts, machine.folder, clock, {})
    for _ in range(20):
        loop.step()
        await clock.advance(1.0)
    settled = (tmp_path / "cpu.max").read_text()
    (tmp_path / "cpu.max").write_text("max 100000")
    loop.step()
    assert (tmp_path / "cpu.max").read_text() == settled


async def test_an_offer_falls_with_a_pod_that_the_forecast_has_not_seen(tmp_path: Path) -> None:
    clock, parts, machine = FakeClock(), Parts(), Machine(tmp_path / "proc")
    loop = made(parts, machine.folder, clock, {"cpu": 1000.0, "memory": 2.0 * GIBIBYTE})
    for _ in range(2):
        loop.step()
        await clock.advance(10.0)
    assert loop.offered()[BATCH_CPU] == 2600, "90 % of four cores without the peak"
    parts.add("service", {"cpu": "1", "memory": "1Gi"}, clock.now())
    loop.step()
    assert loop.offered()[BATCH_CPU] == 1600
    await clock.advance(400.0)
    loop.step()
    assert loop.offered()[BATCH_CPU] == 2600, "by then its use is in the forecast"
