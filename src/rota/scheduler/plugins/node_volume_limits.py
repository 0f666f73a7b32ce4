"""NodeVolumeLimits: limits the volumes of a CSI driver per node.

Limits come from the node's CSINode. A volume counts once, whether a pod on the node uses it or an attachment still
exists. Volumes of former in-tree plugins count for the CSI driver that replaced them.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

from rota.api import attachable_volumes
from rota.api.attachable_volumes import Attached
from rota.columns.catalog import Catalog
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Code, Status, unresolvable, unschedulable
from rota.scheduler.volumes import volume_claims
from rota.scheduler.volumes.volume_claims import ClaimUse, Document

EXCEEDED = unschedulable("node(s) exceed max volume count")
IDLE = PreFilterResult(SKIP)


class NodeVolumeLimits:
    """Filter by the number of attached volumes per driver."""

    name: ClassVar[str] = "NodeVolumeLimits"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.PODS

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable | None:
        """Pods without volumes to attach are equal; others depend on objects other than nodes and are not shared."""
        return None if _attaches(pod) else ()

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Skip pods without volumes to attach; group existing attachments by node."""
        if not _attaches(pod):
            return IDLE
        attachments: dict[str, list[Document]] = {}
        for attachment in cluster.catalog.list("VolumeAttachment"):
            attachments.setdefault((attachment.get("spec") or {}).get("nodeName") or "", []).append(attachment)
        state.write(self.name, _Lookup(cluster.catalog, attachments))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node where a driver would exceed its limit."""
        lookup = state.read(self.name, _Lookup)
        for use in volume_claims.used_by(pod):
            if (refusal := _refuse_claim(lookup.catalog, pod, use)) is not None:
                return refusal
        csi_node = lookup.catalog.get("CSINode", name=node.name)
        new = lookup.volumes(pod, csi_node)
        for driver, _ in sorted(new):
            if not lookup.installed(driver, csi_node):
                return unschedulable(f"{driver} CSI driver is not installed on the node")
        limits = attachable_volumes.limits(csi_node)
        if not new or not limits:
            return SUCCESS
        attached = {volume for other in node.pods.values() for volume in lookup.volumes(other, csi_node)}
        attached |= lookup.attachments(node.name)
        return EXCEEDED if attachable_volumes.exceeded(new, attached, limits) else SUCCESS

    def events_to_register(self) -> Sequence[Subscription]:
        """Freed volumes, the pod's own claim, and drivers that are installed on nodes may help."""
        return (
            Subscription(ClusterEvent(Resource.CSI_NODE, Action.ADD)),
            Subscription(ClusterEvent(Resource.CSI_NODE, Action.UPDATE), self._after_csi_node_change, by_shape=True),
            Subscription(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._after_pod_deleted, by_shape=True),
            Subscription(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), self._after_claim_added),
            Subscription(ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), self._after_detached),
        )

    def _after_csi_node_change(self, pod: PodInfo, old: Document, new: Document) -> Hint:
        before = attachable_volumes.limits(old)
        raised = any(limit > before.get(driver, 0) for driver, limit in attachable_volumes.limits(new).items())
        return Hint.QUEUE if raised else Hint.SKIP

    def _after_pod_deleted(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        placed = old.node_name or old.nominated_node
        return Hint.QUEUE if placed and _attaches(old) else Hint.SKIP

    def _after_claim_added(self, pod: PodInfo, old: Document | None, new: Document) -> Hint:
        return Hint.QUEUE if volume_claims.concerns(pod, new) else Hint.SKIP

    def _after_detached(self, pod: PodInfo, old: Document, new: Document | None) -> Hint:
        attacher = (old.get("spec") or {}).get("attacher")
        freed = any(volume_claims.named_by(pod)) or attacher in {driver for driver, _ in _inline(pod)}
        return Hint.QUEUE if freed else Hint.SKIP


class _Lookup:
    """Finds the volumes behind a pod's claims; made once per attempt."""

    __slots__ = ("_attachments", "catalog")

    def __init__(self, catalog: Catalog, attachments: Mapping[str, Sequence[Document]]) -> None:
        self.catalog = catalog
        self._attachments = attachments

    def volumes(self, pod: PodInfo, csi_node: Document | None) -> set[Attached]:
        """The volumes that a driver attaches for a pod; missing claims and those of other pods do not count."""
        if not pod.shape.volumes:
            return set()
        found = set() if csi_node is None else set(_inline(pod))
        for use in volume_claims.used_by(pod):
            claim = volume_claims.find(self.catalog, pod, use)
            if claim is not None and not (use.ephemeral and volume_claims.foreign(claim, pod)):
                attached = self._volume_of(claim, csi_node)
                if attached is not None:
                    found.add(attached)
        return found

    def attachments(self, node_name: str) -> set[Attached]:
        """The attachments that still exist on a node."""
        found = set()
        for attachment in self._attachments.get(node_name, ()):
            spec = attachment["spec"]
            volume_name = (spec.get("source") or {}).get("persistentVolumeName")
            volume = self.catalog.get(volume_claims.VOLUME, name=volume_name) if volume_name else None
            source = ((volume or {}).get("spec") or {}).get("csi")
            if spec.get("attacher") and source is not None:
                found.add((spec["attacher"], source.get("volumeHandle") or ""))
        return found

    def installed(self, driver: str, csi_node: Document | None) -> bool:
        """Whether a driver is installed on the node; only drivers that require it are checked."""
        spec = (self.catalog.get("CSIDriver", name=driver) or {}).get("spec") or {}
        return not spec.get("preventPodSchedulingIfMissing") or driver in {
            each.get("name") for each in attachable_volumes.drivers(csi_node)
        }

    def _volume_of(self, claim: Document, csi_node: Document | None) -> Attached | None:
        volume = self.catalog.get(volume_claims.VOLUME, name=attachable_volumes.volume_name(claim))
        storage_class = self.catalog.get(volume_claims.CLASS, name=attachable_volumes.class_name(claim))
        return attachable_volumes.attached_for(claim, volume, storage_class, csi_node)


def _refuse_claim(catalog: Catalog, pod: PodInfo, use: ClaimUse) -> Status | None:
    if not use.name:
        return Status(Code.ERROR, ("PersistentVolumeClaim had no name",))
    claim = volume_claims.find(catalog, pod, use)
    if claim is None:
        return unresolvable(f"looking up PVC {pod.namespace}/{use.name}: {volume_claims.not_found(use)}")
    wrong = volume_claims.foreign(claim, pod) if use.ephemeral else None
    return None if wrong is None else Status(Code.ERROR, (wrong,))


def _attaches(pod: PodInfo) -> bool:
    return bool(pod.shape.volumes) and (any(True for _ in volume_claims.used_by(pod)) or bool(_inline(pod)))


def _inline(pod: PodInfo) -> list[Attached]:
    """Volumes of former in-tree plugins that the pod has inline."""
    return [attached for volume in pod.shape.volumes for attached in attachable_volumes.migrated(volume)]
