"""Benchmark of tasks from end to end: from their creation until a watcher sees them finished, or running.

A complete cluster (API server, scheduler, controllers, three workers and their processes) runs as `rota up` runs it,
on the measured store; this process creates pods over HTTP and watches. In the same run, the same commands are
spawned directly. `docs/benchmarks.md` describes the measurements.
"""

import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import zlib
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Final

import uvloop

from rota import assembly, control_plane
from rota.bench import report
from rota.bench.http import Connection
from rota.bench.report import Result, duration, rate
from rota.kit import logs
from rota.scheduler.binding import dispatch_mode
from rota.worker.runtimes.process.cgroups import ControlGroups

WORKERS: Final = 3
#: How many tasks are created, and how many processes spawned, at a time.
AT_ONCE: Final = 16
#: Tasks per request in batched submission, which all compared systems support.
TOGETHER: Final = 250
RAW: Final = f"spawning the same processes from asyncio, {AT_ONCE} at a time, in the same run"
#: The goal for submission to running with push, in milliseconds: median and 99th percentile.
MEDIAN_MS: Final = 100.0
P99_MS: Final = 500.0
#: The factor for pull.
PULL: Final = 1.5
PER_SECOND: Final = 50
#: The goals for an idle cluster.
IDLE_PERCENT: Final = 2.0
IDLE_MIB: Final = 300.0
_NOTHING: Final = "/bin/true"
_FINISHED: Final = (b'"phase":"Succeeded"',)
#: A master that is far behind may report only the end of a task.
_BEGUN: Final = (b'"phase":"Running"', *_FINISHED)
_LONGEST_S: Final = 300.0
#: A cluster that uses at most this part of a core for this long is idle.
_SETTLED_S: Final = 1.0
_QUIET: Final = 0.1
#: A process may exit between its listing and its reading.
_GONE: Final = (FileNotFoundError, ProcessLookupError)
_PODS: Final = "/api/v1/namespaces/default/pods"


def measure(*, store_url: str, quick: bool) -> list[Result]:
    """Rate, latency and idle cost, each on a fresh store beside `store_url`; see `rota bench`."""
    url = (f"{store_url}-{number}" if store_url.startswith("sqlite") else store_url for number in itertools.count())
    count, seconds = (200, 2) if quick else (1000, 20)
    results = []
    for mode in dispatch_mode.MODES:
        with cluster(next(url), mode) as running:
            results += _throughput(running, mode, count, rounds=1 if quick else 3)
            results += uvloop.run(_latency(running, mode, seconds))
    with cluster(next(url), dispatch_mode.PULL) as running:
        results += _idle(running, seconds)
    return results


# --- how many -------------------------------------------------------------------------------------------------------


def _throughput(running: "Cluster", mode: str, count: int, *, rounds: int) -> list[Result]:
    uvloop.run(finished(running, 30))  # warm-up: starts and imports of the first tasks are not part of a task's cost
    uvloop.run(clean_up(running))
    ours, singly, raw, spent = [], [], [], []
    for _ in range(rounds):
        # On asyncio's own loop, which spawns several times faster than uvloop.
        raw.append(count / asyncio.run(spawned(count)))
        before = running.cpu_s()
        ours.append(count / uvloop.run(finished(running, count, together=True)))
        spent.append((running.cpu_s() - before) / count * 1000)
        uvloop.run(clean_up(running))
        singly.append(count / uvloop.run(finished(running, count)))
        uvloop.run(clean_up(running))
    title = f"{count:,} tasks that do nothing, {WORKERS} workers, {mode}"
    return [
        rate(title, report.median(ours), report.median(raw), against=RAW),
        rate(f"the same submitted one by one, {mode}", report.median(singly), report.median(raw), against=RAW),
        Result(name=f"processor time for each, tasks included, {mode}", value=report.median(spent), unit="ms"),
    ]


async def spawned(count: int) -> float:
    """The time to run a number of processes directly."""
    left = iter(range(count))

    async def spawner() -> None:
        for _ in left:
            process = await asyncio.create_subprocess_exec(_NOTHING, stdin=asyncio.subprocess.DEVNULL)
            await process.wait()

    begin = time.perf_counter()
    await asyncio.gather(*(spawner() for _ in range(AT_ONCE)))
    return time.perf_counter() - begin


async def finished(running: "Cluster", count: int, *, together: bool = False) -> float:
    """How long it takes until a watcher has seen so many tasks succeed; they stay until `clean_up`.

    They are submitted together, many with each request, or else one by one.
    """
    names = [running.name() for _ in range(count)]
    async with _watching(running, _FINISHED, names) as seen:
        begin = time.perf_counter()
        submit = _create_together if together else _create
        await submit(running, [_task(name, _NOTHING) for name in names])
        await asyncio.wait_for(seen, _LONGEST_S)
        return time.perf_counter() - begin


async def _create_together(running: "Cluster", bodies: list[bytes]) -> None:
    connection = await running.connect()
    for start in range(0, len(bodies), TOGETHER):
        items = b'{"items":[%b]}' % b",".join(bodies[start : start + TOGETHER])
        code, answer = await connection.request("POST", f"{_PODS}?batch=true", items)
        if code != 201 or b'"Failure"' in answer:
            raise RuntimeError(f"tasks were answered with {code}: {answer[:500].decode()}")
    connection.close()


async def _create(running: "Cluster", bodies: list[bytes]) -> None:
    left = iter(bodies)

    async def creator() -> None:
        connection = await running.connect()
        for body in left:
            await _post(connection, body)
        connection.close()

    await asyncio.gather(*(creator() for _ in range(AT_ONCE)))


# --- how soon -------------------------------------------------------------------------------------------------------


async def _latency(running: "Cluster", mode: str, seconds: int) -> list[Result]:
    """Tasks at a steady pace, each timed from the sending of its creation to the sight of it running."""
    names = [running.name() for _ in range(PER_SECOND * seconds)]
    sent: dict[str, float] = {}
    connections = [await running.connect() for _ in range(AT_ONCE)]
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for connection in connections:
        idle.put_nowait(connection)

    async def submit(name: str) -> None:
        connection = await idle.get()
        sent[name] = time.perf_counter()
        await _post(connection, _task(name, "/bin/sleep", "1"))
        idle.put_nowait(connection)

    async with _watching(running, _BEGUN, names) as seen:
        begin = time.perf_counter()
        submitted = []
        for number, name in enumerate(names):
            await asyncio.sleep(begin + number / PER_SECOND - time.perf_counter())
            submitted.append(asyncio.ensure_future(submit(name)))
        await asyncio.gather(*submitted)
        times = await asyncio.wait_for(seen, _LONGEST_S)
    for connection in connections:
        connection.close()
    await clean_up(running)
    took = sorted((times[name] - sent[name]) * 1000 for name in names)
    factor = 1.0 if mode == dispatch_mode.PUSH else PULL
    title = f"submitted to running at {PER_SECOND} tasks/s, {mode}"
    return [
        duration(f"{title}, median", took[len(took) // 2], MEDIAN_MS * factor, against=f"{MEDIAN_MS * factor:g} ms"),
        duration(f"{title}, p99", took[len(took) * 99 // 100], P99_MS * factor, against=f"{P99_MS * factor:g} ms"),
    ]


# --- what nothing costs ---------------------------------------------------------------------------------------------


def _idle(running: "Cluster", seconds: int) -> list[Result]:
    time.sleep(min(seconds, 5.0))  # background work of the start is not part of the idle cost
    before, begin = running.cpu_s(), time.perf_counter()
    time.sleep(seconds)
    percent = (running.cpu_s() - before) / (time.perf_counter() - begin) * 100
    what = f"idle with {WORKERS} workers"
    return [
        duration(f"{what}: of a core", percent, IDLE_PERCENT, against=f"{IDLE_PERCENT:g} %", unit="%"),
        duration(f"{what}: memory", running.memory_mib(), IDLE_MIB, against=f"{IDLE_MIB:g} MiB", unit="MiB"),
    ]


# --- watching -------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _watching(running: "Cluster", marks: tuple[bytes, ...], names: list[str]) -> Any:
    """A future with the times at which each of the pods was first seen with one of the marks in it."""
    connection = await running.connect()
    newest = json.loads((await connection.request("GET", f"{_PODS}?limit=1"))[1])["metadata"]["resourceVersion"]
    path = f"{_PODS}?watch=true&resourceVersion={newest}"
    following = asyncio.ensure_future(_follow(connection, path, marks, {name.encode() for name in names}))
    await asyncio.sleep(0.1)
    try:
        yield following
    finally:
        following.cancel()
        connection.close()


async def _follow(connection: Connection, path: str, marks: tuple[bytes, ...], waiting: set[bytes]) -> dict[str, float]:
    times = {}
    async for line in connection.lines(path):
        if any(mark in line for mark in marks):
            at = line.index(b'"name":"') + 8
            name = line[at : line.index(b'"', at)]
            if name in waiting:
                waiting.discard(name)
                times[name.decode()] = time.perf_counter()
                if not waiting:
                    break
    return times


async def _post(connection: Connection, body: bytes) -> None:
    code, answer = await connection.request("POST", _PODS, body)
    if code != 201:
        raise RuntimeError(f"a task was answered with {code}: {answer[:500].decode()}")


async def clean_up(running: "Cluster") -> None:
    """Remove all tasks, and wait until the workers have cleaned up, so that later measurements are not affected."""
    connection = await running.connect()
    now = json.dumps({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}).encode()
    await connection.request("DELETE", _PODS, now)
    connection.close()
    spent = running.cpu_s()
    for _ in range(int(_LONGEST_S / _SETTLED_S)):
        await asyncio.sleep(_SETTLED_S)
        before, spent = spent, running.cpu_s()
        if spent - before < _SETTLED_S * _QUIET:
            return


def _task(name: str, *command: str) -> bytes:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "task", "image": "none", "command": command}]},
    }
    return json.dumps(pod, separators=(",", ":")).encode()


# --- the cluster ----------------------------------------------------------------------------------------------------


class Cluster:
    """A running Rota."""

    def __init__(self, port: int, process: int) -> None:
        self._port: Final = port
        self._process: Final = process
        self._numbers: Final = itertools.count()

    def name(self) -> str:
        """A name for a task that no other has had."""
        return f"task-{next(self._numbers)}"

    async def connect(self) -> Connection:
        """A connection to its API."""
        return await Connection.open("127.0.0.1", self._port)

    def cpu_s(self) -> float:
        """The processor time that it has used, including that of ended child processes."""
        ticks = 0
        for pid in self._family():
            with contextlib.suppress(*_GONE):
                fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
                ticks += sum(int(field) for field in fields[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        """The memory of all its processes; shared memory is counted once."""
        total = 0
        for pid in self._family():
            with contextlib.suppress(*_GONE):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024

    def _family(self) -> list[int]:
        found = [self._process]
        for pid in found:
            with contextlib.suppress(*_GONE):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    found += [int(child) for child in (thread / "children").read_text(encoding="ascii").split()]
        return found


@contextlib.contextmanager
def cluster(store_url: str, dispatch: str) -> Iterator[Cluster]:
    """A complete cluster in a separate process."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    data = Path(tempfile.mkdtemp(prefix="rota-bench-"))
    child = spawn.Process(target=_serve, args=(store_url, data, dispatch, theirs))
    child.start()
    theirs.close()
    try:
        yield Cluster(ours.recv(), child.pid or 0)
    finally:
        # the child serves until this end of the pipe is closed
        ours.close()
        child.join()
        for node in (data / "workers").glob("*-*"):
            # Kept for a restarted worker; these workers do not restart.
            mark = zlib.crc32(str((node / "runtime").absolute()).encode())
            ControlGroups(f"rota-{node.name}-{mark:08x}").close()
        shutil.rmtree(data, ignore_errors=True)


def _serve(store_url: str, data: Path, dispatch: str, pipe: Pipe) -> None:
    """Run `rota up`; sends the port, and ends when the pipe is closed."""
    logs.configure(level="warning")
    settings = control_plane.Settings(
        data=data, port=0, http_port=0, workers=WORKERS, dispatch=dispatch, workers_apart=True, alone=True
    )

    def ready(facts: dict[str, str]) -> None:
        loop = asyncio.get_running_loop()

        def end() -> None:
            loop.remove_reader(pipe.fileno())
            signal.raise_signal(signal.SIGTERM)

        loop.add_reader(pipe.fileno(), end)
        pipe.send(int(facts["http"].rsplit(":", 1)[1]))

    assembly.run(assembly.run_local(store_url, settings, ready=ready))
