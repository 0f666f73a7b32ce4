"""Benchmark of Rota in a stock cluster: the scheduler compared with kube-scheduler, the extender, the spot
controller.

Both schedulers work on the same kube-apiserver and etcd, one after the other in the same run, with the same limits of
their clients; the same program creates the same pods and watches. Nodes are objects only: no component writes what
kubelets would write. Evicted pods have no grace period, so that they are deleted at once.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import uvloop

from rota.api import times
from rota.bench import extender, report, stock, workloads
from rota.bench.http import Connection
from rota.bench.report import Result, duration, rate
from rota.bench.schedule import Run, connections_to, encoded
from rota.bench.stock import Plane
from rota.bench.workloads import Case, Document

AGAINST: Final = "kube-scheduler on the same API server in the same run"
#: The longest notice of clouds; see rota.spot.node_signals.
LEAD_S: Final = 120.0
_SMALL: Final = Case(name="in a stock cluster", nodes=500, before=100, pods=1_000, template=workloads.identical)
_LARGE: Final = Case(name="in a stock cluster", nodes=5_000, before=500, pods=5_000, template=workloads.identical)
#: Machines with a notice, and pods on each.
_WAVE, _QUICK_WAVE, _EACH = 100, 10, 30
_PODS: Final = "/api/v1/namespaces/bench/pods"
_SETS: Final = "/apis/apps/v1/namespaces/bench/replicasets"
_MERGE: Final = "application/merge-patch+json"
_LOOK_S: Final = 0.02
_LONGEST_S: Final = 900.0


def measure(*, store_url: str = "", quick: bool = False) -> list[Result]:
    """Measure everything on a fresh stock control plane, whatever the store is; see `rota bench`."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        with stock.plane(Path(folder, "schedulers")) as plane:
            results = [_beside(plane, _SMALL, rounds=1 if quick else 3)]
            results += [*extender.measure(quick=quick), _with_extender(plane, _SMALL)]
            if not quick:
                results.append(_beside(plane, _LARGE, rounds=1))
        with stock.plane(Path(folder, "spot")) as plane:
            results.append(_wave(plane, _QUICK_WAVE if quick else _WAVE))
    return results


# --- schedulers -----------------------------------------------------------------------------------------------------


def _beside(plane: Plane, case: Case, *, rounds: int) -> Result:
    ours, theirs = [], []
    for _ in range(rounds):
        with plane.scheduler():
            theirs.append(_rate(plane, case))
        with plane.our_scheduler():
            ours.append(_rate(plane, case))
    return rate(case.label, report.median(ours), report.median(theirs), against=AGAINST)


def _with_extender(plane: Plane, case: Case) -> Result:
    """The stock scheduler's rate with Rota's extender, relative to its rate without."""
    port = stock.free_port()
    asks = {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "nodeCacheCapable": True,
    }
    with plane.scheduler():
        without = _rate(plane, case)
    with plane.rota("extender", "--listen", f"127.0.0.1:{port}"), plane.scheduler([asks]):
        asking = _rate(plane, case)
    name = f"kube-scheduler with our extender, {case.nodes:,} nodes, {case.pods:,} pods"
    return rate(name, asking, without, against="kube-scheduler alone in the same run")


def _rate(plane: Plane, case: Case) -> float:
    async def measured() -> float:
        return await Run(case, await connections_to(plane.kubeconfig)).measured()

    return uvloop.run(measured())


# --- spot -----------------------------------------------------------------------------------------------------------


def _wave(plane: Plane, machines: int) -> Result:
    """Time from the notices on all machines until the last successor of their pods has a node."""
    controllers = ("replicaset-controller", "disruption-controller", "garbage-collector-controller")
    with plane.scheduler(), plane.controllers(*controllers), plane.rota("spot-controller"):
        took = uvloop.run(asyncio.wait_for(_Wave(plane, machines).run(), _LONGEST_S))
    name = f"notices on {machines} machines with {_EACH} pods each to the last pod safe"
    return duration(name, took, LEAD_S, against=f"the {LEAD_S:g} s that are left", unit="s")


class _Wave:
    """Replica sets on spot machines that all get a notice, with as many other machines."""

    def __init__(self, plane: Plane, machines: int) -> None:
        self._plane: Final = plane
        self._machines: Final = machines
        #: The node of each pod that is not being deleted; empty for pending pods.
        self._nodes: Final[dict[str, str]] = {}
        self._following: asyncio.Future[None]

    async def run(self) -> float:
        """Seconds."""
        connect = await connections_to(self._plane.kubeconfig)
        making = Run(_SMALL, connect, keep=True)
        await making.create("/api/v1/namespaces", [encoded({"kind": "Namespace", "metadata": {"name": "bench"}})])
        await making.create("/api/v1/nodes", [encoded(_machine("spot", n)) for n in range(self._machines)])
        asking = await connect()
        self._following = asyncio.ensure_future(self._follow(connect))
        try:
            await making.create(_SETS, [encoded(_replica_set(n)) for n in range(self._machines)])
            await self._until("spot-")
            await making.create("/api/v1/nodes", [encoded(_machine("stays", n)) for n in range(self._machines)])
            now = time.time()
            begin = time.perf_counter()
            patch = encoded(_notice(now))
            for number in range(self._machines):
                code, answer = await asking.request("PATCH", f"/api/v1/nodes/spot-{number}", patch, kind=_MERGE)
                if code != 200:
                    raise RuntimeError(f"a notice was answered with {code}: {answer[:500].decode()}")
            await self._until("stays-")
            return time.perf_counter() - begin
        finally:
            self._following.cancel()
            await asyncio.wait([self._following])
            asking.close()

    async def _until(self, where: str) -> None:
        """Wait until all pods of the sets are on nodes of this name."""
        wanted = self._machines * _EACH
        while sum(node.startswith(where) for node in self._nodes.values()) < wanted:
            if self._following.done():
                self._following.result()
            await asyncio.sleep(_LOOK_S)

    async def _follow(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        """Watch the pods; lists again when the server closes a slow watch."""
        while True:
            connection = await connect()
            try:
                listed = json.loads((await connection.request("GET", _PODS))[1])
                self._nodes.clear()
                for pod in listed["items"]:
                    self._see(pod)
                newest = listed["metadata"]["resourceVersion"]
                async for line in connection.lines(f"{_PODS}?watch=true&resourceVersion={newest}"):
                    event = json.loads(line)
                    self._see(event["object"], gone=event["type"] == "DELETED")
            finally:
                connection.close()

    def _see(self, pod: Document, *, gone: bool = False) -> None:
        name = pod["metadata"]["name"]
        if gone or "deletionTimestamp" in pod["metadata"]:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = pod["spec"].get("nodeName", "")


def _machine(kind: str, number: int) -> Document:
    made = workloads.node(number)
    made["metadata"]["name"] = name = f"{kind}-{number}"
    made["metadata"]["labels"] = {
        workloads.HOSTNAME: name,
        "node.kubernetes.io/capacity": "spot" if kind == "spot" else "on-demand",
    }
    for amounts in ("capacity", "allocatable"):
        made["status"][amounts] = {"cpu": "4", "memory": "32Gi", "pods": str(_EACH + 5)}
    return made


def _replica_set(number: int) -> Document:
    pod = workloads.identical("", number)
    labels = {"app": f"app-{number}"}
    template = {"metadata": {"labels": labels}, "spec": {**pod["spec"], "terminationGracePeriodSeconds": 0}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": f"app-{number}", "namespace": "bench"},
        "spec": {"replicas": _EACH, "selector": {"matchLabels": labels}, "template": template},
    }


def _notice(now: float) -> dict[str, Any]:
    taint = {"key": "rota.dev/terminating", "effect": "NoSchedule", "timeAdded": times.format_time(now)}
    until = {"rota.dev/terminates-at": times.format_time(now + LEAD_S)}
    return {"metadata": {"annotations": until}, "spec": {"taints": [taint]}}
