"""Benchmark of pipelines from end to end: a chain, where every step waits for the previous one, and fan-outs.

A complete cluster with three workers runs as in `rota.bench.tasks`. A run is timed from the request that creates it
until a watcher sees its end. A watcher of the chain's pods records when each is created, bound and finished. The
time from creation to binding is assignment, from binding to the end execution (including the start of the process
and the report of its end), and from one pod's end to the creation of the next transition.
"""

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import uvloop

from rota.bench import report, tasks
from rota.bench.report import Result, duration, rate
from rota.bench.tasks import Cluster
from rota.scheduler.binding import dispatch_mode

CHAIN: Final = 40
CHAIN_S: Final = 2.0
WIDE: Final = 400
SLOTS: Final = 10
#: The size of the wide run: steps, and how many at a time.
WIDEST: Final = 10_000
WIDEST_SLOTS: Final = 100
_GROUP: Final = "/apis/rota.dev/v1alpha1/namespaces/default"
_PODS: Final = "/api/v1/namespaces/default/pods"
_LONGEST_S: Final = 1800.0
#: The interval of memory samples.
_LOOK_S: Final = 2.0
_TEMPLATE: Final = {
    "spec": {"containers": [{"name": "task", "image": "none", "command": ["/bin/true"]}]},
}


class Life(NamedTuple):
    """When a pod was first seen, first seen with a node, and first seen at its end."""

    made: float
    placed: float
    over: float


def measure(*, store_url: str, quick: bool) -> list[Result]:
    """A chain, a fan-out, and without `--quick` a very wide one; see `rota bench`."""
    url = (f"{store_url}-{number}" if store_url.startswith("sqlite") else store_url for number in itertools.count())
    wide, rounds = (100, 1) if quick else (WIDE, 3)
    with tasks.cluster(next(url), dispatch_mode.PUSH) as running:
        results = uvloop.run(_chain(running, rounds=rounds))
        results += uvloop.run(_fan_out(running, wide, rounds=rounds))
    if not quick:
        with tasks.cluster(next(url), dispatch_mode.PUSH) as running:
            results += uvloop.run(_widest(running))
    return results


async def _chain(running: Cluster, *, rounds: int) -> list[Result]:
    steps = [
        {"name": f"s{number}", "template": _TEMPLATE, **({"dependsOn": [f"s{number - 1}"]} if number else {})}
        for number in range(CHAIN)
    ]
    await _run(running, {"steps": steps[:2]})  # warm-up: imports of the first run are not part of a step's cost
    took = [await _run(running, {"steps": steps}) * 1000 for _ in range(rounds)]
    # the watcher has a cost, too: the watched chain is not the timed one
    lives = await _seen(running, {"steps": steps})
    parts = {
        "assignment": [life.placed - life.made for life in lives],
        "execution": [life.over - life.placed for life in lives],
        "transition": [after.made - before.over for before, after in itertools.pairwise(lives)],
    }
    goal = CHAIN_S * 1000
    return [
        duration(f"a chain of {CHAIN} steps", report.median(took), goal, against=f"{CHAIN_S:g} s"),
        *(
            Result(name=f"chain, each step: {part}", value=report.median(values) * 1000, unit="ms")
            for part, values in parts.items()
        ),
    ]


async def _fan_out(running: Cluster, wide: int, *, rounds: int) -> list[Result]:
    """Compared with as many tasks at once, and with as many tasks in as many slots."""
    raw, held, ours, spent = [], [], [], []
    for _ in range(rounds):
        raw.append(wide / await tasks.finished(running, wide))
        await tasks.clean_up(running)
        held.append(wide / await _held_back(running, wide))
        await tasks.clean_up(running)
        before = running.cpu_s()
        ours.append(wide / await _run(running, _each(wide, SLOTS)))
        spent.append((running.cpu_s() - before) / wide * 1000)
        await tasks.clean_up(running)
    title = f"fan-out of {wide} over {SLOTS} slots, steps"
    against = f"{SLOTS} tasks at a time, the next when one is seen to end: {report.median(held):.0f}/s"
    return [
        rate(title, report.median(ours), report.median(raw), against=f"tasks at once: {report.median(raw):.0f}/s"),
        rate(f"{title}, beside tasks in as many slots", report.median(ours), report.median(held), against=against),
        Result(name="processor time for each step, the task included", value=report.median(spent), unit="ms"),
    ]


async def _held_back(running: Cluster, count: int) -> float:
    """The duration of a number of tasks with limited concurrency."""
    names = [running.name() for _ in range(count)]
    over = {name: asyncio.get_running_loop().create_future() for name in names}

    async def watch() -> None:
        async for pod in _events(running, _PODS, "fieldSelector=status.phase%3DSucceeded"):
            done = over.get(pod["metadata"]["name"])
            if done is not None and not done.done():
                done.set_result(None)

    async def slot(left: Iterator[str]) -> None:
        connection = await running.connect()
        for name in left:
            spec = {**_TEMPLATE["spec"], "restartPolicy": "Never"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            await connection.request("POST", _PODS, json.dumps(pod).encode())
            await over[name]
        connection.close()

    watching = asyncio.ensure_future(watch())
    begin, left = time.perf_counter(), iter(names)
    try:
        async with asyncio.timeout(_LONGEST_S):
            await asyncio.gather(*(slot(left) for _ in range(SLOTS)))
        return time.perf_counter() - begin
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _widest(running: Cluster) -> list[Result]:
    """A run of very many steps: its duration, memory, and the size of its objects."""
    await _run(running, _each(SLOTS, SLOTS))
    before = peak = running.memory_mib()

    async def look() -> None:
        nonlocal peak
        while True:
            await asyncio.sleep(_LOOK_S)
            peak = max(peak, running.memory_mib())

    looking = asyncio.ensure_future(look())
    try:
        async with _running(running, _each(WIDEST, WIDEST_SLOTS)) as name:
            begin = time.perf_counter()
            await _over(running, name)
            took = time.perf_counter() - begin
            largest = await _largest(running, name)
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    return [
        Result(name=f"{WIDEST:,} steps of one run", value=WIDEST / took, unit="1/s"),
        Result(name=f"{WIDEST:,} steps of one run: memory that they add at most", value=peak - before, unit="MiB"),
        *(
            Result(name=f"{WIDEST:,} steps of one run: largest {kind}", value=size / 1024, unit="KiB")
            for kind, size in largest.items()
        ),
    ]


async def _largest(running: Cluster, name: str) -> dict[str, int]:
    """How many bytes the run has, and the largest of its step runs."""
    connection = await running.connect()
    _, run = await connection.request("GET", f"{_GROUP}/pipelineruns/{name}")
    largest, more = 0, ""
    while True:
        query = f"labelSelector=rota.dev%2Fpipeline-run%3D{name}&limit=500&continue={more}"
        listed = json.loads((await connection.request("GET", f"{_GROUP}/stepruns?{query}"))[1])
        sizes = (len(json.dumps(one, separators=(",", ":"))) for one in listed["items"])
        largest, more = max(largest, *sizes), listed["metadata"].get("continue")
        if not more:
            break
    connection.close()
    return {"run": len(run), "step run": largest}


def _each(count: int, slots: int) -> dict[str, Any]:
    step = {"name": "wide", "template": _TEMPLATE, "forEach": {"items": list(range(count))}, "parallelism": slots}
    return {"steps": [step]}


# --- runs -----------------------------------------------------------------------------------------------------------


async def _run(running: Cluster, spec: Mapping[str, Any]) -> float:
    """How long a run takes."""
    begin = time.perf_counter()
    async with _running(running, spec) as name:
        await _over(running, name)
        return time.perf_counter() - begin


@contextlib.asynccontextmanager
async def _running(running: Cluster, spec: Mapping[str, Any]) -> AsyncIterator[str]:
    """A run, which is removed in the end."""
    name = running.name()
    body = {
        "apiVersion": "rota.dev/v1alpha1",
        "kind": "PipelineRun",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"pipelineSpec": spec},
    }
    connection = await running.connect()
    code, answer = await connection.request("POST", f"{_GROUP}/pipelineruns", json.dumps(body).encode())
    if code != 201:
        raise RuntimeError(f"a run was answered with {code}: {answer[:500].decode()}")
    try:
        yield name
    finally:
        await connection.request("DELETE", f"{_GROUP}/pipelineruns/{name}")
        connection.close()


async def _over(running: Cluster, name: str) -> None:
    """Wait for the end of a run."""
    async with asyncio.timeout(_LONGEST_S):
        async for run in _events(running, f"{_GROUP}/pipelineruns", f"fieldSelector=metadata.name%3D{name}"):
            phase = (run.get("status") or {}).get("phase")
            if phase == "Succeeded":
                return
            if phase in {"Failed", "Cancelled"}:
                raise RuntimeError(f"the run {phase.lower()}: {json.dumps(run['status'])[:500]}")


async def _seen(running: Cluster, spec: Mapping[str, Any]) -> Sequence[Life]:
    """A run's pods in the order of creation, as a watcher sees them."""
    times: dict[str, dict[str, float]] = {}

    async def watch(name: str) -> None:
        async for pod in _events(running, _PODS, f"labelSelector=rota.dev%2Fpipeline-run%3D{name}"):
            known = times.setdefault(pod["metadata"]["name"], {})
            now = time.perf_counter()
            known.setdefault("made", now)
            if pod["spec"].get("nodeName"):
                known.setdefault("placed", now)
            if pod["status"].get("phase") == "Succeeded":
                known.setdefault("over", now)

    async with _running(running, spec) as name:
        watching = asyncio.ensure_future(watch(name))
        try:
            await _over(running, name)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    whole = [Life(**known) for known in times.values() if len(known) == len(Life._fields)]
    return sorted(whole, key=lambda life: life.made)


async def _events(running: Cluster, path: str, query: str) -> AsyncIterator[dict[str, Any]]:
    """The events of a collection: existing objects, then changes."""
    connection = await running.connect()
    try:
        async for line in connection.lines(f"{path}?watch=true&{query}"):
            yield json.loads(line)["object"]
    finally:
        connection.close()
