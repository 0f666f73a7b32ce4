"""Clusters that scenarios run on, side by side: one in virtual time, and what one of real processes shares with it."""

import asyncio
import contextlib
import itertools
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

from tests.controllers.workloads import Kubelet
from tests.scheduler.batch_scenarios.stage import (
    LANES,
    MEEK,
    NODES,
    PRIORITIES,
    PRIORITY_CLASSES,
    PROBE,
    Lane,
    Scenario,
    Stage,
)

from rota.api import errors, meta
from rota.api.batch import kinds
from rota.client.pods import PODS
from rota.client.verbs import Client, Object
from rota.controllers import controller_registry
from rota.controllers.controller_registry import ControllerContext
from rota.pki.authorities import Authority
from rota.testing import batches

_NEEDED: Final = ("batch-groups", "batch-jobs", "batch-queues", "deployments", "garbage", "replica-sets")
ALL_LANES: Final = tuple(Lane(number) for number in range(LANES))
#: The limit of every wait, in looks at the cluster.
_PATIENCE: Final = 500
_LOOK_AGAIN_S: Final = 0.25


class Watched:
    """A cluster that all scenarios look at together: one list of pods and of groups a round, for all of them."""

    def __init__(self, client: Client, pause: Callable[[float], Awaitable[None]]) -> None:
        """`pause` lets time pass."""
        self.client: Final = client
        self._pause: Final = pause
        self._pods: dict[str, list[Object]] = {}
        self._groups: dict[str, list[Object]] = {}
        self._begun = 0
        self._next: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def pods(self, namespace: str) -> Sequence[Object]:
        """See `World.pods`."""
        return self._pods.get(namespace, [])

    def groups(self, namespace: str) -> Sequence[Object]:
        """See `World.groups`."""
        return self._groups.get(namespace, [])

    async def until(self, holds: Callable[[], bool]) -> None:
        """See `World.until`."""
        first = self._begun + 1
        for _ in range(_PATIENCE):
            await asyncio.shield(self._next)
            if self._begun >= first and holds():
                return
        raise AssertionError("it did not come true")

    async def play(self, scenarios: Iterable[Scenario]) -> dict[str, str]:
        """Run scenarios side by side, those of a lane in turn; by name, what went wrong."""
        problems: dict[str, str] = {}
        lanes: dict[Lane, list[Scenario]] = {}
        for one in scenarios:
            lanes.setdefault(one.lane, []).append(one)
        playing = [asyncio.ensure_future(self._in_turn(each, problems)) for each in lanes.values()]
        while not all(one.done() for one in playing):
            await self._round()
            await self._pause(_LOOK_AGAIN_S)
        return problems

    async def _in_turn(self, scenarios: Iterable[Scenario], problems: dict[str, str]) -> None:
        for one in scenarios:
            stage = Stage(self, one)
            try:
                await stage.open()
                await one.play(stage)
                await stage.close()
            except (AssertionError, errors.ApiError):
                problems[one.name] = traceback.format_exc(limit=-3)
                return

    async def _round(self) -> None:
        self._begun += 1
        pods, groups = await self.client.list(PODS), await self.client.list(kinds.POD_GROUPS)
        self._pods, self._groups = _by_namespace(pods.items), _by_namespace(groups.items)
        seen, self._next = self._next, asyncio.get_running_loop().create_future()
        seen.set_result(None)


def _by_namespace(found: Iterable[Object]) -> dict[str, list[Object]]:
    sorted_out: dict[str, list[Object]] = {}
    for one in found:
        sorted_out.setdefault(meta.namespace(one), []).append(one)
    return sorted_out


async def prepare(client: Client) -> None:
    """Create what all scenarios share: priorities and domains of the network."""
    made: Object = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for name, value in PRIORITIES.items():
        await client.create(PRIORITY_CLASSES, {**made, "metadata": {"name": name}, "value": value})
    meek = {"metadata": {"name": MEEK}, "value": 2000, "preemptionPolicy": "Never"}
    await client.create(PRIORITY_CLASSES, {**made, **meek})
    for name, (tier, kind, members) in itertools.chain.from_iterable(one.domains.items() for one in ALL_LANES):
        listed = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members]
        spec = {"tier": tier, "members": listed}
        made = {"apiVersion": f"{kinds.TOPOLOGY}/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
        await client.create(kinds.HYPER_NODES, {**made, "spec": spec})


def amounts(scenarios: Iterable[Scenario]) -> dict[str, dict[str, str]]:
    """For each node the resources that scenarios need there."""
    found = {node: {PROBE: "1000"} for lane in ALL_LANES for node in lane.nodes}
    for scenario in scenarios:
        for node, amount in zip(scenario.lane.nodes, scenario.room, strict=False):
            found[node][scenario.resource] = str(amount)
    return found


@contextlib.asynccontextmanager
async def virtual(scenarios: Collection[Scenario], conf: str) -> AsyncIterator[Watched]:
    """A cluster in virtual time with the controllers, a scheduler of this configuration and a kubelet."""
    async with contextlib.AsyncExitStack() as parts:
        cluster = await parts.enter_async_context(batches.cluster())
        await prepare(cluster.client)
        for name, extended in amounts(scenarios).items():
            await cluster.client.create(
                NODES,
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                    "status": {
                        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "1000", **extended},
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                },
            )
        authority = Authority.create(now=cluster.clock.now())
        around = ControllerContext(clock=cluster.clock, rng=cluster.rng, authority=authority)
        for name in _NEEDED:
            controller = controller_registry.ROSTER[name](cluster.acting_as(f"rota:controller:{name}"), around)
            await parts.enter_async_context(cluster.running(controller.run))
        await parts.enter_async_context(cluster.running(Kubelet(cluster, binds=False).run))
        await parts.enter_async_context(cluster.batching(conf))
        yield Watched(cluster.client, cluster.clock.advance)
