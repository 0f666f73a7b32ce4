"""Results of calls and outputs of steps are there after a worker, a master and the client were restarted or killed.

Each task ends at one of three moments: before its worker goes away, while it is away, after it has come back.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rota
from rota.testing.process_cluster import Member, ProcessCluster

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
MOMENTS = ("before", "away", "after")


@rota.task(durable=True)
def wait_for(folder: str, moment: str) -> str:
    """Return when a file is there, and say first that the function is about to return."""
    while not Path(folder, moment).exists():
        time.sleep(0.02)
    Path(folder, f"{moment}.done").write_text(str(os.getpid()))
    return f"{moment} is {[moment]}"


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it takes too long until {what}"
        time.sleep(0.02)


def has_ended(folder: Path, moment: str) -> bool:
    """Whether the process of a task is gone, however it was told of."""
    done = folder / f"{moment}.done"
    return done.exists() and bool(done.read_text()) and not Path(f"/proc/{done.read_text()}").exists()


def end(member: Member, how: str) -> None:
    member.kill() if how == "killed" else member.stop()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path / "fleet", store_url=f"sqlite:///{tmp_path}/store.db") as made:
        made.master("m1")
        made.worker("w1", "--resources", "cpu=8")
        yield made


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_results_of_calls_outlive_their_worker(fleet: ProcessCluster, tmp_path: Path, how: str) -> None:
    config = fleet.masters[0].folder / "kubeconfig"
    with rota.Client(config) as client:
        names = {one: client.submit(wait_for, str(tmp_path), one).name for one in MOMENTS}
        (tmp_path / "before").touch()
        until(lambda: client.future(names["before"]).done(), "the first call has ended")
    _restart_worker(fleet, tmp_path, how)
    with rota.Client(config) as client:
        for moment, name in names.items():
            assert client.future(name).result(PATIENCE_S) == f"{moment} is {[moment]}"


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_outputs_of_steps_outlive_their_worker(fleet: ProcessCluster, tmp_path: Path, how: str) -> None:
    @rota.pipeline
    def moments() -> list[str]:
        return [wait_for(str(tmp_path), one) for one in MOMENTS]

    with rota.Client(fleet.masters[0].folder / "kubeconfig") as client:
        run = moments.run(client)
        (tmp_path / "before").touch()
        until(lambda: [one.status for one in run.steps].count("Succeeded") == 1, "the first step has ended")
        until(lambda: [one.status for one in run.steps].count("Running") == 2, "the others run")
        _restart_worker(fleet, tmp_path, how)
        assert run.result(PATIENCE_S) == [f"{one} is {[one]}" for one in MOMENTS]


def test_results_during_an_outage_of_all_masters_are_reported_later(fleet: ProcessCluster, tmp_path: Path) -> None:
    """The worker cannot tell of the end of a task, and is then killed itself."""
    master, config = fleet.masters[0], fleet.masters[0].folder / "kubeconfig"
    with rota.Client(config) as client:
        future = client.submit(wait_for, str(tmp_path), "away")
        until(future.running, "the call runs")
    master.kill()
    (tmp_path / "away").touch()
    until(lambda: has_ended(tmp_path, "away"), "the task has ended")
    fleet.workers[0].kill()
    master.start()
    fleet.workers[0].start()
    with rota.Client(config) as client:
        assert client.future(future.name).result(PATIENCE_S) == f"away is {['away']}"


def test_a_run_is_waited_for_while_the_api_is_away(fleet: ProcessCluster, tmp_path: Path) -> None:
    @rota.pipeline
    def one() -> str:
        return wait_for(str(tmp_path), "after")

    master = fleet.masters[0]
    with rota.Client(master.folder / "kubeconfig") as client, ThreadPoolExecutor(1) as pool:
        run = one.run(client)
        until(lambda: [step.status for step in run.steps] == ["Running"], "the step runs")
        master.kill()
        waiting = pool.submit(run.result, PATIENCE_S)
        (tmp_path / "after").touch()
        until(lambda: has_ended(tmp_path, "after"), "the step has ended")
        assert not waiting.done()
        master.start()
        assert waiting.result(PATIENCE_S) == f"after is {['after']}"


def _restart_worker(fleet: ProcessCluster, folder: Path, how: str) -> None:
    worker = fleet.workers[0]
    # the others must run before the worker goes away, or they would only begin after it
    end(worker, how)
    (folder / "away").touch()
    until(lambda: has_ended(folder, "away"), "the second task has ended")
    worker.start()
    (folder / "after").touch()
