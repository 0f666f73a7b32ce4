"""An observer that finds overcommitted nodes from watches alone, whatever schedulers and API server run.

    observer = AllocationObserver()
    async with observer.following(client, clock=clock, rng=rng):
        ...                                     # schedulers at work
    assert observer.violations == []

It adds up the requests, the host ports and the GPU shares of all pods on a node after every event, in the order of the
watch, and compares them with what the node can give. It shares no code with the binding transaction or the scheduler's
columns, so that an error there is not repeated here; only quantities are parsed by the library.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rota.api import gpu_devices, quantities
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.verbs import Client
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.tasks import Supervisor

Object = Mapping[str, Any]
_PODS: Final = ("", "v1", "pods")
_NODES: Final = ("", "v1", "nodes")
_OVER: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Violation:
    """A node that more is bound to than it has."""

    node: str
    what: str
    #: In thousandths.
    bound: int
    limit: int
    #: The resourceVersion of the pod whose event showed it.
    revision: str

    def __str__(self) -> str:
        return f"{self.node}: {self.what} {self.bound / 1000:g} of {self.limit / 1000:g} at revision {self.revision}"


@dataclass(slots=True)
class _Held:
    node: str
    amounts: Mapping[str, int]
    ports: tuple[str, ...]
    shares: Mapping[int, int]


@dataclass(slots=True)
class AllocationObserver:
    """Sums over the pods of each node."""

    violations: list[Violation] = field(default_factory=list)
    #: Events of pods, and pods that got a node.
    events: int = 0
    bindings: int = 0
    _limits: dict[str, Mapping[str, int]] = field(default_factory=dict)
    _held: dict[str, _Held] = field(default_factory=dict)
    _sums: dict[str, Counter[str]] = field(default_factory=dict)

    def node(self, name: str, obj: Object | None) -> None:
        """A node as it is now; None if it is gone."""
        if obj is None:
            self._limits.pop(name, None)
            return
        status = obj.get("status") or {}
        given = status.get("allocatable") or status.get("capacity") or {}
        self._limits[name] = {what: _number(text) for what, text in given.items()}

    def pod(self, uid: str, obj: Object | None) -> None:
        """A pod as it is now; None if it is gone."""
        self.events += 1
        before = self._held.pop(uid, None)
        if before is not None:
            self._add(before, -1)
        now = None if obj is None else _held(obj)
        if now is None:
            return
        assert obj is not None
        self._held[uid] = now
        self._add(now, 1)
        if before is None or before.node != now.node:
            self.bindings += 1
            # Only a binding can break the limits of a node; the end of a pod cannot.
            self._check(now.node, obj["metadata"].get("resourceVersion", ""))

    def _add(self, held: _Held, sign: int) -> None:
        sums = self._sums.setdefault(held.node, Counter())
        sums["pods"] += 1000 * sign
        for what, amount in held.amounts.items():
            sums[what] += sign * amount
        for port in held.ports:
            sums[f"port {port}"] += 1000 * sign
        for device, share in held.shares.items():
            sums[f"device {device}"] += sign * share

    def _check(self, node: str, revision: str) -> None:
        limits, sums = self._limits.get(node), self._sums[node]
        if limits is None:
            self.violations.append(Violation(node, "node", 1000, 0, revision))
            return
        for what, amount in sums.items():
            limit = 1000 if what.startswith(("port ", "device ")) else limits.get(what, 0)
            if amount > limit:
                self.violations.append(Violation(node, what, amount, limit, revision))

    def totals(self) -> dict[str, dict[str, int]]:
        """What is bound on each node now, in thousandths."""
        return {node: {what: amount for what, amount in sums.items() if amount} for node, sums in self._sums.items()}

    def placed(self) -> set[str]:
        """The uids of the pods on nodes."""
        return set(self._held)

    @contextlib.asynccontextmanager
    async def following(self, client: Client, *, clock: Clock, rng: Rng) -> AsyncIterator["AllocationObserver"]:
        """Watch the nodes and the pods of a cluster."""
        nodes = Informer(Source(client=client, target=_NODES), decode=msgspec.json.decode, clock=clock, rng=rng)
        pods = Informer(Source(client=client, target=_PODS), decode=msgspec.json.decode, clock=clock, rng=rng)
        nodes.add_handler(self._node_changed)
        async with Supervisor("observer", clock=clock, rng=rng) as supervisor:
            supervisor.start("nodes", nodes.run)
            await nodes.wait_synced()
            pods.add_handler(self._pod_changed)
            supervisor.start("pods", pods.run)
            await pods.wait_synced()
            yield self

    def _node_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        self.node(key.name, new)

    def _pod_changed(self, _: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self.pod(old["metadata"]["uid"], None)
        if new is not None:
            self.pod(new["metadata"]["uid"], new)


def _held(obj: Object) -> _Held | None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    node = spec.get("nodeName")
    if not node or status.get("phase") in _OVER:
        return None
    amounts: Counter[str] = Counter()
    ports: list[str] = []
    for container in spec.get("containers") or ():
        for what, text in ((container.get("resources") or {}).get("requests") or {}).items():
            amounts[what] += _number(text)
        ports += [
            f"{one.get('protocol', 'TCP')}/{one['hostPort']}"
            for one in container.get("ports") or ()
            if one.get("hostPort")
        ]
    first: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        for what, text in ((container.get("resources") or {}).get("requests") or {}).items():
            if container.get("restartPolicy") == "Always":
                amounts[what] += _number(text)
            first[what] = max(first[what], _number(text))
    whole = {what: max(amounts[what], first[what]) for what in {*amounts, *first}}
    for what, text in (spec.get("overhead") or {}).items():
        whole[what] = whole.get(what, 0) + _number(text)
    return _Held(node, whole, tuple(ports), _shares(obj, whole))


def _shares(obj: Object, amounts: Mapping[str, int]) -> dict[int, int]:
    """The share of each GPU device that the pod's annotation names."""
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(gpu_devices.ANNOTATION, "")
    if not text:
        return {}
    # A share is a number of thousandths, and amounts are in thousandths of that.
    share = amounts.get(gpu_devices.SHARE, 1_000_000) // 1000
    return {int(one): share for one in text.split(",")}


def _number(text: Any) -> int:
    """A quantity in thousandths."""
    return quantities.milli(text)
