"""Related objects of nodes and pods: the fields that plugins read, and their validation.

The catalog holds such objects as plain JSON, and plugins trust it. Every document is therefore validated here before it
enters a catalog; a mismatch is a `MalformedObjectError` with the path. Kinds that no built-in plugin reads need only a
name.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rota.api import quantities, selectors
from rota.api.quantities import QuantityError
from rota.api.selectors import SelectorError
from rota.columns.objects import (
    Amount,
    Amounts,
    Labels,
    LabelSelector,
    MalformedObjectError,
    NodeSelector,
    ObjectMeta,
    ResourceRequirements,
    View,
    read,
)

# ruff: noqa: N815 - attribute names are the wire's

NOTHING = quantities.from_value(0)


class Named(View, frozen=True):
    """Any object."""

    metadata: ObjectMeta


class _Selecting(View, frozen=True):
    selector: LabelSelector | None = None


class _SelectingByLabels(View, frozen=True):
    selector: Labels | None = None


class _BudgetStatus(View, frozen=True):
    disruptionsAllowed: int | None = None
    disruptedPods: dict[str, Any] | None = None


class Budget(Named, frozen=True):
    """A PodDisruptionBudget."""

    spec: _Selecting | None = None
    status: _BudgetStatus | None = None


class Owner(Named, frozen=True):
    """A ReplicaSet or a StatefulSet."""

    spec: _Selecting | None = None


class Service(Named, frozen=True):
    """A Service, or a ReplicationController, whose selector has the same form."""

    spec: _SelectingByLabels | None = None


class _Phase(View, frozen=True):
    phase: str | None = None


class _ClaimSpec(View, frozen=True):
    accessModes: list[str] | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None
    storageClassName: str | None = None
    volumeAttributesClassName: str | None = None
    volumeMode: str | None = None
    volumeName: str | None = None


class Claim(Named, frozen=True):
    """A PersistentVolumeClaim."""

    spec: _ClaimSpec | None = None
    status: _Phase | None = None


class _CsiSource(View, frozen=True):
    driver: str | None = None
    volumeHandle: str | None = None


class _ClaimReference(View, frozen=True):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None


class _VolumeNodeAffinity(View, frozen=True):
    required: NodeSelector | None = None


class _VolumeSpec(View, frozen=True):
    accessModes: list[str] | None = None
    capacity: Amounts | None = None
    claimRef: _ClaimReference | None = None
    csi: _CsiSource | None = None
    nodeAffinity: _VolumeNodeAffinity | None = None
    storageClassName: str | None = None
    volumeAttributesClassName: str | None = None
    volumeMode: str | None = None
    awsElasticBlockStore: dict[str, Any] | None = None
    azureDisk: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    gcePersistentDisk: dict[str, Any] | None = None
    portworxVolume: dict[str, Any] | None = None


class Volume(Named, frozen=True):
    """A PersistentVolume."""

    spec: _VolumeSpec | None = None
    status: _Phase | None = None


class _TopologyRequirement(View, frozen=True):
    key: str
    values: list[str] | None = None


class _TopologyTerm(View, frozen=True):
    matchLabelExpressions: list[_TopologyRequirement] | None = None


class StorageClass(Named, frozen=True):
    """A StorageClass."""

    allowedTopologies: list[_TopologyTerm] | None = None
    provisioner: str | None = None
    volumeBindingMode: str | None = None


class _DriverLimit(View, frozen=True):
    count: int | None = None


class _NodeDriver(View, frozen=True):
    name: str
    allocatable: _DriverLimit | None = None


class _CsiNodeSpec(View, frozen=True):
    drivers: list[_NodeDriver] | None = None


class CsiNode(Named, frozen=True):
    """A CSINode."""

    spec: _CsiNodeSpec | None = None


class _CsiDriverSpec(View, frozen=True):
    preventPodSchedulingIfMissing: bool | None = None
    storageCapacity: bool | None = None


class CsiDriver(Named, frozen=True):
    """A CSIDriver."""

    spec: _CsiDriverSpec | None = None


class StorageCapacity(Named, frozen=True):
    """A CSIStorageCapacity."""

    capacity: Amount | None = None
    maximumVolumeSize: Amount | None = None
    nodeTopology: LabelSelector | None = None
    storageClassName: str | None = None


class _AttachmentSource(View, frozen=True):
    persistentVolumeName: str | None = None


class _AttachmentSpec(View, frozen=True):
    attacher: str | None = None
    nodeName: str | None = None
    source: _AttachmentSource | None = None


class Attachment(Named, frozen=True):
    """A VolumeAttachment."""

    spec: _AttachmentSpec


class PriorityClass(Named, frozen=True):
    """A PriorityClass."""

    value: int = 0
    globalDefault: bool | None = None
    preemptionPolicy: str | None = None


KINDS: Mapping[str, type[Named]] = {
    "CSIDriver": CsiDriver,
    "CSINode": CsiNode,
    "CSIStorageCapacity": StorageCapacity,
    "PersistentVolume": Volume,
    "PersistentVolumeClaim": Claim,
    "PodDisruptionBudget": Budget,
    "PriorityClass": PriorityClass,
    "ReplicaSet": Owner,
    "ReplicationController": Service,
    "Service": Service,
    "StatefulSet": Owner,
    "StorageClass": StorageClass,
    "VolumeAttachment": Attachment,
}


def check(document: Mapping[str, Any], kind: str, *, path: str) -> None:
    """Check a document of some kind; `MalformedObjectError` names what is wrong."""
    view = read(document, KINDS.get(kind, Named), path=path)
    match view:
        case Budget() | Owner() if view.spec is not None:
            check_selector(view.spec.selector, path=f"{path}.spec.selector")
        case Claim() if view.spec is not None:
            check_selector(view.spec.selector, path=f"{path}.spec.selector")
            check_resources(view.spec.resources, path=f"{path}.spec.resources")
        case Volume() if view.spec is not None:
            check_amounts(view.spec.capacity, path=f"{path}.spec.capacity")
        case StorageCapacity():
            sizes = {"capacity": view.capacity, "maximumVolumeSize": view.maximumVolumeSize}
            check_amounts({name: size for name, size in sizes.items() if size is not None}, path=path)


def check_selector(selector: LabelSelector | None, *, path: str) -> None:
    """Check that a label selector is valid."""
    try:
        selectors.from_object(selector)
    except SelectorError as error:
        raise MalformedObjectError(path, str(error)) from error


def check_resources(resources: ResourceRequirements | None, *, path: str) -> None:
    """Check every amount of requests and limits."""
    if resources is not None:
        check_amounts(resources.requests, path=f"{path}.requests")
        check_amounts(resources.limits, path=f"{path}.limits")


def check_amounts(amounts: Amounts | None, *, path: str) -> None:
    """Check that amounts are quantities, and not negative."""
    for name, amount in (amounts or {}).items():
        if (message := _wrong_amount(amount)) is not None:
            raise MalformedObjectError(f"{path}.{name}", message)


@lru_cache(maxsize=4096)  # a cluster has few distinct amounts, repeated many times
def _wrong_amount(amount: Amount) -> str | None:
    try:
        return "must not be negative" if quantities.from_wire(amount) < NOTHING else None
    except QuantityError as error:
        return str(error)
