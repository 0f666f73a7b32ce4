"""Masters that come and go: workers know all of them at all times, and `rota` shows them."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.api import times
from rota.client import kubeconfig
from rota.kit import system
from rota.testing.process_cluster import ProcessCluster, Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PATIENCE_S = 60.0
#: Within so many seconds a worker has to know of a new master, and to be with another one.
MOVED_S = 40.0


def until(holds: Callable[[], Any], what: str, *, within_s: float = PATIENCE_S) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"it takes too long until {what}"
        time.sleep(0.05)
    return found


def rota(config: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rota", *arguments], env={**os.environ, "KUBECONFIG": str(config)},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def servers_of(worker: Worker) -> set[str]:
    """The masters that a worker would find again after a restart."""
    known = kubeconfig.load(worker.folder / "kubeconfig", clock=system.SystemClock())
    return {known.server, *known.fallbacks}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path / "fleet", store_url=f"sqlite:///{tmp_path}/store.db") as made:
        made.master("m1")
        yield made


def test_a_worker_that_joined_one_master_moves_to_a_later_one(fleet: ProcessCluster) -> None:
    first = fleet.masters[0]
    worker = fleet.worker("w1", "--lease", "4")
    second = fleet.master("m2")
    both = {first.endpoint().server, second.endpoint().server}
    until(lambda: servers_of(worker) == both, "the worker knows both masters", within_s=MOVED_S)
    first.kill()
    config = second.folder / "kubeconfig"
    killed_at = system.SystemClock().now()
    # judged by the times that the worker writes: how long it takes to read them depends on how busy the machine is
    renewed = until(lambda: _renewed_after(config, "w1", killed_at), "the worker renews its Lease at the other master")
    assert renewed - killed_at < MOVED_S
    assert rota(config, "run", "--", "echo", "moved").strip().endswith("moved")
    # and after a restart, when the master that it joined by is still down
    worker.kill()
    worker.start()
    assert rota(config, "run", "--", "echo", "again").strip().endswith("again")


def test_every_master_is_shown_and_named_in_the_join_command(fleet: ProcessCluster) -> None:
    first, second = fleet.masters[0], fleet.master("m2")
    urls = {one.endpoint().server: one for one in (first, second)}
    config = second.folder / "kubeconfig"

    def shown() -> dict[str, Any]:
        return {one["server"]: one for one in json.loads(rota(config, "status", "--json"))["masters"]}

    until(lambda: shown().keys() == urls.keys(), "both masters are shown")
    until(lambda: sum("controllers" in one["leads"] for one in shown().values()) == 1, "one of them leads")
    found = shown()
    assert {one["version"] for one in found.values()} == {"0.1.0"}
    assert {one["identity"] for one in found.values()} == {first.identity, second.identity}
    assert "controllers" in found[first.endpoint().server]["leads"]
    words = shlex.split(rota(config, "token", "create", "--join-command"))
    assert set(words[words.index("--join") + 1].split(",")) == urls.keys()
    first.kill()
    until(lambda: shown()[first.endpoint().server]["fault"] == "does not answer", "the dead master is shown as such")
    until(lambda: "controllers" in shown()[second.endpoint().server]["leads"], "the other one leads")


def _renewed_after(config: Path, node: str, moment: float) -> float:
    """When the Lease of a worker was renewed, if that was after a moment; else 0."""
    found = json.loads(rota(config, "get", "leases", node, "-n", "kube-node-lease", "-o", "json"))
    renewed = times.parse(found["spec"]["renewTime"])
    return renewed if renewed > moment else 0.0


def test_a_task_says_that_its_node_is_not_ready(fleet: ProcessCluster) -> None:
    # long enough for the task to get there before the node is given up, on a busy machine, too
    worker = fleet.worker("w1", "--lease", "20")
    config = fleet.masters[0].folder / "kubeconfig"
    worker.pause()
    command = [sys.executable, "-m", "rota", "run", "--", "echo", "at last"]
    environment = {**os.environ, "KUBECONFIG": str(config)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stderr is not None
            said = next(line for line in run.stderr if "NotReady" in line)
            assert "waits: node w1 has been NotReady" in said
            assert "is its worker running?" in said
            worker.resume()
            assert run.stdout is not None
            assert run.stdout.read() == "at last\n"
        finally:
            run.kill()
