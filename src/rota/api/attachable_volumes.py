"""Volumes that a CSI driver attaches to a node, and the driver's limit there. Pure.

The scheduler's NodeVolumeLimits and the binding transaction both use it. A volume counts once on a node, however many
pods mount it. Volumes of former in-tree plugins count for the CSI driver that replaced them.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

Object: TypeAlias = Mapping[str, Any]
#: A volume as its driver identifies it: (driver, handle).
Attached: TypeAlias = tuple[str, str]

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

#: Former in-tree plugins, by the field that a volume source has: plugin, CSI driver, field with the volume's identity.
MIGRATED: Final = {
    "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "pdName"),
    "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com", "diskURI"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org", "volumeID"),
    "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com", "volumeID"),
}
_DRIVER_OF_PLUGIN: Final = {plugin: driver for plugin, driver, _ in MIGRATED.values()}


def class_name(obj: Object) -> str:
    """The storage class of a claim or a volume; the old annotation comes first."""
    old = (obj["metadata"].get("annotations") or {}).get(_BETA_CLASS)
    return old if old is not None else (obj.get("spec") or {}).get("storageClassName") or ""


def volume_name(claim: Object) -> str:
    """The volume that a claim names, "" if none."""
    return (claim.get("spec") or {}).get("volumeName") or ""


def access_modes(obj: Object) -> frozenset[str]:
    """The access modes of a claim or a volume."""
    return frozenset((obj.get("spec") or {}).get("accessModes") or ())


def migrated(sources: Object) -> list[Attached]:
    """The volumes of former in-tree plugins among the fields of a pod's volume or of a PersistentVolume."""
    return [
        (driver, f"{field}/{sources[field].get(identity, '')}")
        for field, (_, driver, identity) in MIGRATED.items()
        if sources.get(field) is not None
    ]


def attached_for(
    claim: Object, volume: Object | None, storage_class: Object | None, csi_node: Object | None
) -> Attached | None:
    """The volume that a driver attaches for a claim, from the claim's PersistentVolume, else from its class.

    A claim without a volume will get one from its class; until then it counts under its own name.
    """
    if volume is None:
        driver = (storage_class or {}).get("provisioner") or ""
        if driver in _DRIVER_OF_PLUGIN:
            driver = "" if csi_node is None else _DRIVER_OF_PLUGIN[driver]
        metadata = claim["metadata"]
        return (driver, f"claim {metadata.get('namespace', '')}/{metadata['name']}") if driver else None
    spec = volume.get("spec") or {}
    if (source := spec.get("csi")) is not None:
        driver, handle = source.get("driver"), source.get("volumeHandle")
        return (driver, handle) if driver and handle else None
    return None if csi_node is None else next(iter(migrated(spec)), None)


def drivers(csi_node: Object | None) -> Sequence[Object]:
    """The drivers on a node."""
    return ((csi_node or {}).get("spec") or {}).get("drivers") or ()


def limits(csi_node: Object | None) -> dict[str, int]:
    """The largest number of volumes on a node, for each driver that has a limit."""
    counts = ((one["name"], (one.get("allocatable") or {}).get("count")) for one in drivers(csi_node))
    return {driver: count for driver, count in counts if count is not None}


def exceeded(new: Collection[Attached], attached: Collection[Attached], most: Mapping[str, int]) -> str:
    """The first driver that would have more volumes than its limit if these were attached too; "" if none."""
    before = Counter(driver for driver, _ in set(attached))
    for driver, count in Counter(driver for driver, _ in set(new) - set(attached)).items():
        if driver in most and before[driver] + count > most[driver]:
            return driver
    return ""
