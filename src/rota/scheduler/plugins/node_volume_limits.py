"""NodeVolumeLimits: limits the volumes of a CSI driver per node.

Limits come from the node's CSINode. A volume counts once, whether a pod on the node uses it or an attachment still
exists. Volumes of former in-tree plugins count for the CSI driver that replaced them.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

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

#: Former in-tree plugins, by the field that a volume source has: plugin, CSI driver, field with the volume's identity.
MIGRATED = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "pdName"),
    "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com", "diskURI"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org", "volumeID"),
    "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com", "volumeID"),
}
DRIVER_OF_PLUGIN = {plugin: driver for plugin, driver, _ in MIGRATED.values()}

#: A volume as its driver identifies it: (driver, handle).
Attached = tuple[str, str]


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
        limits = _limits(csi_node)
        if not new or not limits:
            return SUCCESS
        attached = {volume for other in node.pods.values() for volume in lookup.volumes(other, csi_node)}
        attached |= lookup.attachments(node.name)
        before = Counter(driver for driver, _ in attached)
        for driver, count in Counter(driver for driver, _ in new - attached).items():
            if driver in limits and before[driver] + count > limits[driver]:
                return EXCEEDED
        return SUCCESS

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
        before = _limits(old)
        raised = any(limit > before.get(driver, 0) for driver, limit in _limits(new).items())
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
            each.get("name") for each in _drivers(csi_node)
        }

    def _volume_of(self, claim: Document, csi_node: Document | None) -> Attached | None:
        volume = self.catalog.get(volume_claims.VOLUME, name=volume_claims.volume_name(claim))
        if volume is None:
            return self._future_volume_of(claim, csi_node)
        spec = volume.get("spec") or {}
        if (source := spec.get("csi")) is not None:
            driver, handle = source.get("driver"), source.get("volumeHandle")
            return (driver, handle) if driver and handle else None
        return None if csi_node is None else next(iter(_migrated(spec)), None)

    def _future_volume_of(self, claim: Document, csi_node: Document | None) -> Attached | None:
        """A claim without a volume will get one from its class; until then it counts under its own name."""
        storage_class = self.catalog.get(volume_claims.CLASS, name=volume_claims.class_name(claim))
        driver = (storage_class or {}).get("provisioner") or ""
        if driver in DRIVER_OF_PLUGIN:
            driver = "" if csi_node is None else DRIVER_OF_PLUGIN[driver]
        return (driver, f"claim {volume_claims.key(claim)}") if driver else None


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
    return [attached for volume in pod.shape.volumes for attached in _migrated(volume)]


def _migrated(sources: Mapping[str, Any]) -> list[Attached]:
    return [
        (driver, f"{field}/{sources[field].get(identity, '')}")
        for field, (_, driver, identity) in MIGRATED.items()
        if sources.get(field) is not None
    ]


def _drivers(csi_node: Document | None) -> Sequence[Mapping[str, Any]]:
    return ((csi_node or {}).get("spec") or {}).get("drivers") or ()


def _limits(csi_node: Document | None) -> dict[str, int]:
    limits = {}
    for driver in _drivers(csi_node):
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None:
            limits[driver["name"]] = count
    return limits
