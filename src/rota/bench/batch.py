"""Benchmark of batch scheduling: passes over waiting gangs, passes after one change, gangs through the API, and the
cost of waiting.

Decisions are measured in processor time, on a mirror as in a live scheduler. The reference is the rate that Volcano's
unmodified scheduler reached in one session for the same shapes, on two cores, without an API server: 200 bindings a
second for 500 gangs of 20, 178 for 10,000 single pods. End to end is the time from the first creation of a pod until a
watcher has seen all of them bound, at a master with its scheduler in a process of its own.
"""

import asyncio
import gc
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop

from rota.bench import schedule, workloads
from rota.bench.report import Result, duration, rate
from rota.bench.schedule import Run
from rota.bench.workloads import NAMESPACE, Case
from rota.columns import members
from rota.columns.pod_interner import read_node
from rota.scheduler.batch import conf, passes, registry
from rota.scheduler.batch.mirror import Mirror
from rota.scheduler.batch.states import Commit
from rota.scheduler.cache.scheduler_cache import SchedulerCache

NODES: Final = 5_000
AGAINST: Final = "Volcano's scheduler, recorded"
#: The share of a core that an idle cluster may use.
IDLE_LIMIT_PERCENT: Final = 2.0
_GROUPS: Final = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
_IDLE_S: Final = 20.0


class Shape(NamedTuple):
    """Gangs of equal size, and the recorded rate of Volcano for them."""

    gangs: int
    pods: int
    reference: float

    @property
    def label(self) -> str:
        """As in reports."""
        return f"{self.gangs:,} gangs of {self.pods:,}"


SHAPES: Final = (Shape(500, 20, 200.0), Shape(20, 500, 200.0), Shape(10_000, 1, 178.0), Shape(1, 10_000, 200.0))
QUICK: Final = (Shape(50, 20, 200.0), Shape(500, 1, 178.0))


def measure(*, store_url: str, quick: bool) -> list[Result]:
    """Measure every shape; the API's master runs on fresh stores beside `store_url`."""
    shapes = QUICK if quick else SHAPES
    results = [_decided(shape) for shape in shapes]
    results += _after_a_change(running=2_000 if quick else 38_000, waiting=500 if quick else 10_000)
    for number, shape in enumerate(shapes):
        url = f"{store_url}-batch-{number}" if store_url.startswith("sqlite") else store_url
        results += uvloop.run(_end_to_end(shape, url, nodes=500 if quick else NODES))
    if not quick:
        results += uvloop.run(_idle(f"{store_url}-waiting", gangs=10_000))
    return results


def group(name: str, pods: int) -> dict[str, Any]:
    """A PodGroup of pods with a tenth of a core each."""
    resources = {"cpu": f"{100 * pods}m", "memory": f"{500 * pods}Mi"}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": pods, "queue": "default", "minResources": resources},
    }


def member(name: str, number: int, pods: int) -> dict[str, Any]:
    """A pod of the gang that its number falls into."""
    pod = workloads.identical(name, number)
    pod["metadata"]["annotations"] = {members.GROUPS[0]: f"gang-{number // pods}", "volcano.sh/task-spec": "w"}
    pod["spec"]["schedulerName"] = "volcano"
    return pod


def _empty(nodes: int) -> tuple[SchedulerCache, Mirror]:
    cache = SchedulerCache()
    for number in range(nodes):
        cache.set_node(read_node(workloads.node(number)))
    mirror = Mirror(cache.cluster)
    mirror.put_queue({"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}})
    return cache, mirror


def _after_a_change(*, running: int, waiting: int) -> list[Result]:
    """The processor time of a pass after one pod has ended, with groups that run and groups that wait."""
    nodes = max(running // 38, 1)
    cache, mirror = _empty(nodes)

    def put(number: int, phase: str, node: str) -> None:
        pod = member(f"gang-{number}-w-0", number, 1)
        pod["metadata"] |= {"uid": f"uid-{number}", "namespace": NAMESPACE}
        pod["status"] = {"phase": phase}
        if node:
            pod["spec"]["nodeName"] = node
        else:
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "8"}}
        info = cache.interner.pod(pod)
        if phase == "Running":
            cache.add_or_update_pod(info)
        elif phase == "Succeeded":
            cache.remove_pod(info.uid)
        mirror.put_member(info, members.of_document(pod))

    def passed() -> float:
        mirror.apply(mirror.take())
        gc.disable()  # as in a pass of the live scheduler, which runs in a thread
        begin = time.process_time()
        passes.run(mirror, configuration, now=0.0, transition="1", on_commit=lambda _: None)
        took = time.process_time() - begin
        gc.enable()
        return took * 1000

    configuration = conf.parse(conf.DEFAULT, registry.KNOWN)
    results = []
    for number in range(running):
        mirror.put_group({**group(f"gang-{number}", 1), "status": {"phase": "Running"}})
        put(number, "Running", workloads.node(number % nodes)["metadata"]["name"])
    first = passed()
    put(0, "Succeeded", workloads.node(0)["metadata"]["name"])
    label = f"{running:,} groups run"
    against = "the first pass, which looks at all groups"
    results.append(duration(f"pass after a pod ended, {label}", passed(), first, against=against, unit="ms"))
    for number in range(running, running + waiting):
        mirror.put_group({**group(f"gang-{number}", 1), "status": {"phase": "Inqueue"}})
        put(number, "Pending", "")
    first = passed()
    put(1, "Succeeded", workloads.node(1 % nodes)["metadata"]["name"])
    label = f"{label}, {waiting:,} wait"
    results.append(duration(f"pass after a pod ended, {label}", passed(), first, against=against, unit="ms"))
    return results


def _decided(shape: Shape) -> Result:
    """Decide all gangs in one pass on a mirror."""
    cache, mirror = _empty(NODES)
    for number in range(shape.gangs):
        mirror.put_group(group(f"gang-{number}", shape.pods))
    for number in range(shape.gangs * shape.pods):
        pod = member(f"gang-{number // shape.pods}-w-{number}", number, shape.pods)
        pod["metadata"] |= {"uid": f"uid-{number}", "namespace": NAMESPACE}
        pod["status"] = {"phase": "Pending"}
        mirror.put_member(cache.interner.pod(pod), members.of_document(pod))
    commits: list[Commit] = []
    configuration = conf.parse(conf.DEFAULT, registry.KNOWN)
    begin = time.process_time()
    passes.run(mirror, configuration, now=0.0, transition="1", on_commit=commits.append)
    took = time.process_time() - begin
    bound = sum(len(commit.bindings) for commit in commits)
    if bound != shape.gangs * shape.pods:
        raise RuntimeError(f"{bound} of {shape.gangs * shape.pods} pods found a place")
    return rate(f"decisions, {shape.label}, {NODES:,} nodes", bound / took, shape.reference, against=AGAINST)


async def _end_to_end(shape: Shape, store_url: str, *, nodes: int) -> list[Result]:
    count = shape.gangs * shape.pods
    case = Case(
        name=shape.label, nodes=nodes, pods=count, template=lambda name, number: member(name, number, shape.pods)
    )
    with schedule.master(store_url) as master:
        run = Run(case, await master.connections(), keep=True)
        await run.create("/api/v1/namespaces", [schedule.named("Namespace", NAMESPACE)], may_exist=True)
        await run.create(_GROUPS, [schedule.encoded(each) for each in _groups(shape)])
        reached = await run.measured()
    return [rate(f"through the API, {shape.label}, {nodes:,} nodes", reached, shape.reference, against=AGAINST)]


async def _idle(store_url: str, *, gangs: int) -> list[Result]:
    """The processor time of a master's processes while many gangs wait and nothing changes."""
    shape = Shape(gangs, 1, 0.0)
    case = Case(name="waiting", nodes=1, pods=0, template=workloads.identical)
    with schedule.master(store_url) as master:
        run = Run(case, await master.connections(), keep=True)
        await run.create("/api/v1/namespaces", [schedule.named("Namespace", NAMESPACE)], may_exist=True)
        large = [schedule.encoded(group(f"gang-{number}", 100)) for number in range(shape.gangs)]
        await run.create(_GROUPS, large)
        await asyncio.sleep(15)
        before, begin = _processor_s(master.processes()), time.monotonic()
        await asyncio.sleep(_IDLE_S)
        percent = 100 * (_processor_s(master.processes()) - before) / (time.monotonic() - begin)
    limit = f"{IDLE_LIMIT_PERCENT:g} %"
    return [
        duration(
            f"idle, {gangs:,} groups wait, master and scheduler", percent, IDLE_LIMIT_PERCENT, against=limit, unit="%"
        )
    ]


def _groups(shape: Shape) -> Iterator[dict[str, Any]]:
    return itertools.starmap(group, ((f"gang-{number}", shape.pods) for number in range(shape.gangs)))


def _processor_s(processes: list[int]) -> float:
    """User and system time of processes, in seconds (hundredths in /proc)."""
    total = 0.0
    for one in processes:
        fields = Path(f"/proc/{one}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / 100
    return total
