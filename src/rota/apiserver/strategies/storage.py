"""The strategies of PersistentVolume, PersistentVolumeClaim and StorageClass, whose specs are mostly immutable."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import fields, names, quantities, times
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.workloads import SPEC

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_CLAIM_FIXED: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
#: Fields of a volume's spec that are not sources; every other one is a source.
_ABOUT: Final = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
        "storageClassName", "volumeAttributesClassName", "volumeMode",
    }
)  # fmt: skip


class ClaimStrategy(GenericStrategy):
    """PersistentVolumeClaims."""

    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """The volume mode of a claim is Filesystem."""
        spec = obj.setdefault("spec", {})
        if not spec.get("volumeMode"):
            spec["volumeMode"] = "Filesystem"

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """A new claim is Pending."""
        super().prepare_create(obj, at)
        obj["status"] = {"phase": "Pending"}

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Size and access modes."""
        return super().validate_create(obj, at) + _validate_claim(obj["spec"])

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """A claim gets its volume once, and may grow while it is bound."""
        found = super().validate_update(new, old, at)
        if at.subresource == "status":
            return found
        wanted, before = dict(new["spec"]), dict(old["spec"])
        if not before.get("volumeName"):
            wanted.pop("volumeName", None)
            before.pop("volumeName", None)
        if before.get("storageClassName") is None:
            wanted.pop("storageClassName", None)
        if (old.get("status") or {}).get("phase") == "Bound":
            for name in ("resources", "volumeAttributesClassName"):
                wanted.pop(name, None)
                before.pop(name, None)
            found += _validate_growth(new, old)
        found += _validate_claim(new["spec"])
        if wanted != before:
            found.append(fields.forbidden(SPEC, _CLAIM_FIXED))
        return found


class VolumeStrategy(GenericStrategy):
    """PersistentVolumes."""

    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """The volume mode is Filesystem, the reclaim policy Retain."""
        spec = obj.setdefault("spec", {})
        for name, value in (("persistentVolumeReclaimPolicy", "Retain"), ("volumeMode", "Filesystem")):
            if not spec.get(name):
                spec[name] = value
        if spec.get("hostPath") is not None:
            spec["hostPath"].setdefault("type", "")

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """A new volume is Pending."""
        super().prepare_create(obj, at)
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": times.format_time(at.now)}

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Size, access modes, one source."""
        return super().validate_create(obj, at) + _validate_volume(obj["spec"])

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The source is immutable."""
        found = super().validate_update(new, old, at)
        if at.subresource == "status":
            return found
        found += _validate_volume(new["spec"])
        if _sources(new["spec"]) != _sources(old["spec"]):
            why = "spec.persistentvolumesource is immutable after creation"
            found.append(fields.forbidden(SPEC.child("persistentvolumesource"), why))
        mode = SPEC.child("volumeMode")
        return found + checks.immutable(new["spec"].get("volumeMode"), old["spec"].get("volumeMode"), mode)


class StorageClassStrategy(GenericStrategy):
    """StorageClasses."""

    def default(self, obj: Object, /) -> None:
        """Immediate binding, and the reclaim policy Delete."""
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Policies."""
        return super().validate_create(obj, at) + _validate_class(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The provisioner, parameters and policies are immutable."""
        found = super().validate_update(new, old, at) + _validate_class(new)
        for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            found += checks.immutable(new.get(name), old.get(name), fields.Path(name))
        return found


def _validate_modes(spec: Mapping[str, Any], *, why: str = "") -> list[fields.FieldError]:
    modes, path = spec.get("accessModes") or [], SPEC.child("accessModes")
    if not modes:
        return [fields.required(path, why)]
    found = [fields.not_supported(path, mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        found.append(fields.forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return found


def _validate_claim(spec: Mapping[str, Any]) -> list[fields.FieldError]:
    found = checks.label_selector(spec.get("selector"), SPEC.child("selector"))
    found += _validate_modes(spec, why="at least 1 access mode is required")
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        found += checks.messages(names.check_dns1123_subdomain(name), name, SPEC.child("storageClassName"))
    wanted = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    path = SPEC.child("resources").key("storage")
    if wanted is None:
        found.append(fields.required(path))
    elif quantities.from_wire(wanted).nanos <= 0:
        found.append(fields.invalid(path, wanted, "must be greater than zero"))
    return found


def _validate_growth(new: Object, old: Object) -> list[fields.FieldError]:
    wanted, had = (
        quantities.from_wire(((one["spec"].get("resources") or {}).get("requests") or {}).get("storage"))
        for one in (new, old)
    )
    if wanted >= had:
        return []
    path = SPEC.child("resources", "requests", "storage")
    return [fields.forbidden(path, "field can not be less than status.capacity")]


def _validate_volume(spec: Mapping[str, Any]) -> list[fields.FieldError]:
    found = _validate_modes(spec)
    capacity = spec.get("capacity") or {}
    if not capacity:
        unsupported = fields.not_supported(SPEC.child("capacity"), checks.shown(spec.get("capacity")), ["storage"])
        found += [fields.required(SPEC.child("capacity")), unsupported]
    elif set(capacity) != {"storage"}:
        found.append(fields.not_supported(SPEC.child("capacity"), capacity, ["storage"]))
    elif quantities.from_wire(capacity["storage"]).nanos <= 0:
        why = "must be greater than zero"
        found.append(fields.invalid(SPEC.child("capacity").key("storage"), capacity["storage"], why))
    found += checks.one_of(
        spec.get("persistentVolumeReclaimPolicy"), _RECLAIM, SPEC.child("persistentVolumeReclaimPolicy")
    )
    sources = _sources(spec)
    if not sources:
        found.append(fields.required(SPEC, "must specify a volume type"))
    extra = [
        fields.forbidden(SPEC.child(name), "may not specify more than 1 volume type") for name in list(sources)[1:]
    ]
    return found + extra


def _sources(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: source for name, source in spec.items() if name not in _ABOUT}


def _validate_class(obj: Object) -> list[fields.FieldError]:
    found = []
    if obj["reclaimPolicy"] not in {"Delete", "Retain"}:
        found.append(fields.not_supported(fields.Path("reclaimPolicy"), obj["reclaimPolicy"], ["Delete", "Retain"]))
    modes = ("Immediate", "WaitForFirstConsumer")
    return found + checks.one_of(obj["volumeBindingMode"], modes, fields.Path("volumeBindingMode"))
