"""How fast pipelines run from end to end: a chain, where every step waits for the one before, and a fan-out.

A whole Rota with three workers runs as in `rota.bench.tasks`. A run is timed from the sending of its creation to the
sight of its end. Of a chain it is told what lies between the end of a step and the beginning of the next (transition),
and what a step takes from there to its end (assignment and execution together: starting the process is part of both).
"""

import asyncio
import itertools
import json
import time
from typing import Any, Final

import uvloop

from rota.api import times
from rota.bench import report, tasks
from rota.bench.http import Connection
from rota.bench.report import Result, duration, rate
from rota.bench.tasks import Cluster
from rota.scheduler import dispatching

CHAIN: Final = 40
CHAIN_S: Final = 2.0
WIDE: Final = 400
SLOTS: Final = 10
_GROUP: Final = "/apis/rota.dev/v1alpha1/namespaces/default"
_LONGEST_S: Final = 600.0
_LOOK_S: Final = 0.01
_TEMPLATE: Final = {
    "spec": {"containers": [{"name": "task", "image": "none", "command": ["/bin/true"]}]},
}


def measure(*, store_url: str, quick: bool) -> list[Result]:
    """A chain, a fan-out, and with time to spare a very wide one; see `rota bench`."""
    url = (f"{store_url}-{number}" if store_url.startswith("sqlite") else store_url for number in itertools.count())
    wide, widest = (100, 0) if quick else (WIDE, 10_000)
    with tasks.cluster(next(url), dispatching.PUSH) as running:
        results = uvloop.run(_chain(running, rounds=1 if quick else 3))
        raw = wide / uvloop.run(tasks.finished(running, wide))
        took, _ = uvloop.run(_run(running, _fan_out(wide, SLOTS)))
        against = f"the same number of tasks without a pipeline, in the same run: {raw:.0f}/s"
        results.append(rate(f"fan-out of {wide} over {SLOTS} slots, steps", wide / took, raw, against=against))
    if widest:
        with tasks.cluster(next(url), dispatching.PUSH) as running:
            before = running.memory_mib()
            took, _ = uvloop.run(_run(running, _fan_out(widest, 100)))
            grown = running.memory_mib() - before
        results.append(Result(name=f"{widest:,} steps of one run", value=widest / took, unit="1/s"))
        results.append(Result(name=f"{widest:,} steps of one run: memory that they add", value=grown, unit="MiB"))
    return results


async def _chain(running: Cluster, *, rounds: int) -> list[Result]:
    steps = [
        {"name": f"s{number}", "template": _TEMPLATE, **({"dependsOn": [f"s{number - 1}"]} if number else {})}
        for number in range(CHAIN)
    ]
    await _run(running, {"steps": steps[:2]})  # what is loaded with the first of them is not what a step costs
    took, between, within = [], [], []
    for _ in range(rounds):
        seconds, step_runs = await _run(running, {"steps": steps})
        took.append(seconds * 1000)
        known = sorted(step_runs, key=lambda one: int(one["spec"]["step"][1:]))
        spans = [(times.parse(one["status"]["startedAt"]), times.parse(one["status"]["finishedAt"])) for one in known]
        within += [(end - begin) * 1000 for begin, end in spans]
        between += [(after[0] - before[1]) * 1000 for before, after in itertools.pairwise(spans)]
    goal = CHAIN_S * 1000
    return [
        duration(f"a chain of {CHAIN} steps", report.median(took), goal, against=f"{CHAIN_S:g} s"),
        Result(name="chain, each step: assignment and execution", value=report.median(within), unit="ms"),
        Result(name="chain, each step: transition", value=report.median(between), unit="ms"),
    ]


def _fan_out(count: int, slots: int) -> dict[str, Any]:
    step = {"name": "wide", "template": _TEMPLATE, "forEach": {"items": list(range(count))}, "parallelism": slots}
    return {"steps": [step]}


async def _run(running: Cluster, spec: dict[str, Any]) -> tuple[float, list[dict[str, Any]]]:
    """How long a run takes, and its step runs."""
    name = running.name()
    body = {
        "apiVersion": "rota.dev/v1alpha1",
        "kind": "PipelineRun",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"pipelineSpec": spec},
    }
    connection = await running.connect()
    begin = time.perf_counter()
    code, answer = await connection.request("POST", f"{_GROUP}/pipelineruns", json.dumps(body).encode())
    if code != 201:
        raise RuntimeError(f"a run was answered with {code}: {answer[:500].decode()}")
    await asyncio.wait_for(_until_over(connection, name), _LONGEST_S)
    took = time.perf_counter() - begin
    _, listed = await connection.request("GET", f"{_GROUP}/stepruns?labelSelector=rota.dev%2Fpipeline-run%3D{name}")
    found = json.loads(listed)["items"]
    await connection.request("DELETE", f"{_GROUP}/pipelineruns/{name}")
    connection.close()
    return took, found


async def _until_over(connection: Connection, name: str) -> None:
    while True:
        _, answer = await connection.request("GET", f"{_GROUP}/pipelineruns/{name}")
        phase = (json.loads(answer).get("status") or {}).get("phase")
        if phase == "Succeeded":
            return
        if phase in {"Failed", "Cancelled"}:
            raise RuntimeError(f"the run {phase.lower()}: {answer[:500].decode()}")
        await asyncio.sleep(_LOOK_S)
