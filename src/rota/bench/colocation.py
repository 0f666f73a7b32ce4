"""Benchmark of colocation: the latency of a service alone, beside batch pods, and beside ordinary pods.

The processes, their cgroups and the control loop are those of a worker; there is no API server. Each side runs the same
service and client. `batch` adds hogs in the batch tier, with the loop that sets its quota; `ordinary` adds the same
hogs as ordinary containers with small requests, without the loop. The sides take turns (`rounds`).
"""

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from rota.bench import rounds
from rota.bench.report import Result
from rota.bench.rounds import Paired
from rota.kit import system
from rota.kit.errors import UserError
from rota.worker import host_resources
from rota.worker.colocation.colocation import EVERY_S, Colocation, ColocationSettings
from rota.worker.colocation.measurements import Measurements
from rota.worker.host_resources import HostResources
from rota.worker.pod_machine.pods import Pod
from rota.worker.runtimes.process.runtime import ProcessRuntime
from rota.worker.runtimes.runtime_interface import Launch, Limits, Runtime

SIDES: Final = ("alone", "batch", "ordinary")
#: The goals: the 99th percentile beside batch pods, as a part of that of the service alone, and what batch gets of what
#: others leave.
WORST: Final = 1.2
LEAST_SHARE: Final = 0.7
_MODULE: Final = "rota.bench.colocation_load"
#: Until the quota of new batch pods has risen.
_SETTLE_S: Final = 7.0
_LONGEST_S: Final = 120.0
_STEPS: Final = 50


def measure(*, store_url: str, quick: bool) -> list[Result]:
    """All figures; uses no store."""
    with tempfile.TemporaryDirectory(prefix="rota-colocation-") as folder:
        bench = _Bench(Path(folder), seconds=3.0 if quick else 10.0)
        sides = {side: (lambda side=side: asyncio.run(bench.round(side))) for side in SIDES}
        found = rounds.alternate(sides, rounds=2 if quick else rounds.ROUNDS, warm_up=0 if quick else 1)
    return _figures(found)


def _figures(found: Mapping[str, Mapping[str, list[float]]]) -> list[Result]:
    results = []
    for name in ("p50", "p99"):
        results.append(rounds.alone(f"{name} of the service alone", found["alone"][name], unit="ms"))
        for side in ("batch", "ordinary"):
            goal = 1 / WORST if (name, side) == ("p99", "batch") else None
            pair = Paired(found[side][name], found["alone"][name])
            title = f"{name} beside {side} pods"
            results.append(rounds.compared(title, pair, unit="ms", against="alone", more_is_better=False, goal=goal))
    for side in ("batch", "ordinary"):
        shares = found[side]["share"]
        figure = rounds.alone(f"what {side} pods get of what others leave", [100 * one for one in shares], unit="%")
        results.append(figure)
    middle = statistics.median(found["batch"]["share"])
    results[-2] = Result(
        name=results[-2].name,
        value=results[-2].value,
        unit="%",
        goal=f"at least {LEAST_SHARE:.0%}",
        met=middle >= LEAST_SHARE,
        spread=results[-2].spread,
        rounds=results[-2].rounds,
    )
    results.append(rounds.alone("processor time of the loop", found["batch"]["loop"], unit="% of a core"))
    return results


class _Bench:
    """Runs one side at a time."""

    def __init__(self, folder: Path, *, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._number = 0

    async def round(self, side: str) -> Mapping[str, float]:
        """The figures of one side in one round."""
        self._number += 1
        folder = self._folder / str(self._number)
        await asyncio.to_thread(folder.mkdir)
        async with _node(folder) as node:
            await node.start("service", "serve", str(folder / "socket"), limits=Limits(cpu_request_milli=1000))
            await _until((folder / "socket").exists, "the service")
            hogs = 0 if side == "alone" else 2 * node.cores
            limits = Limits(cpu_request_milli=100, memory_bytes=256 * 1024**2, batch=side == "batch")
            for number in range(hogs):
                await node.start(f"hog-{number}", "hog", limits=limits)
            async with contextlib.AsyncExitStack() as stack:
                if side == "batch":
                    stack.push_async_callback(_cancelled, asyncio.create_task(node.colocation.run()))
                await asyncio.sleep(_SETTLE_S if side == "batch" else 1.0)
                return await self._measured(node, folder, hogs)

    async def _measured(self, node: "_Node", folder: Path, hogs: int) -> dict[str, float]:
        machine = Measurements(lambda: None, clock=system.SystemClock())
        machine.take()
        before = node.hogs_s()
        answers = folder / "latencies"
        await node.start(
            "client", "ask", str(folder / "socket"), str(self._seconds), str(answers),
            limits=Limits(cpu_request_milli=1000),
        )  # fmt: skip
        await _until(answers.exists, "the end of the client")
        sample = machine.take()
        assert sample is not None, "it is the second one"
        used = (node.hogs_s() - before) / sample.elapsed_s
        left = node.cores - (sample.others_milli / 1e3 - used)
        latencies = statistics.quantiles(json.loads(answers.read_text(encoding="utf-8")), n=100)
        found = {"p50": latencies[49], "p99": latencies[98]}
        if hogs:
            found["share"] = used / left
            found["loop"] = node.step_s() / EVERY_S * 100
        return found


class _Node:
    """A runtime without a worker, and the control loop of its batch tier."""

    def __init__(self, runtime: ProcessRuntime) -> None:
        self._runtime = runtime
        self.cores = len(os.sched_getaffinity(0))
        machine = HostResources(
            node="bench", address="127.0.0.1", capacity={}, allocatable={}, sold=host_resources.sellable()
        )
        self.colocation = Colocation(self, machine, dict, settings=ColocationSettings(), clock=system.SystemClock())

    @property
    def runtime(self) -> Runtime:
        """See `colocation.Holder`."""
        return self._runtime

    def pods(self) -> Iterable[Pod]:
        """There are containers only: nothing is sold or evicted."""
        return ()

    def evict(self, uid: str, message: str) -> None:
        """Nothing is evicted."""

    async def start(self, name: str, *arguments: str, limits: Limits) -> None:
        """Start a program of the benchmark."""
        launch = Launch(
            uid=name,
            namespace="bench",
            pod=name,
            container="c",
            run=0,
            image="",
            command=[sys.executable, "-m", _MODULE],
            args=list(arguments),
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ.get("PATH", "")},
            limits=limits,
        )
        await self._runtime.start(launch)

    def step_s(self) -> float:
        """The processor time of one step of the loop."""
        begin = time.thread_time()
        for _ in range(_STEPS):
            self.colocation.step()
        return (time.thread_time() - begin) / _STEPS

    def hogs_s(self) -> float:
        """The cpu time of all hogs so far."""
        total = 0.0
        for run, place in self._runtime.places().items():
            if run.startswith("hog"):
                fields = Path(f"/proc/{place.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return total


@contextlib.asynccontextmanager
async def _node(folder: Path) -> AsyncIterator[_Node]:
    runtime = ProcessRuntime(folder / "runtime", node="bench", clock=system.SystemClock())
    if runtime.batch_tier() is None:
        raise UserError("colocation needs cgroups with cpu and memory", "run the benchmark as root")
    await runtime.open(lambda _: None)
    try:
        yield _Node(runtime)
    finally:
        for run in list(runtime.places()):
            await runtime.stop(run, 0)
        await _until(lambda: not runtime.places(), "the end of all processes")
        await runtime.close()


async def _until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(int(_LONGEST_S / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise UserError(f"waited {_LONGEST_S:.0f} s for {what}", "look for what else uses this machine")


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
