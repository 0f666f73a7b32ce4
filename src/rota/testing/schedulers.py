"""A scheduler and an API server in virtual time, and fault injection between the two.

async with schedulers.cluster() as cluster, cluster.scheduling() as scheduler:
    await cluster.add_node("n1")
    await cluster.add_pod("web")
    await cluster.bound("web", "n1")
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from rota.client.elections.elector import Pace
from rota.client.pods import PODS
from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.transport import Answer, Call, Interrupted, Transport
from rota.client.verbs import Client, Object, PatchType
from rota.scheduler.batch_profile.settings import LiveBatchSettings
from rota.scheduler.framework.registry import Registry
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.service import NODES, Scheduler
from rota.scheduler.sharding.instance_objects import InstanceSettings
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.testing.clusters import make_node, make_pod
from rota.testing.virtual_api import VirtualCluster

EVENTS: Final = ("", "v1", "events")
HEAD: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class _Answer:
    """A response whose body can be cut off."""

    def __init__(self, inner: Answer, call: Call) -> None:
        self._inner: Final = inner
        self._call: Final = call
        self.cut: Final = asyncio.Event()
        self.code: Final = inner.code
        self.headers: Final = inner.headers
        self.warnings: Final = inner.warnings

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer.chunks`."""
        chunks = aiter(self._inner.chunks())
        cut = asyncio.ensure_future(self.cut.wait())
        coming: asyncio.Future[bytes | None] | None = None
        try:
            while True:
                coming = asyncio.ensure_future(anext(chunks, None))
                await asyncio.wait((coming, cut), return_when=asyncio.FIRST_COMPLETED)
                if cut.done():
                    raise Interrupted(f"{self._call}: cut")
                chunk = coming.result()
                if chunk is None:
                    return
                yield chunk
        finally:
            cut.cancel()
            if coming is not None and not coming.done():
                coming.cancel()
                await asyncio.wait([coming])

    async def read(self) -> bytes:
        """See `Answer.read`."""
        return b"".join([chunk async for chunk in self.chunks()])


class FaultyTransport:
    """Forwards calls through a test's hooks, which may wait, raise, or drop the response."""

    def __init__(self, inner: Transport) -> None:
        self._inner: Final = inner
        #: Called before a call is passed on; raising keeps it from the server.
        self.before: Callable[[Call], Awaitable[None]] | None = None
        #: Called after the server has acted and before its answer is seen; raising loses the answer.
        self.after: Callable[[Call], Awaitable[None]] | None = None
        self.calls: Final[list[Call]] = []
        self._open: Final[set[_Answer]] = set()

    def cut(self) -> None:
        """Break every connection that is open."""
        for answer in tuple(self._open):
            answer.cut.set()

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        """See `Transport.open`."""
        self.calls.append(call)
        if self.before is not None:
            await self.before(call)
        async with self._inner.open(call) as answer:
            if self.after is not None:
                await self.after(call)
            cuttable = _Answer(answer, call)
            self._open.add(cuttable)
            try:
                yield cuttable
            finally:
                self._open.discard(cuttable)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._inner.close()


class SchedulingCluster(VirtualCluster):
    """A server in virtual time with helpers for nodes and pods."""

    @contextlib.asynccontextmanager
    async def scheduling(
        self,
        config: str = "",
        *,
        plugins: tuple[type, ...] = (),
        elect: bool = False,
        pace: Pace | None = None,
        seed: int = 0,
        client: Client | None = None,
        limit_s: float = 60.0,
        batch: LiveBatchSettings | None = None,
        shard: InstanceSettings | None = None,
    ) -> AsyncIterator[Scheduler]:
        """A scheduler at work; `config` is the rest of a configuration file, `plugins` are classes that it may name.

        With `batch` it has a batch profile, with `shard` it is one of several schedulers.
        """
        scheduler = Scheduler(
            client or self.acting_as("rota:scheduler"),
            configured(config, *plugins),
            clock=self.clock,
            rng=random.Random(seed),  # noqa: S311 - a test's chance is repeatable
            identity=f"scheduler-{seed}",
            elect=elect,
            pace=pace,
            limit_s=limit_s,
            batch=batch,
            shard=shard,
        )
        async with self.running(scheduler.run):
            await self.until(lambda: _holds(lambda: scheduler.synced))
            yield scheduler

    def meddling(self) -> tuple[Client, FaultyTransport]:
        """Another client of the same server, whose calls a test may disturb."""
        transport = FaultyTransport(InProcessTransport(self.server.app, clock=self.clock))
        return Client(transport), transport

    async def add_node(self, name: str, *, labels: Mapping[str, str] | None = None, **allocatable: str) -> None:
        """Create a node, by default of 4 cores, 16 GiB and 10 pods."""
        await self.client.create(NODES, {"apiVersion": "v1", **make_node(name, labels=labels, **allocatable)})

    async def add_pod(self, name: str, **about: Any) -> Object:
        """Create a pod, by default of 100 millicores; see `clusters.make_pod`."""
        pod = {"apiVersion": "v1", **make_pod(name, **about)}
        del pod["metadata"]["uid"]
        return await self.client.create(PODS, pod)

    async def pod(self, name: str) -> Object:
        """A pod as it is now."""
        return await self.client.get(PODS, name, namespace="default")

    async def node_of(self, name: str) -> str:
        """Where a pod is bound, or ""."""
        return str((await self.pod(name))["spec"].get("nodeName") or "")

    async def bound(self, name: str, node: str = "") -> str:
        """Wait until a pod is bound, to that node if one is named; where."""

        async def condition() -> bool:
            found = await self.node_of(name)
            return found == node if node else bool(found)

        await self.until(condition)
        return await self.node_of(name)

    async def refused(self, name: str) -> Mapping[str, str]:
        """Wait until a pod is marked unschedulable; the condition."""

        async def condition() -> bool:
            return _scheduled(await self.pod(name)).get("status") == "False"

        await self.until(condition)
        return _scheduled(await self.pod(name))

    async def said(self, name: str, reason: str) -> str:
        """Wait for an event about a pod; its message."""

        async def messages() -> list[str]:
            found = (await self.client.list(EVENTS, namespace="default")).items
            return [
                one["message"] for one in found if one["involvedObject"]["name"] == name and one["reason"] == reason
            ]

        await self.until(lambda: _found(messages))
        return (await messages())[0]

    async def update_pod(self, name: str, patch: Any) -> None:
        """Change parts of a pod."""
        await self.client.patch(PODS, name, patch, type=PatchType.STRATEGIC, namespace="default")


def configured(config: str = "", *plugins: type) -> Loaded:
    """A configuration from the rest of a file, with further plugin classes at hand."""
    known = builtin.registry()
    registry = Registry([*(known[name] for name in known), *plugins])
    return third_party.load(HEAD + config, registry) if config else third_party.default(registry)


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[SchedulingCluster]:
    """A fresh server in memory, in virtual time."""
    clock = FakeClock()
    async with ApiServer(clock=clock) as server:
        made = SchedulingCluster(server, clock)
        yield made
        await made.close()


def _scheduled(pod: Object) -> Mapping[str, str]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


async def _holds(condition: Callable[[], bool]) -> bool:
    return condition()


async def _found(messages: Callable[[], Awaitable[list[str]]]) -> bool:
    return bool(await messages())
