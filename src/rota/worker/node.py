"""The worker's Node: registers it, updates its status, and renews its Lease."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rota.api import errors, meta, resources, times
from rota.client import masters
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, PatchType
from rota.kit import backoff, levels, logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.worker.host_resources import HostResources

log = logs.get(__name__)

NODES: Final = ("", "v1", "nodes")
LEASES: Final = ("coordination.k8s.io", "v1", "leases")
LEASE_NAMESPACE: Final = "kube-node-lease"
#: Lease duration, as upstream; it is renewed after a quarter of it.
LEASE_S: Final = 40
#: Annotation of a node with the hash of its worker's client key.
KEY_ANNOTATION: Final = "rota.dev/client-key"
_RENEWALS: Final = 4
#: How often an unchanged status is written.
STATUS_S: Final = 300.0
_ENTERING: Final = backoff.Policy(initial_s=0.5, cap_s=10.0)
#: From this code on a response is about the server, not about the request.
_SERVERS_OWN: Final = 500


class NodeTaken(UserError):
    """Another worker uses this node name."""


class NotTaken(UserError):
    """The masters do not accept this worker."""


class NodeKeeper:
    """Keeps one Node and its Lease."""

    def __init__(
        self,
        client: Client,
        machine: HostResources,
        *,
        incarnation: str,
        predecessor: str,
        clock: Clock,
        info: Mapping[str, Any],
        labels: Mapping[str, str],
        taints: Sequence[Mapping[str, str]],
        conditions: Callable[[], Sequence[Mapping[str, Any]]],
        port: int | None,
        lease_s: int = LEASE_S,
        annotations: Mapping[str, str] | None = None,
        sold: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """`sold` returns amounts of resources that change while the worker runs."""
        # A master that does not answer before the next renewal is given up for another.
        self._client: Final = client.with_settings(timeout_s=lease_s / _RENEWALS)
        self._machine: Final = machine
        self._identity: Final = f"{machine.node}_{incarnation}"
        self._predecessor: Final = f"{machine.node}_{predecessor}"
        self._clock: Final = clock
        self._info: Final = info
        self._labels: Final = labels
        self._annotations: Final = {levels.ANNOTATION: str(levels.OWN), **(annotations or {})}
        self._taints: Final = taints
        self._conditions: Final = conditions
        self._port: Final = port
        self._lease_s: Final = lease_s
        self._sold: Final = sold
        #: The conditions and the changing amounts of the last written status.
        self._told: dict[str, str] = {}
        #: Whether this worker has held the Lease, and whether it has written the status of its node.
        self._holds = False
        self._registered = False
        #: The names of resources that this worker has shown.
        self._offered: Final[set[str]] = set()

    async def enter(self, rng: Rng) -> None:
        """Register as soon as a master answers: after a power failure the machine may be up before the masters."""
        pauses = backoff.Backoff(_ENTERING, rng)
        while True:
            try:
                await self.register()
            except (errors.ApiError, TransportError) as problem:
                if isinstance(problem, errors.Unauthorized):
                    raise NotTaken(
                        f"the masters do not take the certificate of {self._machine.node}: was this worker removed?",
                        "let it join again with a token: 'rota token create --join-command' at a master prints how",
                    ) from problem
                if isinstance(problem, errors.ApiError) and problem.code < _SERVERS_OWN:
                    raise
                pause = pauses.next()
                log.warning("not registered yet", node=self._machine.node, error=problem, again_in_s=round(pause, 1))
                await self._clock.sleep(pause)
            else:
                return

    async def register(self) -> None:
        """Create or update the node; NodeTaken if another live worker uses its name, NotTaken if the releases of the
        masters and of this worker are too far apart."""
        name = self._machine.node
        await self._check_levels()
        await self._check_taken()
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": self._all_labels(), "annotations": dict(self._annotations)},
            "spec": {"taints": [dict(one) for one in self._taints]} if self._taints else {},
            "status": self.status({}),
        }
        try:
            await self._client.create(NODES, node)
        except errors.AlreadyExists:
            changed = {"labels": self._all_labels(), "annotations": dict(self._annotations)}
            await self._client.patch(NODES, name, {"metadata": changed}, type=PatchType.MERGE)
            if self._taints:
                log.warning("taints are given to a node when it is made; this one keeps those that it has", node=name)
        await self.tell()
        self._registered = True
        await self.renew()

    async def run(self) -> None:
        """Renew the Lease and update the status until cancelled."""
        told = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._lease_s / _RENEWALS)
            try:
                await self.renew()
                due = self._clock.monotonic() - told >= STATUS_S or self._present() != self._told
                if due or not await self._is_believed():
                    await self.tell()
                    told = self._clock.monotonic()
            except (errors.ApiError, TransportError) as problem:
                log.warning("the node could not be renewed", node=self._machine.node, error=problem)
                if isinstance(problem, errors.NotFound):
                    await self._return()

    def _present(self) -> dict[str, str]:
        """The current conditions and changing amounts."""
        return {one["type"]: one["status"] for one in self._conditions()} | _shown(self._sold())

    async def _return(self) -> None:
        """Register again after the node was deleted while its worker runs."""
        try:
            await self.register()
        except (errors.ApiError, TransportError) as problem:
            log.warning("not registered again", node=self._machine.node, error=problem)

    async def tell(self) -> None:
        """Write the node's status."""
        for _ in range(5):
            node = await self._client.get(NODES, self._machine.node)
            try:
                await self._client.update(NODES, {**node, "status": self.status(node)}, subresource="status")
            except errors.Conflict:
                continue
            return

    async def renew(self) -> None:
        """Renew the Lease; NodeTaken if another worker has taken the node meanwhile."""
        name, now = self._machine.node, times.format_micro_time(self._clock.now())
        spec = {"holderIdentity": self._identity, "leaseDurationSeconds": self._lease_s, "renewTime": now}
        try:
            lease = await self._client.get(LEASES, name, namespace=LEASE_NAMESPACE)
        except errors.NotFound:
            node = await self._client.get(NODES, name)
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": meta.uid(node)}
            metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._client.create(LEASES, made)
            return
        holder = (lease.get("spec") or {}).get("holderIdentity")
        if self._holds and holder != self._identity:
            raise NodeTaken(f"another worker has become {name}", "give one of them another name")
        await self._client.update(LEASES, {**lease, "spec": {**(lease.get("spec") or {}), **spec}})
        self._holds = True

    async def _is_believed(self) -> bool:
        """Whether the masters see this worker as ready; after a network partition they may not."""
        return meta.is_condition_true(await self._client.get(NODES, self._machine.node), "Ready")

    async def _check_levels(self) -> None:
        now = self._clock.now()
        for master in await masters.listed(self._client):
            fault = levels.worker_fault(master.release_levels) if master.is_current(now) else None
            if fault is not None:
                raise NotTaken(fault.message, fault.remedy)

    async def _check_taken(self) -> None:
        """Two workers under one name would run everything twice."""
        name = self._machine.node
        try:
            lease = await self._client.get(LEASES, name, namespace=LEASE_NAMESPACE)
        except errors.NotFound:
            return
        spec = lease.get("spec") or {}
        believed_s = spec.get("leaseDurationSeconds") or LEASE_S
        left_s = times.parse(spec["renewTime"]) + believed_s - self._clock.now() if spec.get("renewTime") else 0.0
        if left_s > 0 and spec.get("holderIdentity") not in {self._identity, self._predecessor}:
            raise NodeTaken(
                f"another worker runs as {name}",
                f"give this one another name, or wait {left_s:.0f} s if that one is gone for good",
            )

    def status(self, node: Object) -> dict[str, Any]:
        """The node's status as it is now."""
        self._told = self._present()
        now = times.format_time(self._clock.now())
        present: Sequence[Mapping[str, Any]] = list(meta.conditions(node))
        for one in (*self._conditions(), _READY):
            present = meta.with_condition(present, one, now=now)
        conditions = [{**one, "lastHeartbeatTime": now} for one in present]
        machine, sold, former = self._machine, self._sold(), node.get("status") or {}
        self._offered.update(machine.capacity, sold)
        status: dict[str, Any] = {
            **former,
            "capacity": self._advertised(former.get("capacity")) | _shown({**machine.capacity, **sold}),
            "allocatable": self._advertised(former.get("allocatable")) | _shown({**machine.allocatable, **sold}),
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": machine.node},
            ],
            "nodeInfo": dict(self._info),
        }
        if self._port is not None:
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._port}}
        return status

    def _advertised(self, amounts: Mapping[str, str] | None) -> dict[str, str]:
        """Extended resources that another client has written into the status since this worker registered."""
        if not self._registered:
            # They may be those of a former worker with other resources.
            return {}
        return {name: amount for name, amount in (amounts or {}).items() if "/" in name and name not in self._offered}

    def _all_labels(self) -> dict[str, str]:
        return {
            "kubernetes.io/hostname": self._machine.node,
            "kubernetes.io/os": str(self._info.get("operatingSystem", "")),
            "kubernetes.io/arch": str(self._info.get("architecture", "")),
            **self._labels,
        }


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


#: True while the agent runs.
_READY: Final = _condition("Ready", "True", "WorkerReady", "the worker is posting ready status")


def _shown(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: resources.shown(name, amount) for name, amount in amounts.items()}
