"""Schedulers that are killed and suspended at random on a full cluster, while an observer adds up every node.

Pods are created until nothing fits, and some of them are deleted, again and again. The schedulers share the pods by a
shard map; a killed one is started again, a suspended one resumed. The master is restarted now and then. The invariant
is that no node ever has more than it can give, at any revision that the watch shows.
"""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rota.api import errors
from rota.client import client_factory
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import system
from rota.testing.allocation_observer import AllocationObserver
from rota.testing.clusters import make_node, make_pod
from rota.testing.process_cluster import ProcessCluster

_NODES: Final = ("", "v1", "nodes")
_NODE_COUNT, _SLOTS = 10, 20
#: Pods that exist at once: more than fit, so that every place is wanted by several.
_POPULATION: Final = 300
_AWAY_S: Final = (0.5, 6.0)
_PAUSE_S: Final = 1.0
_START_S: Final = 300.0


class _Scheduler:
    """One scheduler process, started again whenever it was killed."""

    def __init__(self, config: Path, name: str) -> None:
        command = (sys.executable, "-m", "rota", "scheduler", "--kubeconfig", str(config))
        self._command: Final = (*command, "--shard-of", "default", "--instance", name)
        self.name: Final = name
        self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def kill(self, away_s: float) -> None:
        self._process.kill()
        self._process.wait(30)
        await asyncio.sleep(away_s)
        self._process = self._started()

    async def pause(self, away_s: float) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)
        await asyncio.sleep(away_s)
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(30)


async def run(
    folder: Path, *, schedulers: int, seconds: float, seed: int, say: Callable[[str], None]
) -> AllocationObserver:
    """Run for some time; AssertionError at the first oversold node. The observer has the number of bindings."""
    clock, rng, chance = system.SystemClock(), system.rng(), random.Random(seed)  # noqa: S311 - to be repeated
    observer = AllocationObserver()
    with ProcessCluster(folder, store_url=f"sqlite:///{folder}/store.db") as cluster, contextlib.ExitStack() as stack:
        master = cluster.master("m1", "--scheduler", "off", "--controllers", "")
        running = [_Scheduler(master.folder / "kubeconfig", f"s{number}") for number in range(schedulers)]
        for one in running:
            stack.callback(one.end)
        async with client_factory.to_server(master.endpoint(), clock=clock, rng=rng) as client:
            for number in range(_NODE_COUNT):
                node = make_node(f"n{number}", cpu=str(_SLOTS // 10), pods="200")
                await client.create(_NODES, {"apiVersion": "v1", **node})
            async with observer.following(client, clock=clock, rng=rng):
                work = asyncio.ensure_future(_keep_full(client, chance))
                try:
                    await _until_full(observer)
                    until = clock.monotonic() + seconds
                    while clock.monotonic() < until:
                        await _harm(running, chance, say)
                        assert not observer.violations, f"oversold: {observer.violations[0]}"
                        assert not work.done(), work.exception()
                        if chance.random() < 0.1:
                            say(f"restart the master; {observer.bindings} bindings so far")
                            await asyncio.to_thread(master.kill)
                            await asyncio.to_thread(master.start)
                finally:
                    work.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await work
    assert not observer.violations, f"oversold: {observer.violations[0]}"
    return observer


async def _until_full(observer: AllocationObserver) -> None:
    """Wait until the schedulers have started and filled the cluster once."""
    async with asyncio.timeout(_START_S):
        while True:
            if observer.bindings >= _NODE_COUNT * _SLOTS:
                return
            await asyncio.sleep(_PAUSE_S / 10)


async def _harm(running: list[_Scheduler], chance: random.Random, say: Callable[[str], None]) -> None:
    """Kill or suspend some of the schedulers, for some time, at the same time."""
    some = chance.sample(running, chance.randint(1, max(1, len(running) - 1)))
    away_s = chance.uniform(*_AWAY_S)
    harm = chance.choice(("kill", "pause"))
    say(f"{harm} {', '.join(one.name for one in some)} for {away_s:.1f} s")
    await asyncio.gather(*((one.kill if harm == "kill" else one.pause)(away_s) for one in some))
    await asyncio.sleep(_PAUSE_S)


async def _keep_full(client: Client, chance: random.Random) -> None:
    """Have more pods than fit, and delete some that are bound, until cancelled."""
    number = 0
    while True:
        try:
            pods: list[Any] = (await client.list(PODS)).items
            for _ in range(_POPULATION - len(pods)):
                pod = {"apiVersion": "v1", **make_pod(f"p{number}", cpu="100m")}
                del pod["metadata"]["uid"]
                number += 1
                await client.create(PODS, pod)
            bound = [one["metadata"]["name"] for one in pods if one["spec"].get("nodeName")]
            for name in chance.sample(bound, len(bound) // 4):
                await client.delete(PODS, name, namespace="default", grace_period_s=0)
        except (errors.ApiError, TransportError):
            # The master restarts; what was sent may or may not have happened.
            number += 1
        await asyncio.sleep(0.2)
