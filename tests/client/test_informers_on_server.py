"""Informers on the real API server: whatever happens to connections and history, they end up with its state."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api import codec, errors
from rota.apiserver.server import http_server
from rota.client.endpoints import Endpoint
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.transports.http import HttpTransport
from rota.client.transports.in_process import InProcessTransport
from rota.client.verbs import Client, Selection
from rota.kit.metrics import Metrics
from rota.kit.system import SystemClock
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

MAPS = ("", "v1", "configmaps")
Object = dict[str, Any]


class Cutter:
    """An application in front of the server whose streams can be broken off at any time."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._streams: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        for task in self._streams:
            task.cancel()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.ensure_future(self._server.app(scope, receive, send))
        if b"watch=true" in scope["query_string"]:
            self._streams.add(task)
            task.add_done_callback(self._streams.discard)
        await asyncio.wait([task])


class Mirror:
    """Believes only what its handler is told."""

    def __init__(self, informer: Informer[Object]) -> None:
        self.informer = informer
        self.state: dict[Key, Object] = {}
        informer.add_handler(self._told)

    def _told(self, key: Key, old: Object | None, new: Object | None) -> None:
        assert (old is None) is (key not in self.state)
        if new is None:
            del self.state[key]
        else:
            self.state[key] = new


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_STEPS = st.one_of(
    st.tuples(st.sampled_from(["write", "label", "delete"]), _NAMES),
    st.tuples(st.sampled_from(["cut", "compact", "settle", "wait"]), st.just("")),
)


async def _change(client: Client, step: str, name: str, number: int) -> None:
    try:
        match step:
            case "delete":
                await client.delete(MAPS, name, namespace="default")
            case "label":
                patch = {"metadata": {"labels": {"odd": str(number % 2)}}}
                await client.patch(MAPS, name, patch, namespace="default")
            case _:
                metadata = {"name": name, "namespace": "default", "labels": {"odd": str(number % 2)}}
                obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"n": str(number)}}
                await client.apply(MAPS, obj, force=True)
    except errors.NotFound:
        pass


async def _run(steps: list[tuple[str, str]], page_size: int) -> float:
    """How often an informer had to list again."""
    clock, metrics = FakeClock(), Metrics("client")
    async with ApiServer(clock=clock) as server:
        cutter = Cutter(server)
        transport = InProcessTransport(cutter, clock=clock)
        direct = InProcessTransport(server.app, clock=clock)
        client = Client(direct)
        mirrors = [
            Mirror(
                Informer(
                    Source(
                        client=Client(transport), target=MAPS, selection=Selection(labels=labels), page_size=page_size
                    ),
                    decode=codec.decode,
                    clock=clock,
                    rng=random.Random(seed),
                    metrics=metrics,
                )
            )
            for seed, labels in enumerate(("", "odd=1"))
        ]
        running = [asyncio.ensure_future(mirror.informer.run()) for mirror in mirrors]
        for number, (step, name) in enumerate(steps):
            match step:
                case "cut":
                    cutter.cut()
                case "compact":
                    await server.store.compact((await server.store.revision_range()).revision)
                case "settle":
                    await clock.settle()
                case "wait":
                    await clock.advance(1)
                case _:
                    await _change(client, step, name, number)
        await clock.advance(120)
        for mirror, labels in zip(mirrors, ("", "odd=1"), strict=True):
            listed = await client.list(MAPS, selection=Selection(labels=labels))
            truth = {Key(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in listed.items}
            assert mirror.state == truth
            assert dict(mirror.informer.cache.items()) == truth
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        for one in (transport, direct):
            closing = asyncio.ensure_future(one.close())
            await clock.advance(10)
            await closing
    return metrics.value("informer_lists_total", resource="configmaps", reason="expired") or 0.0


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.lists(_STEPS, max_size=25), st.integers(1, 3))
def test_informers_end_up_with_the_servers_state(steps: list[tuple[str, str]], page_size: int) -> None:
    asyncio.run(_run(steps, page_size))


@pytest.mark.slow
async def test_a_cut_and_a_compaction_at_once_lose_nothing() -> None:
    steps = [
        ("write", "a"),
        ("write", "b"),
        ("wait", ""),
        ("cut", ""),
        ("delete", "a"),
        ("compact", ""),
        ("label", "b"),
    ]
    assert await _run(steps, 1) == 2.0


@pytest.mark.slow
async def test_an_informer_survives_the_restart_of_its_server() -> None:
    clock, rng = SystemClock(), random.Random(0)
    async with ApiServer() as server:
        client = Client(InProcessTransport(server.app, clock=clock))
        async with http_server.serve(_Endless(server)) as served:
            remote = HttpTransport(Endpoint(server=served.url))
            source = Source(client=Client(remote), target=MAPS)
            informer = Informer(source, decode=codec.decode, clock=clock, rng=rng)
            running = asyncio.ensure_future(informer.run())
            await informer.wait_synced()
            await _change(client, "write", "a", 1)
        await _change(client, "write", "b", 2)
        await _change(client, "delete", "a", 3)
        async with http_server.serve(_Endless(server), port=served.port):
            async with asyncio.timeout(60):
                while informer.cache.get("b", "default") is None or informer.lag_s:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert informer.cache.get("a", "default") is None
            running.cancel()
            await asyncio.wait([running])
            await remote.close()


class _Endless:
    """A server process that dies without closing what it serves: its streams break off."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._ending = asyncio.Event()

    def close(self) -> None:
        self._ending.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        work = asyncio.ensure_future(self._server.app(scope, receive, send))
        ending = asyncio.ensure_future(self._ending.wait())
        await asyncio.wait((work, ending), return_when=asyncio.FIRST_COMPLETED)
        for task in (work, ending):
            task.cancel()
        await asyncio.wait((work, ending))
