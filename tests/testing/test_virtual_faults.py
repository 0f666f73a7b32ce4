"""Clusters in virtual time keep their promises under random faults; `make faults SEEDS=1000` runs more seeds."""

import asyncio
from pathlib import Path

import pytest

from rota.testing import virtual_faults
from rota.testing.virtual_faults import Plan, Report
from rota.testing.virtual_runtime import VirtualRuntime
from rota.worker.runtimes.runtime_interface import Launch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def run(plan: Plan, folder: Path) -> Report:
    return asyncio.run(virtual_faults.run(plan, folder))


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_run_twice_oversold_or_missed(seed: int, tmp_path: Path) -> None:
    report = run(Plan(seed=seed), tmp_path)
    assert report.violations == [], report.faults
    assert report.faults
    assert report.pods >= 12
    assert report.watch_events > report.pods


def test_a_seed_determines_everything(tmp_path: Path) -> None:
    plan = Plan(seed=5, seconds=20.0, jobs=2)
    assert run(plan, tmp_path / "once") == run(plan, tmp_path / "again")


def test_a_pod_that_runs_twice_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = VirtualRuntime.start

    async def started_twice(self: VirtualRuntime, launch: Launch) -> None:
        await start(self, launch)
        self.starts[launch.uid].append("again")

    monkeypatch.setattr(VirtualRuntime, "start", started_twice)
    report = run(Plan(seed=0, seconds=1.0, jobs=1, pods_per_job=1), tmp_path)
    assert [one.split(":")[0] for one in report.violations] == ["run twice"]


def test_work_that_is_never_done_and_events_that_are_not_seen_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def vanished(self: VirtualRuntime, launch: Launch) -> None:
        self.starts.setdefault(launch.uid, []).append(launch.id)

    async def blind(self: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(VirtualRuntime, "start", vanished)
    monkeypatch.setattr(virtual_faults._Watcher, "run", blind)
    monkeypatch.setattr(virtual_faults, "_PATIENCE_S", 30.0)
    report = run(Plan(seed=0, seconds=1.0, jobs=1, pods_per_job=1), tmp_path)
    assert [one.split(":")[0] for one in report.violations] == ["lost", "missed watch events"]
