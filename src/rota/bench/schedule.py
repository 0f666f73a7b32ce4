"""Benchmark of scheduling from end to end: from the creation of pods until a watcher sees them bound.

A master without controllers runs on the measured store; this process creates pods over HTTPS and watches. If there
is a stock control plane (`ROTA_BENCH_STOCK` names its kubeconfig; `scripts/bench` starts it if the programs are
installed), the same pods are created there in the same run.
"""

import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import secrets
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import uvloop

from rota import assembly, control_plane
from rota.bench import workloads
from rota.bench.http import Connection
from rota.bench.report import Result, duration, rate
from rota.bench.workloads import NAMESPACE, Case
from rota.client import kubeconfig
from rota.kit import logs, system
from rota.store.store_interface import MOST_WRITES, Put, Transaction

STOCK: Final = "ROTA_BENCH_STOCK"
AGAINST: Final = "the stock scheduler, API server and etcd in the same run"
#: How many pods are created at a time, as in scheduler_perf.
CREATORS: Final = 30
#: The goals for a start with very many pods: time and memory.
START_LIMIT_S: Final = 5.0
MEMORY_LIMIT_MIB: Final = 1536.0
_LONGEST_S: Final = 600.0
_FIRST: Final = Case(name="one pod", nodes=0, pods=1, template=workloads.identical)


def measure(*, store_url: str, quick: bool) -> list[Result]:
    """Measure every case on a fresh store beside `store_url`; see `rota bench`."""
    results = []
    for number, case in enumerate(workloads.QUICK if quick else workloads.CASES):
        ours = uvloop.run(_on_our_own(case, f"{store_url}-{number}" if store_url.startswith("sqlite") else store_url))
        stock = uvloop.run(_on_stock(case, os.environ[STOCK])) if STOCK in os.environ else 0.0
        results.append(
            rate(case.label, ours, stock, against=AGAINST) if stock else Result(name=case.label, value=ours, unit="1/s")
        )
    if not quick:
        results += uvloop.run(_start(f"{store_url}-full", nodes=5_000, pods=150_000))
    return results


# --- one case -------------------------------------------------------------------------------------------------------


async def _on_our_own(case: Case, store_url: str) -> float:
    with master(store_url) as running:
        return await Run(case, await running.connections(), keep=True).measured()


async def _on_stock(case: Case, path: str) -> float:
    return await Run(case, await connections_to(Path(path))).measured()


async def connections_to(path: Path) -> Callable[[], Awaitable[Connection]]:
    """A factory of connections to the server of a kubeconfig, for Rota and for the stock server."""
    endpoint = kubeconfig.load(path, clock=system.SystemClock())
    address, tls = urlsplit(endpoint.server), endpoint.tls()
    authorization = await endpoint.credentials.authorization()

    async def connect() -> Connection:
        assert address.hostname is not None
        assert address.port is not None
        return await Connection.open(address.hostname, address.port, tls=tls, authorization=authorization)

    return connect


class Run:
    """A case at one API server; leaves nothing behind, unless the server goes anyway (`keep`)."""

    def __init__(self, case: Case, connect: Callable[[], Awaitable[Connection]], *, keep: bool = False) -> None:
        self._case = case
        self._keep = keep
        self._connect = connect
        self._numbers = itertools.count()
        self._stem = f"p{secrets.token_hex(3)}"
        self._pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    async def measured(self) -> float:
        """Pods per second, from the first creation to the last binding that the watcher sees."""
        try:
            return await self._measured()
        finally:
            if not self._keep:
                await self.clean_up()

    async def placed(self) -> float:
        """Place the pods of the case on existing nodes; the seconds from the first creation to the last binding."""
        await self.create("/api/v1/namespaces", [named("Namespace", NAMESPACE)], may_exist=True)
        return await self._schedule(self._case.pods)

    async def _measured(self) -> float:
        case = self._case
        await self.create("/api/v1/namespaces", [named("Namespace", NAMESPACE)], may_exist=True)
        await self.create("/api/v1/nodes", [encoded(workloads.node(number)) for number in range(case.nodes)])
        await asyncio.sleep(1.0)
        if case.before:
            await self._schedule(case.before)
        took = await self._schedule(case.pods)
        return case.pods / took

    async def _schedule(self, count: int) -> float:
        names = {f"{self._stem}-{next(self._numbers)}" for _ in range(count)}
        bodies = [encoded(self._case.template(name, number)) for number, name in enumerate(sorted(names))]
        watching = await self._connect()
        newest = json.loads((await watching.request("GET", f"{self._pods}?limit=1"))[1])["metadata"]["resourceVersion"]
        following = asyncio.ensure_future(_follow(watching, f"{self._pods}?watch=true&resourceVersion={newest}", names))
        await asyncio.sleep(0.1)
        begin = time.perf_counter()
        await self.create(self._pods, bodies)
        await asyncio.wait_for(following, _LONGEST_S)
        took = time.perf_counter() - begin
        watching.close()
        return took

    async def clean_up(self) -> None:
        """Remove all pods of the benchmark, and all nodes."""
        await remove(self._connect, (self._pods, "/api/v1/nodes"))

    async def create(self, path: str, bodies: list[bytes], *, may_exist: bool = False) -> None:
        """Create objects, many at a time."""
        left = iter(bodies)

        async def creator() -> None:
            connection = await self._connect()
            for body in left:
                code, answer = await connection.request("POST", path, body)
                if code != 201 and not (may_exist and code == 409):
                    raise RuntimeError(f"POST {path} was answered with {code}: {answer[:500].decode()}")
            connection.close()

        await asyncio.gather(*(creator() for _ in range(min(CREATORS, len(bodies)))))


async def remove(connect: Callable[[], Awaitable[Connection]], paths: Iterable[str]) -> None:
    """Delete all objects of some collections at once."""
    connection = await connect()
    now = encoded({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
    for path in paths:
        code, answer = await connection.request("DELETE", path, now)
        if code != 200:
            raise RuntimeError(f"DELETE {path} was answered with {code}: {answer[:500].decode()}")
    connection.close()


async def _follow(connection: Connection, path: str, names: set[str]) -> None:
    """Return when all pods were seen with a node."""
    waiting = {name.encode() for name in names}
    async for line in connection.lines(path):
        if b'"nodeName":"' in line:
            at = line.index(b'"name":"') + 8
            waiting.discard(line[at : line.index(b'"', at)])
            if not waiting:
                return


# --- a start with very many pods ------------------------------------------------------------------------------------


async def _start(store_url: str, *, nodes: int, pods: int) -> list[Result]:
    """Time from the start of a process until it has placed a new pod, and its memory then."""
    await fill(store_url, nodes, pods)
    begin = time.perf_counter()
    with master(store_url) as running:
        await Run(_FIRST, await running.connections(), keep=True).placed()
        took_s = time.perf_counter() - begin
        mib = running.memory_mib()
    what = f"{nodes:,} nodes, {pods:,} pods"
    limit, most = f"{START_LIMIT_S:g} s", f"{MEMORY_LIMIT_MIB:g} MiB"
    return [
        duration(f"start to the first pod placed, {what}", took_s, START_LIMIT_S, against=limit, unit="s"),
        duration(f"memory after the start, {what}", mib, MEMORY_LIMIT_MIB, against=most, unit="MiB"),
    ]


async def fill(store_url: str, nodes: int, pods: int) -> None:
    """Write nodes and bound pods directly into the store, with the bytes that the server would write."""
    store = await assembly.open_store(store_url)
    try:
        made = itertools.chain(
            ((f"/core/nodes/node-{number:05}", _stored(workloads.node(number))) for number in range(nodes)),
            (_stored_pod(number, nodes) for number in range(pods)),
        )
        while portion := list(itertools.islice(made, MOST_WRITES)):
            await store.commit(Transaction(tuple(Put(key, value) for key, value in portion)))
    finally:
        await store.close()


def _stored_pod(number: int, nodes: int) -> tuple[str, bytes]:
    name = f"running-{number}"
    pod = workloads.identical(name, number)
    pod["metadata"]["labels"] = {"app": f"app-{number % 100}"}
    pod["spec"] |= {"nodeName": f"node-{number % nodes:05}", "schedulerName": "default-scheduler"}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "50m", "memory": "200Mi"}}
    pod["status"] = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    return f"/core/pods/{NAMESPACE}/{name}", _stored(pod)


def _stored(document: workloads.Document) -> bytes:
    document["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z"}
    return encoded(document)


# --- the master -----------------------------------------------------------------------------------------------------


class _Master:
    """A master: the API server's process and its child, the scheduler's."""

    def __init__(self, process: int, config: Path) -> None:
        self.process = process
        self._config = config

    async def connections(self) -> Callable[[], Awaitable[Connection]]:
        """A factory of connections to it, as its administrator."""
        return await connections_to(self._config)

    def memory_mib(self) -> float:
        """The memory of its processes."""
        pages = sum(int(Path(f"/proc/{one}/statm").read_text(encoding="ascii").split()[1]) for one in self.processes())
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def processes(self) -> list[int]:
        """The master's own process and its children."""
        children = Path(f"/proc/{self.process}/task/{self.process}/children").read_text(encoding="ascii")
        return [self.process, *map(int, children.split())]


@contextlib.contextmanager
def master(store_url: str) -> Iterator[_Master]:
    """A master on a store, in processes of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        child = spawn.Process(target=_serve, args=(store_url, folder, theirs))
        child.start()
        theirs.close()
        try:
            yield _Master(child.pid or 0, Path(ours.recv()))
        finally:
            # the child serves until this end of the pipe is closed
            ours.close()
            child.join()


def _serve(store_url: str, folder: str, pipe: Pipe) -> None:
    logs.configure(level="warning")
    assembly.run(_run_master(store_url, Path(folder), pipe))


async def _run_master(store_url: str, folder: Path, pipe: Pipe) -> None:
    """A master as `rota master` runs it, without controllers, as the stock scheduler runs without them, too."""
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
    apart = len(os.sched_getaffinity(0)) > 1
    settings = control_plane.Settings(data=folder / "data", port=0, controllers="", scheduler_apart=apart)
    store = await assembly.open_store(store_url)
    try:
        async with control_plane.running(store, settings) as facts:
            pipe.send(facts["config"])
            await closed.wait()
            asyncio.get_running_loop().remove_reader(pipe.fileno())
    finally:
        await store.close()


def encoded(document: workloads.Document) -> bytes:
    """A document as it is sent."""
    return json.dumps(document, separators=(",", ":")).encode()


def named(kind: str, name: str) -> bytes:
    """An object that has only a name."""
    return encoded({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
