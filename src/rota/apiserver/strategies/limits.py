"""The strategies of ResourceQuota and LimitRange."""

from typing import Any, Final

from rota.api import fields, quantities
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.workloads import SPEC

_SCOPES: Final = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)  # fmt: skip
_TYPES: Final = ("Container", "PersistentVolumeClaim", "Pod")
_STANDARD: Final = frozenset(
    {
        "cpu", "memory", "ephemeral-storage", "storage", "pods", "services", "replicationcontrollers", "resourcequotas",
        "secrets", "configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip


class QuotaStrategy(GenericStrategy):
    """ResourceQuotas."""

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Names, amounts, scopes."""
        return super().validate_create(obj, at) + _validate_quota(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Names and amounts; the scopes are immutable."""
        found = super().validate_update(new, old, at)
        if at.subresource:
            return found
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if sorted(spec.get("scopes") or ()) != sorted(before.get("scopes") or ()):
            found.append(fields.invalid(SPEC.child("scopes"), spec.get("scopes") or [], "field is immutable"))
        return found + _validate_quota(spec)


class LimitRangeStrategy(GenericStrategy):
    """LimitRanges."""

    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """The default limit is the maximum, the default request is the limit or the minimum."""
        for one in (obj.get("spec") or {}).get("limits") or ():
            if one.get("type") != "Container":
                continue
            limits = {**(one.get("max") or {}), **(one.get("default") or {})}
            requests = {**(one.get("min") or {}), **limits, **(one.get("defaultRequest") or {})}
            for name, amounts in (("default", limits), ("defaultRequest", requests)):
                if amounts:
                    one[name] = amounts

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Types and bounds."""
        return super().validate_create(obj, at) + _validate_range(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Types and bounds."""
        return super().validate_update(new, old, at) + _validate_range(new.get("spec") or {})


def _validate_quota(spec: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    for name, quantity in (spec.get("hard") or {}).items():
        path = SPEC.child("hard").key(name)
        bare = name.removeprefix("requests.").removeprefix("limits.")
        if "/" not in name and bare not in _STANDARD and not bare.startswith("hugepages-"):
            found.append(fields.invalid(path, name, "must be a standard resource for quota"))
        if quantities.from_wire(quantity).nanos < 0:
            found.append(fields.invalid(path, quantity, checks.NOT_NEGATIVE))
    scopes = spec.get("scopes") or []
    unknown = [scope for scope in scopes if scope not in _SCOPES]
    return found + [fields.invalid(SPEC.child("scopes"), scopes, "unsupported scope") for _ in unknown]


def _validate_range(spec: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    seen: set[str] = set()
    for position, one in enumerate(spec.get("limits") or ()):
        path, kind = SPEC.child("limits").index(position), one.get("type", "")
        found += checks.label_key(kind, path.child("type"))
        if kind not in _TYPES and "/" not in kind:
            why = "must be a standard limit type or fully qualified"
            found.append(fields.invalid(path.child("type"), kind, why))
        if kind in seen:
            found.append(fields.duplicate(path.child("type"), kind))
        seen.add(kind)
        found += _validate_bounds(one, path)
    return found


def _validate_bounds(one: Object, path: fields.Path) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    order = ("min", "defaultRequest", "default", "max")
    for name in sorted({name for part in order for name in one.get(part) or ()}):
        given = [(part, quantities.from_wire(one[part][name])) for part in order if name in (one.get(part) or {})]
        for (lower, small), (upper, large) in _pairs(given):
            if small > large:
                why = f"{_words(lower)} value {small} is greater than {_words(upper)} value {large}"
                found.append(fields.invalid(path.child(lower).key(name), str(small), why))
    return found


def _pairs(items: list[Any]) -> list[tuple[Any, Any]]:
    return [(items[i], items[j]) for i in range(len(items)) for j in range(i + 1, len(items))]


def _words(part: str) -> str:
    return {"defaultRequest": "default request"}.get(part, part)
