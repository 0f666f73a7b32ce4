"""Persistent volumes, claims, storage classes and CSI drivers."""

from typing import Any, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import texts
from rota.apiserver.printing.columns import (
    NONE,
    UNSET,
    Cells,
    Object,
    Printer,
    Printers,
    age,
    at,
    columns,
    items,
    name,
    terminating,
)

_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _given(obj: Object, *path: str) -> Any:
    value = at(obj, *path)
    return UNSET if value is None else value


def _phase(obj: Object) -> str:
    return "Terminating" if terminating(obj) else at(obj, "status", "phase") or ""


def _class(obj: Object) -> str:
    annotated = at(obj, "metadata", "annotations", _BETA_CLASS)
    return annotated if annotated is not None else at(obj, "spec", "storageClassName") or ""


def _volume(obj: Object, now: float) -> Cells:
    claim = at(obj, "spec", "claimRef")
    return [
        name(obj),
        texts.quantity(at(obj, "spec", "capacity", "storage")),
        texts.access_modes(at(obj, "spec", "accessModes")),
        at(obj, "spec", "persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim is not None else "",
        _class(obj),
        _given(obj, "spec", "volumeAttributesClassName"),
        at(obj, "status", "reason") or "",
        age(obj, now),
        _given(obj, "spec", "volumeMode"),
    ]


def _claim(obj: Object, now: float) -> Cells:
    volume = at(obj, "spec", "volumeName") or ""
    return [
        name(obj),
        _phase(obj),
        volume,
        texts.quantity(at(obj, "status", "capacity", "storage")) if volume else "",
        texts.access_modes(at(obj, "status", "accessModes")) if volume else "",
        _class(obj),
        _given(obj, "spec", "volumeAttributesClassName"),
        age(obj, now),
        _given(obj, "spec", "volumeMode"),
    ]


def _storage_class(obj: Object, now: float) -> Cells:
    annotations = at(obj, "metadata", "annotations") or {}
    default = " (default)" if any(annotations.get(key) == "true" for key in _DEFAULT_CLASS) else ""
    return [
        name(obj) + default,
        at(obj, "provisioner") or "",
        at(obj, "reclaimPolicy") or "Delete",
        at(obj, "volumeBindingMode") or "Immediate",
        bool(at(obj, "allowVolumeExpansion")),
        age(obj, now),
    ]


def _attributes_class(obj: Object, now: float) -> Cells:
    return [name(obj), at(obj, "driverName") or "", age(obj, now)]


def _attachment(obj: Object, now: float) -> Cells:
    return [
        name(obj),
        at(obj, "spec", "attacher") or "",
        at(obj, "spec", "source", "persistentVolumeName") or "",
        at(obj, "spec", "nodeName") or "",
        bool(at(obj, "status", "attached")),
        age(obj, now),
    ]


def _csi_node(obj: Object, now: float) -> Cells:
    return [name(obj), len(items(obj, "spec", "drivers")), age(obj, now)]


def _csi_driver(obj: Object, now: float) -> Cells:
    requests = at(obj, "spec", "tokenRequests")
    return [
        name(obj),
        at(obj, "spec", "attachRequired") is not False,
        bool(at(obj, "spec", "podInfoOnMount")),
        bool(at(obj, "spec", "storageCapacity")),
        UNSET if requests is None else ",".join(request.get("audience") or "" for request in requests),
        bool(at(obj, "spec", "requiresRepublish")),
        ",".join(items(obj, "spec", "volumeLifecycleModes")) or NONE,
        age(obj, now),
    ]


def _capacity(obj: Object, now: float) -> Cells:
    capacity = at(obj, "capacity")
    return [name(obj), at(obj, "storageClassName") or "", UNSET if capacity is None else texts.quantity(capacity)]


PRINTERS: Final[Printers] = {
    GroupResource("", "persistentvolumes"): Printer(
        columns=columns("""
            Name                  | string name | The name of the volume.
            Capacity              | string      | Its size.
            Access Modes          | string      | How it may be mounted.
            Reclaim Policy        | string      | What becomes of it when its claim is gone.
            Status                | string      | Whether it is free, bound or released.
            Claim                 | string      | The claim that it is bound to.
            StorageClass          | string      | The class that it belongs to.
            VolumeAttributesClass | string      | The class of its changeable attributes.
            Reason                | string      | Why it failed, in one word.
            Age                   | string      | How long the volume has existed.
            VolumeMode            | string wide | A file system or a raw device.
        """),
        cells=_volume,
    ),
    GroupResource("", "persistentvolumeclaims"): Printer(
        columns=columns("""
            Name                  | string name | The name of the claim.
            Status                | string      | Whether it is bound to a volume.
            Volume                | string      | That volume.
            Capacity              | string      | The size of the volume.
            Access Modes          | string      | How the volume may be mounted.
            StorageClass          | string      | The class that it asks for.
            VolumeAttributesClass | string      | The class of changeable attributes that it asks for.
            Age                   | string      | How long the claim has existed.
            VolumeMode            | string wide | A file system or a raw device.
        """),
        cells=_claim,
    ),
    GroupResource("storage.k8s.io", "storageclasses"): Printer(
        columns=columns("""
            Name                 | string name | The name of the class.
            Provisioner          | string      | Who makes its volumes.
            ReclaimPolicy        | string      | What becomes of a volume when its claim is gone.
            VolumeBindingMode    | string      | When a volume is made for a claim.
            AllowVolumeExpansion | string      | Whether its volumes can grow.
            Age                  | string      | How long the class has existed.
        """),
        cells=_storage_class,
    ),
    GroupResource("storage.k8s.io", "volumeattributesclasses"): Printer(
        columns=columns("""
            Name       | string name | The name of the class.
            DriverName | string      | The driver that knows the attributes.
            Age        | string      | How long the class has existed.
        """),
        cells=_attributes_class,
    ),
    GroupResource("storage.k8s.io", "volumeattachments"): Printer(
        columns=columns("""
            Name     | string name | The name of the attachment.
            Attacher | string name | The driver that attaches the volume.
            PV       | string      | The volume.
            Node     | string      | The node that it is attached to.
            Attached | boolean     | Whether it is attached.
            Age      | string      | How long the attachment has existed.
        """),
        cells=_attachment,
    ),
    GroupResource("storage.k8s.io", "csinodes"): Printer(
        columns=columns("""
            Name    | string name | The name of the node.
            Drivers | integer     | How many drivers run on it.
            Age     | string      | How long the object has existed.
        """),
        cells=_csi_node,
    ),
    GroupResource("storage.k8s.io", "csidrivers"): Printer(
        columns=columns("""
            Name              | string name | The name of the driver.
            AttachRequired    | boolean     | Whether a volume must be attached before it is mounted.
            PodInfoOnMount    | boolean     | Whether it gets information about the pod.
            StorageCapacity   | boolean     | Whether it reports how much room there is.
            TokenRequests     | string      | The audiences that it needs tokens for.
            RequiresRepublish | boolean     | Whether it is called again and again while a volume is mounted.
            Modes             | string      | The kinds of volumes that it supports.
            Age               | string      | How long the driver has existed.
        """),
        cells=_csi_driver,
    ),
    GroupResource("storage.k8s.io", "csistoragecapacities"): Printer(
        columns=columns("""
            Name             | string name | The name of the object.
            StorageClassName | string      | The class that it is about.
            Capacity         | string      | How much room there is.
        """),
        cells=_capacity,
    ),
}
