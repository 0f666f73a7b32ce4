"""Benchmark of the API server, compared with the bare store and with a minimal ASGI application on uvicorn.

The server runs in a separate process, as in production; this process is the client. It writes to one namespace,
which is emptied at the end.
"""

import asyncio
import contextlib
import functools
import json
import multiprocessing
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from multiprocessing.connection import Connection as Pipe
from typing import Any

import numpy as np
import uvicorn
import uvloop
from msgspec import Struct

from rota import assembly
from rota.apiserver.server import assembly as server_assembly
from rota.apiserver.server import http_server
from rota.bench.http import Connection, Lookout
from rota.bench.report import Result, duration, median, rate
from rota.kit import system
from rota.store.store_interface import Committed, Delete, Store, Transaction

CLIENTS = 16
PAGE = 100
HELLO = b"hello"


class Effort(Struct, frozen=True, kw_only=True):
    """How much to measure."""

    rounds: int = 5
    creates: int = 1600
    gets: int = 8000
    listed: int = 5000
    watchers: int = 200
    writes_per_s: int = 100
    watch_s: float = 10.0
    held: int = 50_000


QUICK = Effort(rounds=3, creates=640, gets=3200, watch_s=3.0, held=10_000)


def measure(*, store_url: str, quick: bool) -> list[Result]:
    """Measure a server on the store at `store_url`; see `rota bench`."""
    with _process(_serve_api, store_url) as api, _process(_serve_hello, store_url) as hello:
        return uvloop.run(_measure(store_url, QUICK if quick else Effort(), api, hello))


async def _measure(url: str, effort: Effort, api: int, hello: int) -> list[Result]:
    store = await assembly.open_store(url)
    bench = _Bench(api, hello, store, effort, namespace=f"bench-{secrets.token_hex(4)}")
    try:
        await bench.call("POST", "/api/v1/namespaces", _named("Namespace", bench.namespace))
        return [
            *await bench.creates(),
            await bench.gets(),
            await bench.lists(),
            *await bench.watches(),
            await bench.memory(),
        ]
    finally:
        await bench.clean_up()
        await store.close()


class _Bench:
    def __init__(self, api: int, hello: int, store: Store, effort: Effort, *, namespace: str) -> None:
        self._api = api
        self._hello = hello
        self._store = store
        self._effort = effort
        self.namespace = namespace
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._scratch = f"/rota-bench/{namespace}/"
        self._numbers = iter(range(10**9))

    async def call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """One request on its own connection."""
        connection = await Connection.open("127.0.0.1", self._api)
        try:
            code, answer = await connection.request(method, path, body)
        finally:
            connection.close()
        assert code < 300, answer
        return answer

    async def creates(self) -> list[Result]:
        """Creates by one client and by several, compared with creates of the same bytes in the bare store."""
        return [await self._creates(1, self._effort.creates // 4), await self._creates(CLIENTS, self._effort.creates)]

    async def _creates(self, clients: int, count: int) -> Result:
        ours, bare = [], []
        value = await self._stored_pod()
        for _ in range(self._effort.rounds):
            bare.append(await _per_s(count, lambda: self._create_bare(clients, count, value)))
            ours.append(await self._rate(self._api, count, self._create, clients=clients))
        what = f"creates, {clients} client{'s' * (clients > 1)}"
        return rate(what, median(ours), median(bare), against="creates in the bare store")

    async def gets(self) -> Result:
        """Reads of one pod, compared with an application that always returns the same bytes."""
        body = _pod(f"get-{next(self._numbers)}")
        await self.call("POST", self._pods, body)
        path = f"{self._pods}/{json.loads(body)['metadata']['name']}"

        async def get(connection: Connection) -> None:
            code, _ = await connection.request("GET", path)
            assert code == 200

        ours, bare = [], []
        for _ in range(self._effort.rounds):
            bare.append(await self._rate(self._hello, self._effort.gets, get))
            ours.append(await self._rate(self._api, self._effort.gets, get))
        return rate(f"gets, {CLIENTS} clients", median(ours), median(bare), against="a bare ASGI hello")

    async def lists(self) -> Result:
        """A list of all pods of a namespace, compared with the same list in the bare store."""
        await self._fill(self._effort.listed)
        connection = await Connection.open("127.0.0.1", self._api)
        prefix = f"/core/pods/{self.namespace}/"
        ours, bare = [], []
        for _ in range(self._effort.rounds):
            start = time.perf_counter()
            found = len((await self._store.list(prefix, limit=self._effort.listed)).entries)
            bare.append(1000 * (time.perf_counter() - start))
            start = time.perf_counter()
            code, _ = await connection.request("GET", f"{self._pods}?limit={self._effort.listed}")
            ours.append(1000 * (time.perf_counter() - start))
            assert (code, found) == (200, self._effort.listed)
        connection.close()
        what = f"list of {self._effort.listed:,} pods"
        return duration(what, median(ours), median(bare), against="the same in the bare store")

    async def watches(self) -> list[Result]:
        """The time from the response to a write until each of many watchers sees it."""
        effort = self._effort
        total = int(effort.writes_per_s * effort.watch_s)
        newest = json.loads(await self.call("GET", f"{self._pods}?limit=1"))["metadata"]["resourceVersion"]
        arrivals: list[dict[int, float]] = [{} for _ in range(effort.watchers)]
        path = f"{self._pods}?watch=true&resourceVersion={newest}&labelSelector=watched"
        left, done = total * effort.watchers, asyncio.Event()

        def note(seen: dict[int, float], number: int) -> None:
            nonlocal left
            seen[number] = time.perf_counter()
            left -= 1
            if not left:
                done.set()

        watchers = [
            await Lookout.open(self._api, path, b'"watched":"', functools.partial(note, seen)) for seen in arrivals
        ]
        written = await self._paced_writes(total)
        await asyncio.wait_for(done.wait(), 60)
        for watcher in watchers:
            watcher.close()
        lags = np.array([1000 * max(at - written[number], 0.0) for seen in arrivals for number, at in seen.items()])
        bare = 1000 * await self._bare_round_trip()
        what = f"{effort.watchers} watchers at {effort.writes_per_s} writes/s: lag"
        return [
            duration(f"{what}, median", float(np.median(lags)), bare, against="a bare ASGI hello"),
            duration(f"{what}, p99", float(np.percentile(lags, 99)), bare, against="a bare ASGI hello"),
        ]

    async def memory(self) -> Result:
        """The server's memory while very many pods are stored."""
        await self._fill(self._effort.held)
        await self.call("GET", f"{self._pods}?limit=500")
        metrics = (await self.call("GET", "/metrics")).decode()
        line = next(line for line in metrics.splitlines() if line.startswith("process_resident_memory_bytes "))
        mib = float(line.split()[1]) / 2**20
        return Result(name=f"memory with {self._effort.held:,} pods stored", value=mib, unit="MiB")

    async def clean_up(self) -> None:
        """Remove what the benchmark wrote."""
        for prefix in (f"/core/pods/{self.namespace}/", self._scratch):
            while (page := await self._store.list(prefix, limit=PAGE)).entries:
                await self._store.commit(Transaction(tuple(Delete(entry.key) for entry in page.entries)))
        await self._store.commit(Transaction((Delete(f"/core/namespaces/{self.namespace}"),)))

    async def _rate(
        self, port: int, count: int, act: Callable[[Connection], Awaitable[None]], *, clients: int = CLIENTS
    ) -> float:
        connections = [await Connection.open("127.0.0.1", port) for _ in range(clients)]

        async def client(connection: Connection) -> None:
            for _ in range(count // clients):
                await act(connection)

        async def everybody() -> None:
            await asyncio.gather(*map(client, connections))

        try:
            return await _per_s(count, everybody)
        finally:
            for connection in connections:
                connection.close()

    async def _create(self, connection: Connection) -> None:
        code, answer = await connection.request("POST", self._pods, _pod(f"p{next(self._numbers)}"))
        assert code == 201, answer

    async def _create_bare(self, writers: int, count: int, value: bytes) -> None:
        async def writer() -> None:
            for _ in range(count // writers):
                key = f"{self._scratch}{next(self._numbers)}"
                assert isinstance(await self._store.create(key, value), Committed)

        await asyncio.gather(*(writer() for _ in range(writers)))

    async def _stored_pod(self) -> bytes:
        name = f"model-{next(self._numbers)}"
        await self.call("POST", self._pods, _pod(name))
        entry = await self._store.get(f"/core/pods/{self.namespace}/{name}")
        assert entry is not None
        return entry.value

    async def _fill(self, count: int) -> None:
        """Fill the namespace to at least `count` pods, directly in the store, with the bytes that the server would
        write."""
        prefix = f"/core/pods/{self.namespace}/"
        page = await self._store.list(prefix, limit=1)
        have = len(page.entries) + page.remaining
        value = await self._stored_pod()
        for start in range(have, count, PAGE):
            keys = [f"{prefix}fill-{next(self._numbers)}" for _ in range(min(PAGE, count - start))]
            await asyncio.gather(*(self._store.create(key, value) for key in keys))

    async def _paced_writes(self, total: int) -> dict[int, float]:
        """Create pods at a steady rate; returns the times of the responses."""
        written: dict[int, float] = {}
        idle = [await Connection.open("127.0.0.1", self._api) for _ in range(CLIENTS)]

        async def write(number: int) -> None:
            connection = idle.pop()
            code, answer = await connection.request("POST", self._pods, _pod(f"w{number}", watched=str(number)))
            written[number] = time.perf_counter()
            assert code == 201, answer
            idle.append(connection)

        begin = time.perf_counter()
        under_way = set()
        for number in range(total):
            ahead = begin + number / self._effort.writes_per_s - time.perf_counter()
            while ahead > 0 or not idle:
                await asyncio.sleep(max(ahead, 0.0005))
                ahead = begin + number / self._effort.writes_per_s - time.perf_counter()
            task = asyncio.create_task(write(number))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            await asyncio.sleep(0)
        await asyncio.gather(*under_way)
        for connection in idle:
            connection.close()
        return written

    async def _bare_round_trip(self) -> float:
        connection = await Connection.open("127.0.0.1", self._hello)
        took = []
        for _ in range(200):
            start = time.perf_counter()
            await connection.request("GET", "/")
            took.append(time.perf_counter() - start)
        connection.close()
        return median(took)


async def _per_s(count: int, work: Callable[[], Awaitable[None]]) -> float:
    start = time.perf_counter()
    await work()
    return count / (time.perf_counter() - start)


def _named(kind: str, name: str) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}).encode()


def _pod(name: str, **labels: str) -> bytes:
    resources = {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}
    container = {
        "name": "main",
        "image": "registry.example/team/service:1.2.3",
        "args": ["--serve", "--port=8080"],
        "env": [{"name": "MODE", "value": "production"}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": resources,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "service", **labels}},
        "spec": {"containers": [container], "tolerations": [{"key": "spot", "operator": "Exists"}]},
    }
    return json.dumps(pod).encode()


@contextlib.contextmanager
def _process(target: Callable[[str, Pipe], None], store_url: str) -> Iterator[int]:
    """A server in a separate process; yields its port."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    child = spawn.Process(target=target, args=(store_url, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        port: int = ours.recv()
        yield port
    finally:
        # the child serves until this end of the pipe is closed
        ours.close()
        child.join()


def _serve_api(store_url: str, pipe: Pipe) -> None:
    @contextlib.asynccontextmanager
    async def app() -> AsyncIterator[Any]:
        store = await assembly.open_store(store_url)
        try:
            async with server_assembly.server(store, clock=system.SystemClock(), rng=system.rng()) as made:
                yield made
        finally:
            await store.close()

    assembly.run(_serve(app, pipe))


def _serve_hello(_: str, pipe: Pipe) -> None:
    uvloop.run(_greet(pipe))


async def _greet(pipe: Pipe) -> None:
    """Serve a minimal application on uvicorn."""
    quiet: dict[str, Any] = {"lifespan": "off", "log_config": None, "access_log": False}
    server = uvicorn.Server(uvicorn.Config(_Hello(), http="httptools", ws="none", **quiet))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await server.startup(sockets=[listener])
        pipe.send(listener.getsockname()[1])
        await _end_of(pipe)
        await server.shutdown(sockets=[listener])


class _Hello:
    """A minimal ASGI application."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(HELLO)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": HELLO})


async def _serve(app: Callable[[], contextlib.AbstractAsyncContextManager[Any]], pipe: Pipe) -> None:
    """Serve until the other end of the pipe is closed."""
    async with app() as made, http_server.serve(made) as served:
        pipe.send(served.port)
        await _end_of(pipe)


async def _end_of(pipe: Pipe) -> None:
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
    await closed.wait()
    asyncio.get_running_loop().remove_reader(pipe.fileno())
