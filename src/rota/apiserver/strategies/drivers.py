"""The strategies of CSIDriver, CSINode and VolumeAttachment."""

from typing import Any, Final, TypeAlias

from rota.api import fields, names
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.workloads import SPEC

Found: TypeAlias = list[fields.FieldError]

_DRIVER: Final[dict[str, Any]] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


class DriverStrategy(GenericStrategy):
    """CSIDrivers."""

    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """A driver attaches persistent volumes and gets no pod information."""
        spec = obj.setdefault("spec", {})
        for name, value in _DRIVER.items():
            spec.setdefault(name, value)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]


class DriverNodeStrategy(GenericStrategy):
    """CSINodes."""

    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """An empty list of drivers."""
        obj.setdefault("spec", {}).setdefault("drivers", [])

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """Every driver."""
        return super().validate_create(obj, at) + _validate_node(obj["spec"])

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """Every driver."""
        return super().validate_update(new, old, at) + _validate_node(new["spec"])


class AttachmentStrategy(GenericStrategy):
    """VolumeAttachments."""

    demands_required_fields = False

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """The attacher, the source and the node."""
        return super().validate_create(obj, at) + _validate_attachment(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """The spec is immutable."""
        found = super().validate_update(new, old, at) + _validate_attachment(new.get("spec") or {})
        return found + checks.immutable(new.get("spec"), old.get("spec"), SPEC)


def _validate_node(spec: Object) -> Found:
    found: Found = []
    seen: set[str] = set()
    for position, one in enumerate(spec.get("drivers") or ()):
        path, name = SPEC.child("drivers").index(position), one.get("name") or ""
        if not name:
            found.append(fields.required(path.child("name")))
        elif name in seen:
            found.append(fields.duplicate(path.child("name"), name))
        seen.add(name)
        if not one.get("nodeID"):
            found.append(fields.required(path.child("nodeID")))
        keys: set[str] = set()
        for key in one.get("topologyKeys") or ():
            if not key:
                found.append(fields.required(path))
            elif key in keys:
                found.append(fields.duplicate(path, key))
            keys.add(key)
            found += checks.label_key(key, path)
    return found


def _validate_attachment(spec: Object) -> Found:
    attacher, node, path = spec.get("attacher") or "", spec.get("nodeName") or "", SPEC.child("source")
    found = [] if attacher else [fields.required(SPEC.child("attacher"))]
    source = spec.get("source") or {}
    name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if name is None and inline is None:
        why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        found.append(fields.required(path, why))
    elif name is not None and inline is not None:
        why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        found.append(fields.forbidden(path, why))
    elif name == "":
        found.append(fields.required(path.child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
    return found + checks.messages(names.check_dns1123_subdomain(node), node, SPEC.child("nodeName"))
