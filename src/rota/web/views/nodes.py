"""Nodes as rows: capacity, what their pods request, and their state."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rota.api import meta, quantities, times
from rota.client.informers.cache import Key
from rota.web.views.pods import GPU, Pod
from rota.web.views.view import Table

#: Conditions of a node that are bad if true.
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


class Node(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a node."""

    name: str
    ready: bool
    cordoned: bool
    pressures: tuple[str, ...]
    taints: tuple[str, ...]
    labels: dict[str, str]
    cpu_milli: int
    memory_bytes: int
    gpus: int
    pods: int
    created: int
    version: str
    message: str


class NodeRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node in the map."""

    name: str
    #: `Ready`, `NotReady`, or `Unknown`; the page adds the rest.
    ready: bool
    cordoned: bool
    pressures: tuple[str, ...]
    taints: tuple[str, ...]
    labels: dict[str, str]
    cpu_milli: int
    cpu_requested: int
    memory_bytes: int
    memory_requested: int
    gpus: int
    gpus_requested: int
    pods: int
    pods_running: int
    created: int
    version: str
    message: str


def read(node: dict[str, Any]) -> Node:
    """A node of the API."""
    spec, status, metadata = node.get("spec") or {}, node.get("status") or {}, meta.metadata(node)
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    return Node(
        name=meta.name(node),
        ready=ready.get("status") == "True",
        cordoned=bool(spec.get("unschedulable")),
        pressures=tuple(one for one in _PRESSURES if (conditions.get(one) or {}).get("status") == "True"),
        taints=tuple(
            f"{one.get('key')}={one.get('value') or ''}:{one.get('effect')}".replace("=:", ":")
            for one in spec.get("taints") or ()
        ),
        labels=dict(meta.labels(node)),
        cpu_milli=quantities.milli(allocatable.get("cpu")),
        memory_bytes=quantities.value(allocatable.get("memory")),
        gpus=quantities.value(allocatable.get(GPU)),
        pods=quantities.value(allocatable.get("pods")),
        created=int(times.parse(metadata["creationTimestamp"])) if metadata.get("creationTimestamp") else 0,
        version=(status.get("nodeInfo") or {}).get("kubeletVersion") or "",
        message="" if ready.get("status") == "True" else str(ready.get("message") or ready.get("reason") or ""),
    )


class Load:
    """What the pods of each node request in total."""

    def __init__(self) -> None:
        self._sums: Final[dict[str, list[int]]] = {}

    def of(self, node: str) -> tuple[int, int, int, int]:
        """Processor (in thousandths), memory, GPUs and number of pods."""
        cpu, memory, gpus, count = self._sums.get(node, (0, 0, 0, 0))
        return cpu, memory, gpus, count

    def move(self, old: Pod | None, new: Pod | None) -> set[str]:
        """A pod changed; returns the nodes whose sums did."""
        before = _share(old)
        after = _share(new)
        if before == after:
            return set()
        touched = set()
        for share, sign in ((before, -1), (after, 1)):
            if share is not None:
                sums = self._sums.setdefault(share[0], [0, 0, 0, 0])
                for at, amount in enumerate(share[1:]):
                    sums[at] += sign * amount
                if not sums[3]:
                    del self._sums[share[0]]
                touched.add(share[0])
        return touched


def _share(pod: Pod | None) -> tuple[str, int, int, int, int] | None:
    if pod is None or not pod.holds_resources:
        return None
    return pod.node, pod.cpu_milli, pod.memory_bytes, pod.gpus, 1


class NodeTable:
    """All nodes, with the sums of their pods."""

    def __init__(self) -> None:
        self._table: Final = Table[NodeRow](NodeRow.__struct_fields__)
        self._nodes: Final[dict[str, Node]] = {}
        self._load: Final = Load()
        self._stale: Final[set[str]] = set()

    def apply(self, collection: str, key: Key, old: Any, new: Any, now: float, /) -> None:
        """See `View.apply`."""
        if collection == "pods":
            self._stale.update(self._load.move(old, new))
            return
        if new is None:
            self._nodes.pop(key.name, None)
        else:
            self._nodes[key.name] = new
        self._stale.add(key.name)

    def begin(self) -> Sequence[object]:
        """See `View.begin`."""
        self._settle()
        return self._table.begin()

    def delta(self, now: float, /) -> object | None:
        """See `View.delta`."""
        self._settle()
        return self._table.delta(now)

    def _settle(self) -> None:
        """Many pods of a node change at once; its row is made once."""
        for name in self._stale:
            node = self._nodes.get(name)
            if node is None:
                self._table.drop(name)
                continue
            cpu, memory, gpus, count = self._load.of(name)
            self._table.put(
                name,
                NodeRow(
                    name=name,
                    ready=node.ready,
                    cordoned=node.cordoned,
                    pressures=node.pressures,
                    taints=node.taints,
                    labels=node.labels,
                    cpu_milli=node.cpu_milli,
                    cpu_requested=cpu,
                    memory_bytes=node.memory_bytes,
                    memory_requested=memory,
                    gpus=node.gpus,
                    gpus_requested=gpus,
                    pods=node.pods,
                    pods_running=count,
                    created=node.created,
                    version=node.version,
                    message=node.message,
                ),
            )
        self._stale.clear()
