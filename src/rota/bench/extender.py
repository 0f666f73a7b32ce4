"""Benchmark of the extender: filter and prioritize for one pod after the other, with nodes by name.

The extender serves on a socket and is called as the stock scheduler calls it: one attempt at a time, with the same
names in both requests. Its cluster does not change. A scheduler waits for both responses in every attempt, so the
sum of both is measured; the reference is the allowed maximum. Processor time is that of client and server, which
share a process here.
"""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import uvloop
from msgspec import Struct

from rota.bench.http import Connection
from rota.bench.report import Result, duration
from rota.client.transports.transport import Call
from rota.client.verbs import Client
from rota.extender import service
from rota.extender.service import Extender
from rota.extender.view import View
from rota.kit import system

NODES: Final = 5_000
LIMIT_MS: Final = 10.0
AGAINST: Final = "at most 10 ms"
_OWNERS: Final = 50
_PODS_OF_OWNERS: Final = 10_000
_WARM_UP: Final = 20


def measure(*, store_url: str = "", quick: bool = False) -> list[Result]:
    """Measure the extender; uses no store."""
    took = uvloop.run(asked(nodes=NODES, times=200 if quick else 1_000))
    both = sorted(one.filter_ms + one.prioritize_ms for one in took)
    processor = sorted(one.processor_ms for one in took)
    what = f"filter and prioritize, {NODES:,} nodes by name"
    return [
        duration(f"{what}, p50", _at(both, 0.5), LIMIT_MS, against=AGAINST),
        duration(f"{what}, p99", _at(both, 0.99), LIMIT_MS, against=AGAINST),
        Result(name="of that filter, p99", value=_at(sorted(one.filter_ms for one in took), 0.99), unit="ms"),
        Result(name="of that prioritize, p99", value=_at(sorted(one.prioritize_ms for one in took), 0.99), unit="ms"),
        duration(f"{what}, processor time, p50", _at(processor, 0.5), LIMIT_MS, against=AGAINST),
        duration(f"{what}, processor time, p99", _at(processor, 0.99), LIMIT_MS, against=AGAINST),
    ]


class Attempt(Struct, frozen=True, kw_only=True):
    """The latency of one attempt, and the processor time of client and server."""

    filter_ms: float
    prioritize_ms: float
    processor_ms: float


async def asked(*, nodes: int, times: int) -> list[Attempt]:
    """Run a number of attempts with a number of nodes."""
    names = [f"node-{number:05d}.example.internal" for number in range(nodes)]
    async with _extending(names) as (host, port):
        connection = await Connection.open(host, port)
        try:
            took = []
            for attempt in range(times + _WARM_UP):
                body = _body(attempt, names)
                spent, begun = time.process_time(), time.perf_counter()
                code, _ = await connection.request("POST", "/filter", body)
                between = time.perf_counter()
                other, _ = await connection.request("POST", "/prioritize", body)
                ended = time.perf_counter()
                if (code, other) != (200, 200):
                    raise RuntimeError(f"the extender answered {code} and {other}")
                took.append(
                    Attempt(
                        filter_ms=(between - begun) * 1e3,
                        prioritize_ms=(ended - between) * 1e3,
                        processor_ms=(time.process_time() - spent) * 1e3,
                    )
                )
            return took[_WARM_UP:]
        finally:
            connection.close()


@contextlib.asynccontextmanager
async def _extending(names: Sequence[str]) -> AsyncIterator[tuple[str, int]]:
    clock, rng = system.SystemClock(), system.rng()
    cluster = {
        "/api/v1/nodes": _list([_node(number, name) for number, name in enumerate(names)]),
        "/api/v1/pods": _list([_pod(number, names) for number in range(_PODS_OF_OWNERS)]),
    }
    extender = Extender(Client(_Still(cluster)), clock=clock, rng=rng, view=View())
    async with service.serving(extender, host="127.0.0.1", port=0) as url:
        running = asyncio.ensure_future(extender.run())
        try:
            while not extender.synced:  # noqa: ASYNC110 - nothing else tells
                await asyncio.sleep(0.01)
            address = urlsplit(url)
            assert address.hostname is not None
            assert address.port is not None
            yield address.hostname, address.port
        finally:
            running.cancel()
            await asyncio.wait([running])


class _Still:
    """A transport to a server whose objects never change."""

    def __init__(self, lists: Mapping[str, bytes]) -> None:
        self._lists: Final = lists

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator["_Answer"]:
        """See `Transport.open`."""
        watches = ("watch", "true") in call.query or ("watch", "1") in call.query
        yield _Answer(b"" if watches else self._lists[call.path], ends=not watches)

    async def close(self) -> None:
        """See `Transport.close`."""


class _Answer:
    """A list, or a watch without events."""

    code: Final = 200
    headers: Final[Mapping[str, str]] = {"content-type": "application/json"}
    warnings: Final[tuple[str, ...]] = ()

    def __init__(self, body: bytes, *, ends: bool) -> None:
        self._body: Final = body
        self._ends: Final = ends

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer.chunks`."""
        if not self._ends:
            await asyncio.Event().wait()
        yield self._body

    async def read(self) -> bytes:
        """See `Answer.read`."""
        return self._body


def _list(items: Sequence[Mapping[str, Any]]) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()


def _node(number: int, name: str) -> dict[str, Any]:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{number}",
            "resourceVersion": "1",
            "labels": {
                "node.kubernetes.io/capacity": "spot" if number % 3 else "on-demand",
                "node.kubernetes.io/instance-type": f"type-{number % 25}",
                "topology.kubernetes.io/zone": f"zone-{number % 3}",
                "topology.kubernetes.io/region": "region",
                "rota.dev/price": f"{0.1 + 0.01 * (number % 40):.2f}",
            },
        },
        "spec": {} if number % 100 else {"taints": [{"key": "rota.dev/terminating", "effect": "NoSchedule"}]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(number: int, names: Sequence[str], *, placed: bool = True) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "controller": True}
    requests = {"requests": {"cpu": "250m", "memory": "512Mi"}}
    # a node that does not depend on the pod's owner
    node = names[random.Random(number).randrange(len(names))] if placed else ""  # noqa: S311 - keeps no secret
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "uid": f"pod-{number}",
            "resourceVersion": "1",
            "ownerReferences": [{**owner, "uid": f"owner-{number % _OWNERS}"}],
        },
        "spec": {"containers": [{"name": "main", "resources": requests}], **({"nodeName": node} if node else {})},
    }


def _body(attempt: int, names: Sequence[str]) -> bytes:
    return json.dumps({"Pod": _pod(attempt, names, placed=False), "Nodes": None, "NodeNames": names}).encode()


def _at(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
