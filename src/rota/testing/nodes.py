"""Simulated nodes: they register, renew their leases, report pods as running and finished, and remove deleted ones.

    nodes = SimulatedNodes(client, [manifests.node("n1")], clock=clock, rng=rng)
    supervisor.start("nodes", nodes.run)
    nodes.silence("n1")     # no more heartbeats, no more reports, as if its cable were pulled

They do only what controllers and schedulers wait for: nothing is pulled, mounted or started. A pod that
restarts always is Running and Ready a moment after it was bound (`start_s`); any other has Succeeded a moment later, or
Failed if its annotation `simulator.rota.dev/fails` is there.
"""

import ipaddress
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rota.api import errors, times
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.queues.work import WorkQueue
from rota.client.verbs import Client, Object, PatchType, Selection
from rota.kit import tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

FAILS: Final = "simulator.rota.dev/fails"
_PODS: Final = ("", "v1", "pods")
_NODES: Final = ("", "v1", "nodes")
_LEASES: Final = ("coordination.k8s.io", "v1", "leases")
_LEASE_NAMESPACE: Final = "kube-node-lease"
_HEARTBEAT_S: Final = 2.0
_LEASE_DURATION_S: Final = 40
_WORKERS: Final = 16
_FIRST_ADDRESS: Final = ipaddress.IPv4Address("10.128.0.1")


class SimulatedNodes:
    """A set of nodes on one API server."""

    def __init__(
        self,
        client: Client,
        nodes: Sequence[Mapping[str, Any]],
        *,
        clock: Clock,
        rng: Rng,
        start_s: float = 0.0,
        heartbeat_s: float = _HEARTBEAT_S,
    ) -> None:
        self._client: Final = client
        self._start_s: Final = start_s
        self._heartbeat_s: Final = heartbeat_s
        #: When pods that have not started yet were first seen on their nodes, by uid.
        self._bound_at: Final[dict[str, float]] = {}
        self._clock: Final = clock
        self._rng: Final = rng
        self._nodes: Final = {str(node["metadata"]["name"]): node for node in nodes}
        self._silent: Final[set[str]] = set()
        self._addresses: Final = itertools.count(int(_FIRST_ADDRESS))
        self._queue: Final = WorkQueue[Key](clock=clock, rng=rng, name="nodes")
        source = Source(client=client, target=_PODS, selection=Selection(fields="spec.nodeName!="))
        self._pods: Final = Informer[Object](source, decode=msgspec.json.decode, clock=clock, rng=rng)

    def silence(self, node: str) -> None:
        """Stop a node's heartbeats and status updates."""
        self._silent.add(node)

    def speak(self, node: str) -> None:
        """Resume a silent node."""
        self._silent.discard(node)
        for key, pod in self._pods.cache.items():
            if pod["spec"]["nodeName"] == node:
                self._queue.add(key)

    async def register(self) -> None:
        """Create the missing nodes."""
        for node in self._nodes.values():
            try:
                await self._client.create(_NODES, node)
            except errors.AlreadyExists:
                continue

    async def run(self) -> None:
        """Run until cancelled."""
        await self.register()
        leave = self._pods.add_handler(self._changed)
        try:
            async with tasks.Supervisor("nodes", clock=self._clock, rng=self._rng) as parts:
                parts.start("heartbeats", self._beat)
                parts.start("pods", self._pods.run)
                parts.start("kubelets", lambda: self._queue.work(self._serve, workers=_WORKERS))
                await parts.wait()
        finally:
            leave()

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None and new["spec"]["nodeName"] in self._nodes:
            self._queue.add(key)

    async def _beat(self) -> None:
        while True:
            for name in self._nodes.keys() - self._silent:
                await self._renew(name)
                await self._report_ready(name)
            await self._clock.sleep(self._heartbeat_s)

    async def _renew(self, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_DURATION_S, "renewTime": self._micro_time()}
        try:
            await self._client.patch(_LEASES, name, {"spec": spec}, namespace=_LEASE_NAMESPACE)
        except errors.NotFound:
            lease = {"metadata": {"name": name, "namespace": _LEASE_NAMESPACE}, "spec": spec}
            await self._client.create(_LEASES, lease)

    async def _report_ready(self, name: str) -> None:
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": self._time()}
        try:
            node = await self._client.get(_NODES, name)
            ready = [one for one in node.get("status", {}).get("conditions", ()) if one["type"] == "Ready"]
            if ready and ready[0]["status"] == "True":
                return
            patch = {"status": {"conditions": [{**condition, "lastTransitionTime": self._time()}]}}
            await self._client.patch(_NODES, name, patch, type=PatchType.STRATEGIC, subresource="status")
        except errors.NotFound:
            return  # the node was deleted; a real node would register again, simulated ones do not

    async def _serve(self, key: Key) -> float | None:
        pod = self._pods.cache.get(key.name, key.namespace)
        if pod is None or pod["spec"]["nodeName"] in self._silent:
            return None
        metadata = pod["metadata"]
        if (wait_s := self._until_started(pod)) > 0:
            return wait_s
        try:
            if "deletionTimestamp" in metadata:
                await self._client.delete(
                    _PODS, metadata["name"], namespace=metadata["namespace"], grace_period_s=0, uid=metadata["uid"]
                )
            elif (status := self._next(pod)) is not None:
                await self._client.patch(
                    _PODS,
                    metadata["name"],
                    {"metadata": {"uid": metadata["uid"]}, "status": status},
                    namespace=metadata["namespace"],
                    type=PatchType.STRATEGIC,
                    subresource="status",
                )
        except (errors.NotFound, errors.Conflict):
            pass  # deleted, or another pod of the same name: the watch shows it
        return None

    def _until_started(self, pod: Object) -> float:
        """Seconds until a bound pod starts; 0 for pods that run or are being deleted."""
        uid, now = pod["metadata"]["uid"], self._clock.monotonic()
        if "deletionTimestamp" in pod["metadata"] or pod.get("status", {}).get("phase", "Pending") != "Pending":
            self._bound_at.pop(uid, None)
            return 0.0
        return self._bound_at.setdefault(uid, now) + self._start_s - now

    def _next(self, pod: Object) -> Object | None:
        """The next status of a pod; None if it does not change."""
        phase = pod.get("status", {}).get("phase", "Pending")
        if phase == "Pending":
            return self._running(pod)
        if phase == "Running" and pod["spec"].get("restartPolicy", "Always") != "Always":
            return self._ended(pod)
        return None

    def _running(self, pod: Object) -> Object:
        now, address = self._time(), str(ipaddress.IPv4Address(next(self._addresses)))
        statuses = [
            {**_container(one), "ready": True, "started": True, "state": {"running": {"startedAt": now}}}
            for one in pod["spec"]["containers"]
        ]
        return {
            "phase": "Running",
            "startTime": now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [self._condition(kind, "True") for kind in ("Initialized", "ContainersReady", "Ready")],
            "containerStatuses": statuses,
        }

    def _ended(self, pod: Object) -> Object:
        fails = FAILS in (pod["metadata"].get("annotations") or {})
        end = {"exitCode": int(fails), "reason": "Error" if fails else "Completed", "finishedAt": self._time()}
        statuses = [
            {**_container(one), "ready": False, "started": False, "state": {"terminated": end, "running": None}}
            for one in pod["spec"]["containers"]
        ]
        return {
            "phase": "Failed" if fails else "Succeeded",
            "conditions": [self._condition(kind, "False", "PodCompleted") for kind in ("ContainersReady", "Ready")],
            "containerStatuses": statuses,
        }

    def _condition(self, kind: str, status: str, reason: str = "") -> Object:
        because = {"reason": reason} if reason else {}
        return {"type": kind, "status": status, "lastTransitionTime": self._time(), **because}

    def _time(self) -> str:
        return times.format_time(self._clock.now())

    def _micro_time(self) -> str:
        return times.format_micro_time(self._clock.now())


def _container(container: Mapping[str, Any]) -> Object:
    return {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
