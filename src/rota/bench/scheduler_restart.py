"""How soon schedulers bind after a restart in a large cluster: one of eight, and all at once.

Every restarted process reads the whole cluster before it decides. Pods are created at the moment of the restart; the
times are from there to the first and to the last binding. Accounting is compared with a fresh count: one scheduler runs
in the process of the benchmark, and what it holds for allocated is compared with the sum over the pods of a list.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from rota.api import resources
from rota.bench import rota_processes, schedule, shard_members, workloads
from rota.bench.report import Result, duration
from rota.client import client_factory, kubeconfig
from rota.client.pods import PODS
from rota.client.verbs import Client
from rota.kit import system
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.service import Scheduler
from rota.scheduler.sharding.instance_objects import InstanceSettings

SCHEDULERS, NODES, PODS_THERE = 8, 5_000, 150_000
LIMIT_S: Final = 5.0
NAMESPACES: Final = ("", "v1", "namespaces")
_MAP: Final = "restart"
#: Pods that are created at a restart: some for every scheduler.
_NEW: Final = 64
_LONGEST_S: Final = 300.0
_LOOK_S: Final = 0.02


@dataclass(slots=True)
class _Cluster:
    """The processes of a run."""

    folder: Path
    config: Path
    processes: contextlib.ExitStack
    pids: dict[str, int]

    def start(self, name: str) -> None:
        arguments = ["scheduler", "--shard-of", _MAP, "--instance", name, "--kubeconfig", str(self.config)]
        self.pids[name] = rota_processes.start(self.processes, arguments, self.folder / f"{name}.log")

    def kill(self, name: str) -> None:
        os.kill(self.pids.pop(name), signal.SIGKILL)


def measure(*, schedulers: int = SCHEDULERS, nodes: int = NODES, pods: int = PODS_THERE) -> list[Result]:
    """Measure on a SQLite store of its own."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        return uvloop.run(_measured(Path(folder), schedulers, nodes, pods))


async def _measured(folder: Path, schedulers: int, nodes: int, pods: int) -> list[Result]:
    store = f"sqlite:///{folder}/store.db"
    await schedule.fill(store, nodes, pods)
    with contextlib.ExitStack() as processes:
        arguments = ["master", "--store", store, "--data", str(folder), "--port", "0"]
        arguments += ["--scheduler", "off", "--controllers", ""]
        rota_processes.start(processes, arguments, folder / "log")
        await asyncio.to_thread(rota_processes.await_line, folder / "log", "This master is up")
        cluster = _Cluster(folder, folder / "kubeconfig", processes, {})
        names = [f"{_MAP}-{number}" for number in range(schedulers)]
        for name in names:
            cluster.start(name)
        endpoint = kubeconfig.load(cluster.config, clock=system.SystemClock())
        async with client_factory.to_server(endpoint, clock=system.SystemClock(), rng=system.rng()) as client:
            await shard_members.settled(client, _MAP, schedulers)
            about = f"{schedulers} schedulers, {nodes:,} nodes, {pods:,} pods"
            results = []
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": workloads.NAMESPACE}}
            await client.create(NAMESPACES, namespace)
            for what, restarted in (("one", names[:1]), ("all", names)):
                first, last = await _restarted(client, cluster, restarted)
                results += [
                    _judged(f"first binding after a restart of {what} of {about}", first, goal=True),
                    _judged(f"last of {_NEW} bindings after that", last, goal=False),
                ]
                await shard_members.settled(client, _MAP, schedulers)
            wrong = await _miscounted(client)
    results.append(
        Result(name=f"nodes with other sums than a fresh count, {about}", value=wrong, unit="", goal="0", met=not wrong)
    )
    return results


def _judged(name: str, taken_s: float, *, goal: bool) -> Result:
    result = duration(name, taken_s, LIMIT_S, against=f"{LIMIT_S:g} s", unit="s")
    if not goal:
        return result
    return msgspec.structs.replace(result, goal=f"under {LIMIT_S:g} s", met=taken_s < LIMIT_S)


async def _restarted(client: Client, cluster: _Cluster, names: list[str]) -> tuple[float, float]:
    """Seconds from the restart to the first and to the last binding of pods that were created at its moment."""
    for name in names:
        cluster.kill(name)
    begin = time.monotonic()
    for name in names:
        cluster.start(name)
    made = [f"after-{begin:.0f}-{number}" for number in range(_NEW)]
    for number, name in enumerate(made):
        await client.create(PODS, workloads.identical(name, number), namespace=workloads.NAMESPACE)
    waiting, first = set(made), 0.0
    async with asyncio.timeout(_LONGEST_S):
        while waiting:
            for name in tuple(waiting):
                found = await client.get(PODS, name, namespace=workloads.NAMESPACE)
                if found["spec"].get("nodeName"):
                    first = first or time.monotonic() - begin
                    waiting.discard(name)
            await asyncio.sleep(_LOOK_S)
    return first, time.monotonic() - begin


async def _miscounted(client: Client) -> int:
    """Nodes for which a scheduler that has just joined has other sums than the pods of a list."""
    scheduler = Scheduler(
        client,
        third_party.default(builtin.registry()),
        clock=system.SystemClock(),
        rng=system.rng(),
        identity=f"bench-{os.getpid()}",
        shard=InstanceSettings(name=f"{_MAP}-counted", shard_of=_MAP),
    )
    running = asyncio.ensure_future(scheduler.run())
    try:
        await shard_members.active(scheduler)
        sums: Counter[tuple[str, str]] = Counter()
        for pod in (await client.list(PODS)).items:
            if node := pod["spec"].get("nodeName"):
                for resource, amount in resources.pod_requests(pod).items():
                    sums[node, resource] += amount
        return sum(
            any(sums[node.name, resource] != amount for resource, amount in node.requested.items())
            for node in scheduler.cache.cluster.nodes
            if node is not None
        )
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
