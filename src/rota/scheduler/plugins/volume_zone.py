"""VolumeZone: a pod goes to the zone and region that its bound volumes are in.

Only volumes that carry zone or region labels count, and only on nodes that carry any: a cluster without such labels has
one zone. A volume's label may name several zones, joined by two underscores.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rota.api import attachable_volumes
from rota.columns.catalog import Catalog
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable
from rota.scheduler.volumes import volume_claims
from rota.scheduler.volumes.volume_claims import Document

REFUSED = unresolvable("node(s) had no available volume zone")
UNNAMED_CLAIM = unresolvable("PersistentVolumeClaim had no name")
UNBOUND_WITHOUT_CLASS = unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
UNBOUND = unresolvable("PersistentVolume had no name")
IDLE = PreFilterResult(SKIP)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
#: The labels, each with the one that a node may have instead.
TOPOLOGY_LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
DELIMITER = "__"


@dataclass(frozen=True, slots=True)
class Demand:
    """A label that a node must have, with one of several values."""

    label: str
    values: frozenset[str]

    def met_by(self, node: NodeInfo) -> bool:
        """Whether the node has it, under this name or the newer one."""
        value = node.labels.get(self.label)
        if value is None:
            value = node.labels.get(TOPOLOGY_LABELS[self.label])
        return value in self.values


class VolumeZone:
    """Filter by the zone and region labels of bound volumes."""

    name: ClassVar[str] = "VolumeZone"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable | None:
        """Pods without claims are equal; others depend on objects other than nodes and are not shared."""
        return () if not any(volume_claims.named_by(pod)) else None

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Collect the required labels of all volumes."""
        demands: list[Demand] = []
        for name in volume_claims.named_by(pod):
            found = _demands_of_claim(cluster.catalog, pod, name)
            if isinstance(found, Status):
                return PreFilterResult(found)
            demands += found
        if not demands:
            return IDLE
        state.write(self.name, tuple(demands))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node in another zone or region; a node without such labels is accepted."""
        if not any(label in node.labels for label in TOPOLOGY_LABELS):
            return SUCCESS
        demands: tuple[Demand, ...] = state.read(self.name, tuple)
        return SUCCESS if all(demand.met_by(node) for demand in demands) else REFUSED

    def events_to_register(self) -> Sequence[Subscription]:
        """Nodes, the pod's claims, changed volumes and classes with late binding may help."""
        changed = Action.ADD | Action.UPDATE
        return (
            Subscription(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), self._after_class_added, by_shape=True),
            Subscription(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            Subscription(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, changed), self._after_claim_change),
            Subscription(ClusterEvent(Resource.PERSISTENT_VOLUME, changed), self._after_volume_change, by_shape=True),
        )

    def _after_class_added(self, pod: PodInfo, old: Document | None, new: Document) -> Hint:
        return Hint.QUEUE if new.get("volumeBindingMode") == volume_claims.WAIT_FOR_FIRST_CONSUMER else Hint.SKIP

    def _after_claim_change(self, pod: PodInfo, old: Document | None, new: Document) -> Hint:
        own = new["metadata"].get("namespace") == pod.namespace and new["metadata"]["name"] in volume_claims.named_by(
            pod
        )
        return Hint.QUEUE if own else Hint.SKIP

    def _after_volume_change(self, pod: PodInfo, old: Document | None, new: Document) -> Hint:
        moved = old is None or _demands_of_volume(old) != _demands_of_volume(new)
        return Hint.QUEUE if moved else Hint.SKIP


def _demands_of_claim(catalog: Catalog, pod: PodInfo, name: str) -> list[Demand] | Status:
    """The required labels of a claim's volume; a claim that is bound later requires nothing."""
    if not name:
        return UNNAMED_CLAIM
    claim = catalog.get(volume_claims.CLAIM, namespace=pod.namespace, name=name)
    if claim is None:
        return unresolvable(volume_claims.not_found(volume_claims.ClaimUse(name)))
    volume_name = attachable_volumes.volume_name(claim)
    if not volume_name:
        return _unbound(catalog, attachable_volumes.class_name(claim))
    volume = catalog.get(volume_claims.VOLUME, name=volume_name)
    if volume is None:
        return unresolvable(f'persistentvolume "{volume_name}" not found')
    return _demands_of_volume(volume)


def _unbound(catalog: Catalog, class_name: str) -> list[Demand] | Status:
    if not class_name:
        return UNBOUND_WITHOUT_CLASS
    storage_class = catalog.get(volume_claims.CLASS, name=class_name)
    if storage_class is None:
        return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
    mode = storage_class.get("volumeBindingMode")
    if mode is None:
        return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
    return [] if mode == volume_claims.WAIT_FOR_FIRST_CONSUMER else UNBOUND


def _demands_of_volume(volume: Document) -> list[Demand]:
    labels = volume["metadata"].get("labels") or {}
    demands = []
    for label in TOPOLOGY_LABELS:
        zones = [zone.strip() for zone in labels[label].split(DELIMITER)] if label in labels else []
        if zones and all(zones):  # a label with an empty part is invalid and ignored
            demands.append(Demand(label, frozenset(zones)))
    return demands
