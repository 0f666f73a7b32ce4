#!/usr/bin/env python
"""Rota's API server beside the stock kube-apiserver with etcd: same machine, same load, durable writes, TLS, one run.

    benchmarks/against_stock.py [--quick] [--json]

Two Rota masters share one SQLite store and take turns in being asked; stock is one kube-apiserver on one etcd. Neither
side has controllers or a scheduler. Both ask every request for its token and its rights. Rounds alternate, so that a
slow minute of the machine is slow for both.
Needs the programs that scripts/build-kubernetes builds. --quick takes a few minutes and is less exact.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import re
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import uvloop

from rota.bench.http import Connection
from rota.bench.report import Report, Result, duration, median, rate, this_machine
from rota.testing.servers.kubernetes import StockApiServer
from rota.testing.servers.rota import RotaServer

AGAINST = "kube-apiserver and etcd in the same run"
CLIENTS = 32
NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
WATCHED = re.compile(rb'"watched":"(\d+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to measure."""

    rounds: int = 5
    creates: int = 3200
    gets: int = 8000
    listed: int = 5000
    watchers: int = 200
    writes_per_s: int = 100
    watch_s: float = 15.0
    held: int = 50_000


QUICK = Effort(rounds=3, creates=960, gets=3200, watch_s=5.0, held=10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A way to one server process."""

    port: int
    tls: ssl.SSLContext
    token: str

    async def open(self) -> Connection:
        """A connection of its own."""
        authorization = f"Bearer {self.token}"
        return await Connection.open("127.0.0.1", self.port, tls=self.tls, authorization=authorization)


class Side:
    """One of the two that are compared, and the load that is put on it."""

    def __init__(self, doors: Sequence[Door], pids: Callable[[], Sequence[int]]) -> None:
        self._doors = itertools.cycle(doors)
        self._pids = pids
        self._numbers = itertools.count()
        self.pods = 0

    async def prepare(self) -> None:
        """A namespace and the account that its pods run as."""
        connection = await next(self._doors).open()
        await connection.request("POST", "/api/v1/namespaces", _encoded({"metadata": {"name": NAMESPACE}}))
        account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
        await connection.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", _encoded(account))
        connection.close()

    async def creates(self, clients: int, count: int) -> float:
        """Pods created per second."""
        return await self._rate(clients, count, self._create)

    async def gets(self, count: int) -> float:
        """Reads of one pod per second."""
        connection = await next(self._doors).open()
        name = f"read-{next(self._numbers)}"
        code, answer = await connection.request("POST", PODS, _pod(name))
        assert code == 201, answer
        connection.close()

        async def get(connection: Connection) -> None:
            code, _ = await connection.request("GET", f"{PODS}/{name}")
            assert code == 200

        return await self._rate(CLIENTS, count, get)

    async def listing(self, count: int) -> float:
        """How long a list of so many pods takes, in milliseconds."""
        connection = await next(self._doors).open()
        start = time.perf_counter()
        code, answer = await connection.request("GET", f"{PODS}?limit={count}")
        took = time.perf_counter() - start
        connection.close()
        assert code == 200
        assert answer.count(b'"uid"') >= count
        return 1000 * took

    async def watching(self, effort: Effort) -> list[float]:
        """Milliseconds from the answer to a write until each of many watchers has seen it."""
        total = int(effort.writes_per_s * effort.watch_s)
        connection = await next(self._doors).open()
        _, newest = await connection.request("GET", f"{PODS}?limit=1")
        version = json.loads(newest)["metadata"]["resourceVersion"]
        batch = str(next(self._numbers))
        path = f"{PODS}?watch=true&resourceVersion={version}&labelSelector=batch%3D{batch}"
        arrivals: list[dict[int, float]] = [{} for _ in range(effort.watchers)]
        connections = [await next(self._doors).open() for _ in range(effort.watchers)]

        async def follow(connection: Connection, seen: dict[int, float]) -> None:
            async for line in connection.lines(path):
                found = WATCHED.search(line)
                assert found is not None
                seen[int(found[1])] = time.perf_counter()
                if len(seen) == total:
                    return

        following = [asyncio.create_task(follow(*pair)) for pair in zip(connections, arrivals, strict=True)]
        written = await self._paced(total, effort.writes_per_s, batch)
        await asyncio.wait_for(asyncio.gather(*following), 120)
        for one in (connection, *connections):
            one.close()
        return [1000 * max(at - written[number], 0.0) for seen in arrivals for number, at in seen.items()]

    async def fill(self, count: int) -> None:
        """Create pods until there are so many."""
        missing = count - self.pods
        if missing > 0:
            await self.creates(CLIENTS, missing + CLIENTS)

    def memory_mib(self) -> list[float]:
        """What each process holds in memory."""
        page = os.sysconf("SC_PAGE_SIZE") / 2**20
        return [int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * page for pid in self._pids()]

    async def _create(self, connection: Connection) -> None:
        code, answer = await connection.request("POST", PODS, _pod(f"p-{next(self._numbers)}"))
        assert code == 201, answer
        self.pods += 1

    async def _rate(self, clients: int, count: int, act: Callable[[Connection], Awaitable[None]]) -> float:
        connections = [await next(self._doors).open() for _ in range(clients)]

        async def client(connection: Connection) -> None:
            for _ in range(count // clients):
                await act(connection)

        start = time.perf_counter()
        await asyncio.gather(*map(client, connections))
        took = time.perf_counter() - start
        for connection in connections:
            connection.close()
        return count // clients * clients / took

    async def _paced(self, total: int, per_s: int, batch: str) -> dict[int, float]:
        """Create pods at a steady rate; when each was answered."""
        written: dict[int, float] = {}
        idle = [await next(self._doors).open() for _ in range(CLIENTS)]

        async def write(number: int, connection: Connection) -> None:
            labels = {"batch": batch, "watched": str(number)}
            code, answer = await connection.request("POST", PODS, _pod(f"w-{batch}-{number}", labels))
            written[number] = time.perf_counter()
            assert code == 201, answer
            idle.append(connection)
            self.pods += 1

        begin = time.perf_counter()
        async with asyncio.TaskGroup() as under_way:
            for number in range(total):
                while time.perf_counter() < begin + number / per_s or not idle:  # noqa: ASYNC110  # a pace is a clock
                    await asyncio.sleep(0.0005)
                under_way.create_task(write(number, idle.pop()))
        for connection in idle:
            connection.close()
        return written


async def compare(ours: Side, stock: Side, effort: Effort) -> list[Result]:
    """Every figure of ours beside that of stock."""
    sides = (stock, ours)
    for side in sides:
        await side.prepare()
        await side.creates(4, 64)  # both warm up

    async def alternate(measure: Callable[[Side], Awaitable[float]]) -> tuple[float, float]:
        rounds = [[await measure(side) for side in sides] for _ in range(effort.rounds)]
        return median([one[0] for one in rounds]), median([one[1] for one in rounds])

    results = []
    for what, clients, count in (("1 client", 1, effort.creates // 4), (f"{CLIENTS} clients", CLIENTS, effort.creates)):
        reference, value = await alternate(lambda side, many=clients, count=count: side.creates(many, count))  # type: ignore[misc]
        results.append(rate(f"creates, {what}", value, reference, against=AGAINST))
    reference, value = await alternate(lambda side: side.gets(effort.gets))
    results.append(rate(f"gets, {CLIENTS} clients", value, reference, against=AGAINST))
    for side in sides:
        await side.fill(effort.listed)
    reference, value = await alternate(lambda side: side.listing(effort.listed))
    results.append(duration(f"list of {effort.listed:,} pods", value, reference, against=AGAINST))
    lags = [np.array(await side.watching(effort)) for side in sides]
    what = f"{effort.watchers} watchers at {effort.writes_per_s} writes/s: lag"
    for name, percent in (("median", 50), ("p99", 99)):
        reference, value = (float(np.percentile(one, percent)) for one in lags)
        results.append(duration(f"{what}, {name}", value, reference, against=AGAINST))
    for side in sides:
        await side.fill(effort.held)
        await side.listing(500)
    kept, held = stock.memory_mib(), ours.memory_mib()
    what = f"memory with {effort.held:,} pods"
    results.append(duration(f"{what}, one server process", max(held), kept[0], against=f"{AGAINST}", unit="MiB"))
    results.append(duration(f"{what}, all processes", sum(held), sum(kept), against=AGAINST, unit="MiB"))
    return results


@contextlib.contextmanager
def stock_side() -> Iterator[Side]:
    """kube-apiserver with its etcd."""
    with StockApiServer() as server:
        door = Door(port=server.port, tls=server.tls(), token=server.token())
        yield Side([door], lambda: (server.pid, server.etcd.pid))


@contextlib.contextmanager
def our_side() -> Iterator[Side]:
    """Two masters on one store."""
    with tempfile.TemporaryDirectory(prefix="rota-against-stock-") as folder, contextlib.ExitStack() as running:
        store, keys = f"sqlite:///{folder}/rota.db", ("--encryption-keys", f"{folder}/keys.yaml")
        alone = ("--controllers", "", "--scheduler", "off")
        servers = [running.enter_context(RotaServer(*keys, *alone, store_url=store)) for _ in range(2)]
        doors = [Door(port=one.port, tls=one.tls(), token=one.token()) for one in servers]
        yield Side(doors, lambda: [one.pid for one in servers])


def _pod(name: str, labels: dict[str, str] | None = None) -> bytes:
    resources = {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}
    container = {
        "name": "main",
        "image": "registry.example/team/service:1.2.3",
        "args": ["--serve", "--port=8080"],
        "env": [{"name": "MODE", "value": "production"}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": resources,
    }
    return _encoded(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "service", **(labels or {})}},
            # nobody's pods: what is measured is the API server
            "spec": {"schedulerName": "nobody", "containers": [container]},
        }
    )


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", dest="as_json")
    wishes = parser.parse_args()
    with stock_side() as stock, our_side() as ours:
        results = uvloop.run(compare(ours, stock, QUICK if wishes.quick else Effort()))
    report = Report(bench="against stock", machine=this_machine(), results=results)
    if wishes.as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    sys.stdout.write(f"{report.machine.cores} x {report.machine.cpu}, load {report.machine.load}\n")
    for one in results:
        ratio = f"{one.ratio:.2f}" if one.ratio else "-"
        sys.stdout.write(f"{one.name:52}{one.value:12,.1f} {one.unit:5}{ratio:>8} of stock\n")


if __name__ == "__main__":
    main()
