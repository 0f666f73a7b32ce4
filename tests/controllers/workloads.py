"""What workload controllers need around them in virtual time: a scheduler and a kubelet in a few lines."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from rota.api import errors, meta, times
from rota.client import pods as pod_actions
from rota.client.informers.cache import Key
from rota.client.paths import Target
from rota.client.pods import Binding
from rota.client.reconciler import Reconciler
from rota.client.verbs import Object, PatchType, Selection
from rota.controllers.daemon_sets.placement import node_of
from rota.testing.virtual_api import VirtualCluster

PODS = ("", "v1", "pods")
NODES = ("", "v1", "nodes")
EVENTS = ("", "v1", "events")
NODE = "box"


class Ending(NamedTuple):
    """How a pod ends by itself."""

    code: int = 0
    after_s: float = 1.0


def runs_on(_: Object) -> Ending | None:
    """A pod that goes on until it is deleted."""
    return None


class Kubelet:
    """Runs every pod at once: Running and Ready, then ended as `ends` says; lets deleted ones go after a second.

    A pod is put on the node that it was made for, as a DaemonSet's are, or else on the only one that there is; unless
    there is a scheduler for that.
    """

    def __init__(
        self, cluster: VirtualCluster, *, ends: Callable[[Object], Ending | None] = runs_on, binds: bool = True
    ) -> None:
        self.ends = ends
        self._binds = binds
        #: Pods that do not get ready (by a predicate), as if their images were broken.
        self.broken: Callable[[Object], bool] = lambda _: False
        #: How long a deleted pod takes to go.
        self.farewell_s = 0.0
        #: How pods have ended by themselves, by their uids.
        self.ended: dict[str, int] = {}
        self._cluster = cluster
        self._frame = Reconciler[Key](cluster.client, "kubelet", self._process, clock=cluster.clock, rng=cluster.rng)
        self._pods = self._frame.follow(PODS, lambda key, _old, _new: self._frame.queue.add(key))

    async def run(self) -> None:
        if self._binds:
            await self._make_node()
        await self._frame.run()

    async def _make_node(self) -> None:
        with contextlib.suppress(errors.AlreadyExists):
            room = {"cpu": "1000", "memory": "1000Gi", "pods": "10000"}
            await self._cluster.client.create(NODES, {"metadata": {"name": NODE}, "status": {"allocatable": room}})

    async def _process(self, key: Key) -> float | None:
        pod = self._pods.cache.get(key.name, key.namespace)
        if pod is None:
            return None
        phase, now = pod.get("status", {}).get("phase", "Pending"), self._cluster.clock.now()
        try:
            if meta.is_deleting(pod):
                return await self._let_go(key, pod, now)
            if not pod["spec"].get("nodeName"):
                if not self._binds:
                    return None
                binding = Binding(namespace=key.namespace, pod=key.name, node=node_of(pod) or NODE, uid=meta.uid(pod))
                await pod_actions.bind(self._cluster.client, binding)
            elif phase == "Pending" and not self.broken(pod):
                await self._report(pod, "Running", ready=True)
            elif phase == "Running" and (ending := self.ends(pod)) is not None:
                left = times.parse(pod["status"]["startTime"]) + ending.after_s - now
                if left > 0:
                    return left
                await self._report(pod, "Failed" if ending.code else "Succeeded", ready=False, code=ending.code)
                self.ended[meta.uid(pod)] = ending.code
        except (errors.NotFound, errors.Conflict):
            return None
        return None

    async def _let_go(self, key: Key, pod: Object, now: float) -> float | None:
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 0))
        left = times.parse(pod["metadata"]["deletionTimestamp"]) - grace + self.farewell_s - now
        if left > 0:
            return left
        if pod.get("status", {}).get("phase") == "Running":
            await self._report(pod, "Failed", ready=False, code=143)
        await self._cluster.client.delete(PODS, key.name, namespace=key.namespace, grace_period_s=0, uid=meta.uid(pod))
        return None

    async def _report(self, pod: Object, phase: str, *, ready: bool, code: int | None = None) -> None:
        now = times.format_time(self._cluster.clock.now())
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now}
        state = {"running": {"startedAt": now}}
        if code is not None:
            state = {"terminated": {"exitCode": code, "finishedAt": now}, "running": None}  # type: ignore[dict-item]
        containers = [
            {
                "name": one["name"],
                "image": one["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": 0,
                "state": state,
            }
            for one in pod["spec"]["containers"]
        ]
        status: dict[str, Any] = {"phase": phase, "conditions": [condition], "containerStatuses": containers}
        if phase == "Running":
            status["startTime"] = now
        await self._cluster.client.patch(
            PODS,
            meta.name(pod),
            {"metadata": {"uid": meta.uid(pod)}, "status": status},
            type=PatchType.STRATEGIC,
            namespace=meta.namespace(pod),
            subresource="status",
        )


async def a_few_steps(rng: random.Random) -> None:
    """Let whatever runs take some turns of the loop, so few that it is in the middle of something."""
    for _ in range(rng.randrange(300)):
        await asyncio.sleep(0)


async def listed(cluster: VirtualCluster, target: Target, labels: str = "") -> list[Object]:
    """All of a kind in the default namespace."""
    return (await cluster.client.list(target, namespace="default", selection=Selection(labels=labels))).items


async def status(cluster: VirtualCluster, target: Target, name: str) -> Object:
    found = await cluster.client.get(target, name, namespace="default")
    return found.get("status") or {}


async def reaches(cluster: VirtualCluster, target: Target, name: str, **wanted: Any) -> Object:
    """The object, once its status says all this."""
    try:
        await cluster.until(lambda: _says(cluster, target, name, wanted))
    except AssertionError:
        raise AssertionError(f"{name}: {wanted} wanted, {await status(cluster, target, name)} seen") from None
    return await cluster.client.get(target, name, namespace="default")


async def _says(cluster: VirtualCluster, target: Target, name: str, wanted: dict[str, Any]) -> bool:
    found = await status(cluster, target, name)
    return all(found.get(field, 0) == value for field, value in wanted.items())


async def reasons(cluster: VirtualCluster, name: str) -> dict[str, int]:
    """The events about an object: how often each reason was given."""
    found: dict[str, int] = {}
    for one in await listed(cluster, EVENTS):
        if one["involvedObject"]["name"] == name:
            found[one["reason"]] = found.get(one["reason"], 0) + one.get("count", 1)
    return found
