"""Workers in a process of their own run what they are given, and end with their master; their tasks do not."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota import control_plane
from rota.client import client_factory, kubeconfig, paths, pods
from rota.client.verbs import Client
from rota.kit import system
from rota.kit.errors import UserError
from rota.scheduler.binding import dispatch_mode
from rota.store import store_factory
from rota.worker import folders
from rota.worker_process import WorkerProcess

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0


@asynccontextmanager
async def master(data: Path, dispatch: str = dispatch_mode.PULL) -> AsyncIterator[Client]:
    clock, rng = system.SystemClock(), system.rng()
    store = await store_factory.open_store(f"sqlite:///{data}/store.db", time=clock, rng=rng)
    settings = control_plane.Settings(
        data=data / "master",
        port=0,
        workers=2,
        worker_prefix="w",
        workers_apart=True,
        dispatch=dispatch,
        # the tasks look for files in the test's own folder, which only its user can read
        run_as="root" if os.geteuid() == 0 else "",
    )
    try:
        async with asyncio.timeout(PATIENCE_S), control_plane.running(store, settings) as facts:
            assert facts["workers"] == "w1, w2"
            endpoint = kubeconfig.load(Path(facts["config"]), clock=clock)
            async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
                yield client
    finally:
        await store.close()


def task(name: str, script: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "command": ["/bin/sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


async def until(client: Client, name: str, phase: str) -> dict[str, Any]:
    async with client.watch(pods.PODS, namespace="default") as events:
        async for event in events:
            found = event.object
            if found["metadata"]["name"] == name and found["status"].get("phase") == phase:
                return found
    raise AssertionError("the watch has ended")


def processes() -> list[int]:
    """The processes of workers that this one has started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(one) for one in children if b"rota.worker_process" in Path(f"/proc/{one}/cmdline").read_bytes()]


@pytest.mark.parametrize("mode", dispatch_mode.MODES)
async def test_tasks_run_there_and_their_logs_are_read_from_there(tmp_path: Path, mode: str) -> None:
    async with master(tmp_path, mode) as client:
        assert len(processes()) == 1
        await client.create(pods.PODS, task("hello", "echo hello from $$"), namespace="default")
        done = await until(client, "hello", "Succeeded")
        assert done["spec"]["nodeName"] in {"w1", "w2"}
        said = await client.request("GET", paths.item(pods.PODS, "hello", namespace="default", subresource="log"))
        assert said.startswith(b"hello from ")
    assert not processes()


async def test_a_process_that_is_killed_is_replaced_and_its_tasks_are_found_again(tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with master(tmp_path) as client:
        script = f"echo once >> {tmp_path}/began; until test -e {go}; do sleep 0.05; done"
        await client.create(pods.PODS, task("long", script), namespace="default")
        await until(client, "long", "Running")
        (first,) = processes()
        os.kill(first, signal.SIGKILL)
        while processes() in ([], [first]):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)
        go.touch()
        await until(client, "long", "Succeeded")
    assert (tmp_path / "began").read_text() == "once\n"


async def test_tasks_outlive_a_master_and_the_next_one_tells_of_their_end(tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with master(tmp_path) as client:
        await client.create(pods.PODS, task("long", f"until test -e {go}; do sleep 0.05; done"), namespace="default")
        await until(client, "long", "Running")
    go.touch()
    async with master(tmp_path) as client:
        await until(client, "long", "Succeeded")


async def test_a_failed_start_of_workers_reaches_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.worker_process.WorkerProcess.begin", _begun_impatiently)
    with folders.held(tmp_path / "master" / "workers" / "w1"), pytest.raises(UserError, match="a worker runs in"):
        async with master(tmp_path):
            pass
    assert not processes()


async def _begun_impatiently(self: WorkerProcess) -> None:
    """As `begin`, but the process does not wait for a predecessor."""
    code = "import rota.worker_process as it; it._SUCCESSION_S = 0.0; it.main()"
    self._spare = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", code), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def test_one_that_was_begun_and_not_needed_ends() -> None:
    process = WorkerProcess(clock=system.SystemClock(), anew_after_s=1.0)
    await process.begin()
    begun = process._spare
    assert begun is not None
    await process.close()
    assert begun.returncode == 0


def test_a_folder_is_held_while_a_worker_has_it(tmp_path: Path) -> None:
    assert not folders.is_held(tmp_path / "none")
    with folders.held(tmp_path / "one"):
        assert folders.is_held(tmp_path / "one")
    assert not folders.is_held(tmp_path / "one")
