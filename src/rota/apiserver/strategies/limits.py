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
_EXISTING: Final = frozenset(_SCOPES) - {"PriorityClass", "VolumeAttributesClass"}
_CONFLICTING: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WRONG_RESOURCE: Final = "unsupported scope applied to resource"
_MUST_EXIST: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_POD_RESOURCES: Final = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
_OF_SCOPE: Final = {
    **dict.fromkeys(_SCOPES, _POD_RESOURCES),
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_STANDARD_QUOTA: Final = _POD_RESOURCES | {
    "ephemeral-storage", "requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage",
    "resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps",
    "services.nodeports", "services.loadbalancers",
}  # fmt: skip
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
    return found + _validate_scopes(spec) + _validate_scope_selector(spec)


def _validate_scopes(spec: Object) -> list[fields.FieldError]:
    path, scopes = SPEC.child("scopes"), spec.get("scopes") or []
    found: list[fields.FieldError] = []
    for scope in scopes:
        if scope not in _SCOPES:
            found.append(fields.invalid(path, scopes, "unsupported scope"))
        found += [fields.invalid(path, scopes, _WRONG_RESOURCE) for _ in _out_of_scope(scope, spec)]
    return found + [fields.invalid(path, scopes, "conflicting scopes") for pair in _CONFLICTING if pair <= {*scopes}]


def _validate_scope_selector(spec: Object) -> list[fields.FieldError]:
    selector = spec.get("scopeSelector")
    if selector is None:
        return []
    path, found = SPEC.child("scopeSelector", "matchExpressions"), list[fields.FieldError]()
    wanted = selector.get("matchExpressions") or []
    for one in wanted:
        scope, operator, values = one.get("scopeName") or "", one.get("operator") or "", one.get("values") or []
        if scope not in _SCOPES:
            found.append(fields.invalid(path.child("scopeName"), scope, "unsupported scope"))
        found += [fields.invalid(path, selector, _WRONG_RESOURCE) for _ in _out_of_scope(scope, spec)]
        if scope in _EXISTING and operator != "Exists":
            found.append(fields.invalid(path.child("operator"), operator, _MUST_EXIST))
        if operator in ("In", "NotIn"):
            if not values:
                why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                found.append(fields.required(path.child("values"), why))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                found.append(fields.invalid(path.child("values"), values, why))
        else:
            found.append(fields.invalid(path.child("operator"), operator, "not a valid selector operator"))
    named = {one.get("scopeName") for one in wanted}
    # upstream shows the other way to name scopes here
    shown = spec.get("scopes") or []
    return found + [fields.invalid(path, shown, "conflicting scopes") for pair in _CONFLICTING if pair <= named]


def _out_of_scope(scope: str, spec: Object) -> list[str]:
    """The limited resources that a scope is not about."""
    allowed = _OF_SCOPE.get(scope)
    if allowed is None:
        return []
    return [name for name in sorted(spec.get("hard") or {}) if name in _STANDARD_QUOTA and name not in allowed]


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
