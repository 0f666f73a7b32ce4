"""VolumeRestrictions: disks and claims that only one pod may use.

A cloud disk, an iSCSI target or an RBD image that a pod mounts directly may not be mounted by another pod on the same
node (some may, if both mount it read-only). A claim with access mode ReadWriteOncePod serves one pod in the cluster.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from rota.api import attachable_volumes
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from rota.scheduler.volumes import volume_claims
from rota.scheduler.volumes.volume_claims import Document

DISK_IN_USE = unschedulable("node(s) had no available disk")
CLAIM_IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
IDLE = PreFilterResult(SKIP)

Source = Mapping[str, Any]


def _same(*fields: str) -> Callable[[Source, Source], bool]:
    return lambda mine, other: all(mine.get(field) == other.get(field) for field in fields)


def _same_image(mine: Source, other: Source) -> bool:
    shared = set(mine.get("monitors") or ()) & set(other.get("monitors") or ())
    same = all(
        (mine.get(field) or usual) == (other.get(field) or usual) for field, usual in (("pool", "rbd"), ("image", ""))
    )
    return bool(shared) and same


#: By kind of disk: whether two sources are the same disk, and whether two read-only mounts of it are allowed.
DISKS: Mapping[str, tuple[Callable[[Source, Source], bool], bool]] = {
    "gcePersistentDisk": (_same("pdName"), True),
    "awsElasticBlockStore": (_same("volumeID"), False),
    "iscsi": (_same("iqn"), True),
    "rbd": (_same_image, True),
}


class OnePodClaims:
    """The pod's ReadWriteOncePod claims, and how often other pods use them."""

    __slots__ = ("in_use", "names", "namespace")

    def __init__(self, namespace: str, names: frozenset[str], in_use: int) -> None:
        self.namespace = namespace
        self.names = names
        self.in_use = in_use

    def clone(self) -> "OnePodClaims":
        """An independent copy."""
        return OnePodClaims(self.namespace, self.names, self.in_use)

    def count(self, other: PodInfo, sign: int) -> None:
        """Add or remove a pod; pods of other namespaces have other claims."""
        if other.namespace == self.namespace:
            self.in_use += sign * sum(1 for name in volume_claims.named_by(other) if name in self.names)


class VolumeRestrictions:
    """Filter by disks and claims in use."""

    name: ClassVar[str] = "VolumeRestrictions"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.PODS

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable | None:
        """Pods without volumes are equal; others depend on objects other than nodes and are not shared."""
        return () if not pod.shape.volumes else None

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Find the ReadWriteOncePod claims and count their users."""
        if not pod.shape.volumes:
            return IDLE
        exclusive = set()
        for name in volume_claims.named_by(pod):
            claim = cluster.catalog.get(volume_claims.CLAIM, namespace=pod.namespace, name=name)
            if claim is None:
                return PreFilterResult(unresolvable(volume_claims.not_found(volume_claims.ClaimUse(name))))
            if attachable_volumes.READ_WRITE_ONCE_POD in attachable_volumes.access_modes(claim):
                exclusive.add(name)
        used = OnePodClaims(pod.namespace, frozenset(exclusive), _in_use(exclusive, pod, cluster))
        if used.in_use == 0 and not _disks(pod):
            return IDLE
        state.write(self.name, used)
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Add a pod's claims."""
        state.read(self.name, OnePodClaims).count(other, 1)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Remove a pod's claims."""
        state.read(self.name, OnePodClaims).count(other, -1)
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node where a disk is in use, and every node while a claim is."""
        if any(_conflict(pod, other) for other in node.pods.values()):
            return DISK_IN_USE
        return CLAIM_IN_USE if state.read(self.name, OnePodClaims).in_use > 0 else SUCCESS

    def events_to_register(self) -> Sequence[Subscription]:
        """The end of a pod that used the same volume, a new node and the pod's own claim may help."""
        return (
            Subscription(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._after_pod_deleted),
            Subscription(ClusterEvent(Resource.NODE, Action.ADD)),
            Subscription(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), self._after_claim_added),
        )

    def _after_pod_deleted(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        if old.namespace != pod.namespace:
            return Hint.SKIP
        shared = set(volume_claims.named_by(pod)) & set(volume_claims.named_by(old))
        return Hint.QUEUE if shared or _conflict(pod, old) else Hint.SKIP

    def _after_claim_added(self, pod: PodInfo, old: Document | None, new: Document) -> Hint:
        own = new["metadata"].get("namespace") == pod.namespace and new["metadata"]["name"] in volume_claims.named_by(
            pod
        )
        return Hint.QUEUE if own else Hint.SKIP


def _disks(pod: PodInfo) -> list[tuple[str, Source]]:
    """The disks that a pod mounts directly."""
    return [(kind, volume[kind]) for volume in pod.shape.volumes for kind in DISKS if volume.get(kind) is not None]


def _conflict(pod: PodInfo, other: PodInfo) -> bool:
    """Whether two pods cannot share a node because of a disk."""
    if not pod.shape.volumes or not other.shape.volumes:
        return False
    taken = _disks(other)
    for kind, mine in _disks(pod):
        same, shareable = DISKS[kind]
        for other_kind, theirs in taken:
            read_only = shareable and mine.get("readOnly") and theirs.get("readOnly")
            if other_kind == kind and same(mine, theirs) and not read_only:
                return True
    return False


def _in_use(names: set[str], pod: PodInfo, cluster: Cluster) -> int:
    """How many of these claims are used by any pod with a node."""
    if not names:
        return 0
    used = set()
    for other in cluster.pods.values():
        if other.shape.volumes and other.namespace == pod.namespace:
            used |= names.intersection(volume_claims.named_by(other))
    return len(used)
