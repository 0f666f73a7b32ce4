"""Benchmark of several schedulers at once: the processor time of a pod, conflicts, placement, and what follows.

A master in a process of its own serves the API and has the store. N schedulers share the pods; one of them runs in the
process of the benchmark and is sampled (`scheduler_split`), the others are processes. Processor time is compared, not
rates: N schedulers and a master do not run side by side on few cores.

Conflicts and placement come from `conflict_model`, and are marked as a model; rates for more cores are predicted from
the measured times, and are marked as predicted. `scheduler_scaling` measures rates with a share of a core for each
process, `scheduler_restart` restarts in a large cluster.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import uvloop

from rota.bench import (
    conflict_model,
    processor,
    rota_processes,
    schedule,
    scheduler_restart,
    scheduler_scaling,
    shard_members,
)
from rota.bench.conflict_model import ServiceTimes, Setup
from rota.bench.report import Result, duration
from rota.bench.scheduler_split import Sampler
from rota.client import bulk_create, client_factory, kubeconfig
from rota.client.pods import PODS
from rota.client.verbs import Client
from rota.kit import system
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.service import NODES, Scheduler
from rota.scheduler.sharding.instance_objects import InstanceSettings

_MAP: Final = "bench"
_LONGEST_S: Final = 300.0
_LOOK_S: Final = 0.05
#: Objects that are created in one request.
_AT_ONCE: Final = 100
#: Schedulers, pods and nodes of a run.
_NUMBERS: Final = (1, 2, 4, 8)
_PODS, _NODES = 4_000, 500
_QUICK_NUMBERS: Final = (1, 2)
_QUICK_PODS, _QUICK_NODES = 400, 50
_FILLS: Final = (0.5, 0.9, 0.99)
_SPLIT: Final = ("following", "deciding", "binding", "events", "sharing", "event loop")


def measure(*, store_url: str, quick: bool = False) -> list[Result]:
    """Measure everything; see `rota bench`."""
    numbers = _QUICK_NUMBERS if quick else _NUMBERS
    pods, nodes = (_QUICK_PODS, _QUICK_NODES) if quick else (_PODS, _NODES)
    results: list[Result] = []
    one: dict[str, float] = {}
    for number in numbers:
        # Each run has a store of its own: what an earlier run left behind would be followed, too.
        with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
            url = store_url if not store_url.startswith("sqlite:") else f"sqlite:///{folder}/store.db"
            found = uvloop.run(_run(Path(folder), url, number, pods=pods, nodes=nodes))
        one = one or found
        against = f"the same with {numbers[0]} scheduler"
        for name, value in found.items():
            results.append(
                duration(f"{name}, N={number}", value * 1e6, one.get(name, 0.0) * 1e6, against=against, unit="µs/pod")
            )
    results += _model(quick=quick)
    times = ServiceTimes(
        serving=one["API and store"],
        deciding=one["scheduler: deciding"] + one["scheduler: binding"] + one["scheduler: events"],
        following=one["scheduler: following"],
    )
    for servers in (1, 4):
        results += [
            Result(
                name=f"predicted pods/s, N={number}, API servers={servers}, a core each",
                value=conflict_model.predicted_rate(times, number, servers=servers),
                unit="1/s",
            )
            for number in (1, 2, 4, 8, 16, 64)
        ]
    results += scheduler_scaling.measure(store_url, quick=quick)
    if not quick:
        results += scheduler_restart.measure()
    return results


def _model(*, quick: bool) -> list[Result]:
    """Conflicts and placement of the model; each value is a fraction or a number of pods."""
    results = []
    for schedulers in (2, 8) if quick else (2, 4, 8):
        for fill in _FILLS:
            for criterion in ("fine", "coarse"):
                for synchronisation in ("full", "round-robin", "freshest"):
                    setup = Setup(
                        schedulers=schedulers,
                        fill=fill,
                        criterion=criterion,
                        synchronisation=synchronisation,
                        nodes=50 if quick else 200,
                    )
                    name = f"conflicts (model), N={schedulers}, {fill:.0%} full, {criterion}, {synchronisation}"
                    outcome = conflict_model.run(setup)
                    results.append(Result(name=name, value=outcome.conflict_fraction, unit="of attempts"))
    for fill in _FILLS:
        for schedulers in (1, 8):
            outcome = conflict_model.run(Setup(schedulers=schedulers, fill=fill, nodes=50 if quick else 200))
            about = f"N={schedulers}, {fill:.0%} full"
            results.append(Result(name=f"unevenness (model), {about}", value=outcome.unevenness, unit="pods"))
            results.append(Result(name=f"rejections (model), {about}", value=outcome.rejections, unit="pods"))
    return results


async def _run(folder: Path, store_url: str, number: int, *, pods: int, nodes: int) -> dict[str, float]:
    """Processor time per pod in seconds, by process and activity."""
    clock, rng = system.SystemClock(), system.rng()
    with contextlib.ExitStack() as processes:
        master = rota_processes.start(
            processes,
            [
                "master",
                "--store",
                store_url,
                "--data",
                str(folder),
                "--port",
                "0",
                "--scheduler",
                "off",
                "--controllers",
                "",
            ],
            folder / "master.log",
        )
        await asyncio.to_thread(rota_processes.await_line, folder / "master.log", "This master is up")
        config = folder / "kubeconfig"
        endpoint = kubeconfig.load(config, clock=clock)
        others = [
            rota_processes.start(
                processes,
                ["scheduler", "--shard-of", _MAP, "--instance", f"other-{each}", "--kubeconfig", str(config)],
                folder / f"scheduler-{each}.log",
            )
            for each in range(1, number)
        ]
        async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
            await _create(client, NODES, [_node(each) for each in range(nodes)])
            async with _scheduling(client) as scheduler:
                await shard_members.settled(client, _MAP, number)
                await shard_members.active(scheduler)
                before = {pid: processor.used_s(pid) for pid in (master, *others)}
                own = time.process_time()
                with Sampler() as sampler:
                    await _create(client, PODS, [_pod(each) for each in range(pods)])
                    await _until_bound(scheduler, pods)
                own = time.process_time() - own
                spent = {pid: processor.used_s(pid) - before[pid] for pid in (master, *others)}
                bound = scheduler.attempts.using.figures.bound_total
        # A store that is not of this run's own is left as it was.
        await schedule.remove(
            await schedule.connections_to(config), ("/api/v1/namespaces/default/pods", "/api/v1/nodes")
        )
    own *= 1 - sampler.samples["bench"] / max(1, sum(sampler.samples.values()))
    schedulers = own + sum(spent[pid] for pid in others)
    shares = sampler.shares()
    # The sampled scheduler decided its own pods and followed all: per pod that it decided, and per pod.
    per_activity = {
        f"scheduler: {name}": shares.get(name, 0.0) * own / (pods if name == "following" else max(bound, 1))
        for name in _SPLIT
    }
    return {"API and store": spent[master] / pods, "all schedulers": schedulers / pods, **per_activity}


@contextlib.asynccontextmanager
async def _scheduling(client: Client) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(
        client,
        third_party.default(builtin.registry()),
        clock=system.SystemClock(),
        rng=system.rng(),
        identity=f"bench-{os.getpid()}",
        shard=InstanceSettings(name="sampled", shard_of=_MAP),
    )
    running = asyncio.ensure_future(scheduler.run())
    try:
        yield scheduler
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def _until_bound(scheduler: Scheduler, pods: int) -> None:
    """Wait until the sampled scheduler's own copy of the cluster shows all pods on nodes."""
    async with asyncio.timeout(_LONGEST_S):
        while True:
            if len(scheduler.cache.cluster.pods) - len(scheduler.cache.assumed) >= pods:
                return
            await asyncio.sleep(_LOOK_S)


async def _create(client: Client, target: tuple[str, str, str], objects: list[dict[str, Any]]) -> None:
    namespace = objects[0]["metadata"].get("namespace", "")
    for start in range(0, len(objects), _AT_ONCE):
        for made in await bulk_create.create(client, target, objects[start : start + _AT_ONCE], namespace=namespace):
            if isinstance(made, Exception):
                raise made


def _node(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}"},
        "status": {
            "allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(number: int) -> dict[str, Any]:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {"containers": [container]},
    }
