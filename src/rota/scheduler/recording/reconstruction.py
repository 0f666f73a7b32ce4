"""Rebuilds the cluster, row by row, and pods with their shapes from entries. Pure."""

from typing import Any, Final

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo, PodShape
from rota.scheduler.cycle.scheduling_cycle import ExtenderResult
from rota.scheduler.framework.nominated_pods import Nominations
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.recording.entries import (
    Advised,
    Beginning,
    Decided,
    Entry,
    NodeGone,
    NodeSet,
    ObjectGone,
    ObjectPut,
    Pod,
    PodGone,
    PodPlaced,
    PodRestated,
    ShapeMade,
)

_EXTENDER: Final = "Extender"


class Rebuilt:
    """The cluster of a recording up to the current entry."""

    def __init__(self, beginning: Beginning) -> None:
        self.cluster: Final = Cluster()
        self._interner: Final = PodInterner()
        self._shapes: Final[dict[int, PodShape]] = {}
        for row, document in enumerate(beginning.nodes):
            # A row without a node is created and freed again, in the original order.
            self.cluster.set_node(read_node(document or placeholder(row)))
        for row in beginning.free:
            self.cluster.remove_node(placeholder_name(row))

    def apply(self, entry: Entry) -> None:
        """Apply an entry; decisions change nothing by themselves."""
        cluster = self.cluster
        match entry:
            case ShapeMade():
                self._shapes[entry.number] = self._interner.shape(entry.content)
            case NodeSet():
                cluster.set_node(read_node(entry.node))
            case NodeGone():
                cluster.remove_node(entry.name)
            case PodPlaced():
                cluster.add_pod(self._pod(entry.pod))
            case PodRestated():
                cluster.replace_pod(self._pod(entry.pod))
            case PodGone():
                cluster.remove_pod(entry.uid)
            case ObjectPut():
                cluster.catalog.put(entry.kind, entry.document)
            case ObjectGone():
                cluster.catalog.remove(entry.kind, entry.namespace, entry.name)

    def decided(self, entry: Decided) -> tuple[PodInfo, Nominations]:
        """The pod of a decision, and the nominations at that time."""
        nominations = {node: [self._pod(pod) for pod in pods] for node, pods in entry.nominations.items()}
        return self._pod(entry.pod, manifest=entry.manifest), nominations

    def name_of(self, uid: str) -> str:
        """namespace/name of a pod that has a node; the uid if it has none."""
        pod = self.cluster.pods.get(uid)
        return uid if pod is None else pod.key

    def _pod(self, pod: Pod, manifest: dict[str, object] | None = None) -> PodInfo:
        return PodInfo(
            uid=pod.uid,
            name=pod.name,
            shape=self._shapes[pod.shape],
            node_name=pod.node,
            nominated_node=pod.nominated,
            start_time=pod.start_time,
            preempted=pod.preempted,
            gpu_devices=pod.gpu_devices,
            kept=manifest,
        )


def advice(advised: Advised, evaluated: frozenset[str]) -> ExtenderResult:
    """The extender result; nodes that extenders were not asked about count as allowed."""
    refusals = {
        name: Status(Code(refused.code), tuple(refused.reasons), _EXTENDER)
        for name, refused in advised.refusals.items()
    }
    return ExtenderResult(allowed=evaluated - refusals.keys(), refusals=refusals, scores=advised.scores)


def placeholder(row: int) -> dict[str, Any]:
    """A node that stands for a row without a node."""
    return {"metadata": {"name": placeholder_name(row)}, "spec": {}, "status": {}}


def placeholder_name(row: int) -> str:
    """Its name, which no real node can have."""
    return f"row {row}"
