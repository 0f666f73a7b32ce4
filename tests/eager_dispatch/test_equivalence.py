"""Whichever way tasks reach their workers, the same becomes of them."""

import asyncio
import collections
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.worker.endpoint.harness import end_everything, until

from rota import assembly, control_plane
from rota.client import client_factory, kubeconfig
from rota.client.verbs import Client
from rota.kit import system
from rota.scheduler.binding.dispatch_mode import ANNOTATION, PULL, PUSH
from rota.worker.agent import PODS

pytestmark = pytest.mark.slow
WORKERS = 2
#: What becomes of tasks of each kind: the phase, the exit code, and how often they wrote their line.
EXPECTED = {
    "good": ("Succeeded", 0, 1),
    "bad": ("Failed", 3, 1),
    "again": ("Succeeded", 0, 2),
    "missing": ("Failed", 128, 0),
}


@pytest.fixture(params=[PULL, PUSH])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    clock, data = system.SystemClock(), tmp_path / "data"
    store = await assembly.open_store("memory://")
    settings = control_plane.Settings(
        data=data, port=0, workers=WORKERS, worker_prefix="w", dispatch=str(request.param), run_as="root"
    )
    try:
        async with control_plane.running(store, settings) as facts:
            endpoint = kubeconfig.load(Path(facts["config"]), clock=clock)
            async with client_factory.to_server(endpoint, clock=clock, rng=random.Random(0)) as client:
                yield client
    finally:
        await store.close()
        for number in range(1, WORKERS + 1):
            await end_everything(data / "workers" / f"w{number}", f"w{number}")


def _task(name: str, mode: str, *command: str, policy: str = "Never") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": list(command)}
    metadata = {"name": name, "namespace": "default", "annotations": {ANNOTATION: mode} if mode else {}}
    spec = {"restartPolicy": policy, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _commands(kind: str, file: Path) -> tuple[tuple[str, ...], str]:
    say = f"echo x >> {file}"
    return {
        "good": (("sh", "-c", say), "Never"),
        "bad": (("sh", "-c", f"{say}; exit 3"), "Never"),
        "again": (("sh", "-c", f"{say}; [ $(wc -l < {file}) -ge 2 ]"), "OnFailure"),
        "missing": (("/no/such/program",), "Never"),
    }[kind]


async def test_the_same_becomes_of_tasks_that_are_pushed_and_pulled(cluster: Client, tmp_path: Path) -> None:
    names = [f"{kind}-{mode or 'custom'}-{n}" for kind in EXPECTED for mode in ("", PUSH, PULL) for n in range(3)]

    async def submit(name: str) -> None:
        kind, mode, _ = name.split("-")
        command, policy = _commands(kind, tmp_path / name)
        await cluster.create(PODS, _task(name, "" if mode == "custom" else mode, *command, policy=policy))

    await asyncio.gather(*map(submit, names))
    pods: dict[str, dict[str, Any]] = {}

    async def finished() -> bool:
        found = (await cluster.list(PODS, namespace="default")).items
        pods.update({one["metadata"]["name"]: one for one in found})
        return len(found) == len(names) and all(
            one["status"]["phase"] in {"Succeeded", "Failed"} for one in pods.values()
        )

    await until(finished)
    outcomes = collections.defaultdict(set)
    for name, pod in pods.items():
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        file = tmp_path / name
        lines = len(file.read_text().splitlines()) if file.exists() else 0
        outcomes[name.split("-")[0]].add((pod["status"]["phase"], ended["exitCode"], lines))
    assert dict(outcomes) == {kind: {outcome} for kind, outcome in EXPECTED.items()}
    conditions = {tuple(sorted(one["type"] for one in pod["status"]["conditions"])) for pod in pods.values()}
    assert len(conditions) == 1, "every task tells the same of itself, its binding included"
