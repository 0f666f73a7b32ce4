"""Encodes nodes, pods and decisions as entries from which they can be rebuilt. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from rota.api import resources
from rota.columns import objects
from rota.columns.nodes import NodeInfo
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo, PodShape
from rota.scheduler.cycle.scheduling_cycle import ExtenderResult
from rota.scheduler.recording.entries import (
    Advised,
    Entry,
    NodeGone,
    NodeSet,
    ObjectGone,
    ObjectPut,
    Outcome,
    Pod,
    PodGone,
    PodPlaced,
    PodRestated,
    Refused,
    ShapeMade,
)
from rota.scheduler.status.fit_errors import FitError

Delta = tuple[str, tuple[Any, ...]]


def node_document(node: NodeInfo) -> dict[str, Any]:
    """A document from which the same node is read."""
    amounts: dict[str, Any] = {
        name: f"{amount}m" if name == resources.CPU else str(amount) for name, amount in node.allocatable.items()
    }
    return {
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {"taints": msgspec.to_builtins(node.taints), "unschedulable": node.unschedulable},
        "status": {
            "allocatable": {**amounts, resources.PODS: str(node.allowed_pods)},
            "images": [{"names": [name], "sizeBytes": size} for name, size in node.images.items()],
        },
    }


def outcome(node_name: str | None, refusal: FitError | None) -> Outcome:
    """The outcome of an attempt as an entry."""
    if refusal is None:
        return Outcome(node=node_name or "")
    room = refusal.room
    made = room is not None and room.nominated_node
    return Outcome(
        message=refusal.message,
        nominated=(room.nominated_node or "") if room is not None and made else "",
        victims=tuple(sorted(pod.uid for pod in room.victims)) if room is not None and made else (),
    )


def advised(advice: ExtenderResult | None) -> Advised | None:
    """The extender result as an entry."""
    if advice is None:
        return None
    refusals = {name: Refused(status.code.value, list(status.reasons)) for name, status in advice.refusals.items()}
    return Advised(refusals, dict(advice.scores))


class EntryEncoder:
    """Encodes values for one file; shapes are numbered in order."""

    def __init__(self, interner: PodInterner) -> None:
        self._interner: Final = interner
        self._numbers: Final[dict[bytes, int]] = {}
        #: The numbers of this file's shapes by object, since a lookup by bytes takes longer.
        self._shapes: Final[dict[PodShape, int]] = {}
        #: The last document written for each node, so that heartbeats are not written.
        self._nodes: Final[dict[str, bytes]] = {}

    def everything(
        self, pods: Iterable[PodInfo], documents: Iterable[tuple[str, Mapping[str, Any]]]
    ) -> Iterator[Entry]:
        """Encode a cluster apart from its nodes."""
        for pod in pods:
            yield from self.placed(pod)
        for kind, document in documents:
            yield ObjectPut(kind, dict(document))

    def deltas(self, entries: list[Delta]) -> Iterator[Entry]:
        """Encode changes of a cluster."""
        for method, args in entries:
            match method, args:
                case "set_node", (objects.Node() as node,):
                    yield from self._node(node)
                case "remove_node", (name,):
                    self._nodes.pop(name, None)
                    yield NodeGone(name)
                case "add_pod", (PodInfo() as pod, node_name):
                    yield from self.placed(pod, node_name)
                case "replace_pod", (PodInfo() as pod,):
                    yield from self.shape(pod)
                    yield PodRestated(self.pod(pod, pod.node_name))
                case "remove_pod", (uid,):
                    yield PodGone(uid)
                case "catalog.put", (kind, document):
                    yield ObjectPut(kind, dict(document))
                case "catalog.remove", (kind, namespace, name):
                    yield ObjectGone(kind, namespace, name)
                case _:
                    raise ValueError(f"a cluster cannot be recorded that knows {method}")

    def placed(self, pod: PodInfo, node_name: str | None = None) -> Iterator[Entry]:
        """Encode a pod on its node, or on another."""
        yield from self.shape(pod)
        yield PodPlaced(self.pod(pod, pod.node_name if node_name is None else node_name))

    def shape(self, pod: PodInfo) -> Iterator[ShapeMade]:
        """Encode a pod's shape, if it is new in this file."""
        if pod.shape in self._shapes:
            return
        content = self._interner.content(pod.shape)
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = len(self._numbers)
            yield ShapeMade(number, content)
        self._shapes[pod.shape] = number

    def pod(self, pod: PodInfo, node_name: str) -> Pod:
        """Encode a pod whose shape is known."""
        number = self._shapes[pod.shape]
        return Pod(
            pod.uid,
            pod.name,
            number,
            node_name,
            pod.nominated_node,
            pod.start_time,
            pod.preempted,
            pod.gpu_devices,
        )

    def nominations(self, nominated: Mapping[str, Any]) -> tuple[list[ShapeMade], dict[str, list[Pod]]]:
        """Encode nominations, with the shapes that they need."""
        shapes = [made for pods in nominated.values() for pod in pods for made in self.shape(pod)]
        return shapes, {node: [self.pod(pod, "") for pod in pods] for node, pods in nominated.items()}

    def _node(self, node: objects.Node) -> Iterator[Entry]:
        document = msgspec.to_builtins(node)
        packed = msgspec.msgpack.encode(document)
        if self._nodes.get(node.metadata.name) != packed:
            self._nodes[node.metadata.name] = packed
            yield NodeSet(document)
