"""A cluster in virtual time with machines that go: owners that make new pods, budgets, nodes that run what fits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tests.controllers.workloads import EVENTS, NODES, PODS, Kubelet

from rota.api import errors, meta, resources, times
from rota.client import pods as pod_actions
from rota.client.informers.cache import Key
from rota.client.pods import Binding
from rota.client.verbs import Object
from rota.client.wire import EventType
from rota.controllers.disruption import BUDGETS, DisruptionController
from rota.controllers.replica_sets import REPLICA_SETS, ReplicaSetController
from rota.kit.metrics import Metrics
from rota.scheduler.plugin_registry import builtin, configuration_source, third_party
from rota.spot import reservations
from rota.spot.return_policy import USUAL, Settings
from rota.spot_control.controller import SpotController
from rota.testing import manifests
from rota.testing.virtual_api import VirtualCluster

CAPACITY: Final = "node.kubernetes.io/capacity"
TERMINATING: Final = "rota.dev/terminating"
_CLASSES: Final = ("scheduling.k8s.io", "v1", "priorityclasses")
_ROOM: Final = 4000


class Machines(Kubelet):
    """Runs pods where they are bound, and binds the others where there is room and no taint, on-demand last."""

    #: Whether pods without a node get one.
    places = True
    #: Whether they get what they were told of.
    heeds = True

    async def run(self) -> None:
        await self._frame.run()

    async def _process(self, key: Key) -> float | None:
        pod = self._pods.cache.get(key.name, key.namespace)
        if pod is None or pod["spec"].get("nodeName") or meta.is_deleting(pod):
            return await super()._process(key)
        node = ""
        if self.places:
            told = (pod.get("status") or {}).get("nominatedNodeName") if self.heeds else ""
            node = told if told and await self._room(pod, told) else await self._choose(pod)
        if not node:
            return 1.0
        try:
            binding = Binding(namespace=key.namespace, pod=key.name, node=node, uid=meta.uid(pod))
            await pod_actions.bind(self._cluster.client, binding)
        except (errors.NotFound, errors.Conflict):
            return 1.0  # another pod was quicker
        return None

    async def _room(self, pod: Object, name: str) -> bool:
        """Whether a pod fits where it was told to go."""
        found = [one for one in (await self._cluster.client.list(PODS)).items if one["spec"].get("nodeName") == name]
        taken = sum(resources.pod_requests(one).get("cpu", 0) for one in (*found, pod))
        return taken <= _ROOM

    async def _choose(self, pod: Object) -> str:
        client = self._cluster.client
        used: dict[str, int] = {}
        for other in (await client.list(PODS)).items:
            name = other["spec"].get("nodeName", "")
            used[name] = used.get(name, 0) + resources.pod_requests(other).get("cpu", 0)
        need = resources.pod_requests(pod).get("cpu", 0)
        found = [
            (
                (node["metadata"]["labels"].get(CAPACITY) != "spot") is self.heeds,
                used.get(meta.name(node), 0),
                meta.name(node),
            )
            for node in (await client.list(NODES)).items
            if not (node.get("spec") or {}).get("taints") and used.get(meta.name(node), 0) + need <= _ROOM
        ]
        return min(found)[2] if found else ""


class World:
    """What a test sees and does."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster: Final = cluster
        self.client: Final = cluster.client
        self.clock: Final = cluster.clock
        self.machines: Final = Machines(cluster)
        self.metrics: Final = Metrics("spot")

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator["World"]:
        given = {"clock": self.clock, "rng": self.cluster.rng}
        async with (
            self.cluster.running(self.machines.run),
            self.cluster.running(ReplicaSetController(self.client, **given).run),  # type: ignore[arg-type]
            self.cluster.running(DisruptionController(self.client, **given).run),  # type: ignore[arg-type]
        ):
            yield self

    @contextlib.asynccontextmanager
    async def controlled(
        self, *, dry_run: bool = False, namespace: str = "kube-system", back: Settings = USUAL
    ) -> AsyncIterator[None]:
        """While a spot controller runs; figures go on from one to the next."""
        controller = SpotController(
            self.client,
            configuration_source.frameworks(third_party.default(builtin.registry())),
            clock=self.clock,
            rng=self.cluster.rng,
            metrics=self.metrics,
            namespace=namespace,
            back=back,
            dry_run=dry_run,
        )
        async with self.cluster.running(controller.run):
            await self.clock.advance(0.5)
            yield

    async def node(self, name: str, capacity: str = "spot", **labels: str) -> None:
        made = manifests.node(name, **{CAPACITY: capacity}, **labels)
        await self.client.create(NODES, made)

    async def replicas(
        self, name: str, count: int, *, on: str = "", annotations: Any = None, cpu: str = "1", **spec: Any
    ) -> None:
        """A ReplicaSet whose first pods are on a node, if one is named."""
        labels = {"app": name, "all": "yes"}
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
        template = {
            "metadata": {"labels": labels, "annotations": annotations or {}},
            "spec": {"containers": [container], **spec},
        }
        await self.client.create(
            REPLICA_SETS,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template},
            },
        )

        async def running() -> bool:
            return len(await self.pods(name, on=on)) == count == await self.ready(name)

        await self.cluster.until(running)

    async def budget(self, name: str, least: int, **match: str) -> None:
        made = manifests.budget(name, min_available=least, **match)
        made["metadata"]["namespace"] = "default"
        await self.client.create(BUDGETS, made)

        async def counted() -> bool:
            status = (await self.client.get(BUDGETS, name, namespace="default")).get("status") or {}
            return status.get("observedGeneration") == 1 and status.get("currentHealthy", 0) >= least

        await self.cluster.until(counted)

    async def priority(self, name: str, value: int) -> None:
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await self.client.create(_CLASSES, {**kind, "metadata": {"name": name}, "value": value})

    async def notice(self, *names: str, lead: float = 120.0) -> None:
        now = self.clock.now()
        taint = {"key": TERMINATING, "effect": "NoSchedule", "timeAdded": times.format_time(now)}
        until = {"rota.dev/terminates-at": times.format_time(now + lead)}
        for name in names:
            await self.client.patch(NODES, name, {"metadata": {"annotations": until}, "spec": {"taints": [taint]}})

    async def withdraw(self, name: str) -> None:
        node = await self.client.get(NODES, name)
        left = [one for one in node["spec"]["taints"] if one["key"] != TERMINATING]
        await self.client.patch(NODES, name, {"spec": {"taints": left}})

    async def pods(self, app: str = "", *, on: str = "") -> list[Object]:
        found = (await self.client.list(PODS, namespace="default")).items
        return [
            pod
            for pod in found
            if (not app or _labels(pod).get("app") == app) and (not on or pod["spec"].get("nodeName") == on)
        ]

    async def ready(self, app: str) -> int:
        """How many pods serve."""
        return sum(map(_serves, await self.pods(app)))

    @contextlib.asynccontextmanager
    async def counting_ready(self, app: str) -> AsyncIterator[list[int]]:
        """How many pods served after each change of one of them, in order."""
        serving = {meta.uid(pod): _serves(pod) for pod in await self.pods(app)}
        counts = [sum(serving.values())]
        version = (await self.client.list(PODS, namespace="default")).resource_version

        async def count() -> None:
            async with self.client.watch(PODS, namespace="default", resource_version=version) as events:
                async for event in events:
                    if event.type is not EventType.BOOKMARK and _labels(event.object).get("app") == app:
                        gone = event.type is EventType.DELETED
                        serving[meta.uid(event.object)] = not gone and _serves(event.object)
                        counts.append(sum(serving.values()))

        counting = asyncio.create_task(count())
        try:
            yield counts
        finally:
            counting.cancel()
            await asyncio.wait([counting])

    async def made(self, app: str) -> int:
        """How many pods the owner has made in all."""
        found = [one for one in (await self.client.list(EVENTS)).items if one["involvedObject"]["name"] == app]
        return sum(one.get("count") or 1 for one in found if one["reason"] == "SuccessfulCreate")

    async def places(self) -> dict[str, str]:
        """The places that are held in the cluster: the pods that leave, and the nodes for their successors."""
        found = [one for one in (await self.client.list(PODS)).items if reservations.is_one(one)]
        return {held.pod.removeprefix("default/"): held.node for held in map(reservations.read, found)}

    async def left(self, *names: str) -> None:
        """Wait until no pod is on these nodes."""

        async def empty() -> bool:
            return not [pod for pod in await self.pods() if _node(pod) in names]

        await self.cluster.until(empty)

    async def taints(self, name: str) -> list[str]:
        node = await self.client.get(NODES, name)
        return [one["key"] for one in (node.get("spec") or {}).get("taints") or ()]

    async def labels(self, name: str) -> Mapping[str, str]:
        return _labels(await self.client.get(NODES, name))

    async def reasons(self, *, about: str = "") -> dict[str, int]:
        """How often each reason was given in events."""
        await self.clock.advance(0.5)
        found: dict[str, int] = {}
        for one in (await self.client.list(EVENTS)).items:
            if one["reason"].startswith("Spot") and one["involvedObject"]["name"].startswith(about):
                found[one["reason"]] = found.get(one["reason"], 0) + (one.get("count") or 1)
        return found

    def figure(self, name: str, **labels: str) -> float:
        return self.metrics.value(name, **labels) or 0.0


def _serves(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return not meta.is_deleting(pod) and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _labels(thing: Object) -> Mapping[str, str]:
    return thing["metadata"].get("labels") or {}


def _node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName") or "")
