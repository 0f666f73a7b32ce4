"""The strategy of HorizontalPodAutoscaler; all versions have the bounds and the target in common."""

import copy
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import fields, names
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.workloads import SPEC

Found: TypeAlias = list[fields.FieldError]

_SOURCES: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
_PERCENT: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
#: Defaults of `spec.behavior`; the controller knows the stabilization window of scale-down.
_RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _PERCENT],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_PERCENT]},
}
_CHOICES: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_LONGEST_WINDOW_S: Final = 3600
_LONGEST_PERIOD_S: Final = 1800


class AutoscalerStrategy(GenericStrategy):
    """HorizontalPodAutoscalers."""

    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """At least one replica, and CPU utilization as the metric if there is none."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if obj.get("apiVersion") == "autoscaling/v2" and not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        behavior = spec.get("behavior")
        if behavior is not None:
            for name, usual in _RULES.items():
                said = {field: value for field, value in (behavior.get(name) or {}).items() if value is not None}
                behavior[name] = {**copy.deepcopy(usual), **said}

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """Bounds, target and metrics."""
        return super().validate_create(obj, at) + _validate(obj["spec"])

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """Bounds, target and metrics; counts of the status are not negative."""
        found = super().validate_update(new, old, at)
        if not at.subresource:
            return found + _validate(new["spec"])
        status, path = new.get("status") or {}, fields.Path("status")
        for name in ("currentReplicas", "desiredReplicas"):
            found += checks.not_negative(status.get(name), path.child(name))
        return found


def _validate(spec: Mapping[str, Any]) -> Found:
    found: Found = []
    lowest, highest = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if lowest is not None and lowest < 1:
        found.append(fields.invalid(SPEC.child("minReplicas"), lowest, "must be greater than or equal to 1"))
    if highest < 1:
        found.append(fields.required(SPEC.child("maxReplicas"), "must be set and greater than 0"))
    if lowest is not None and highest < lowest:
        why = "must be greater than or equal to `minReplicas`"
        found.append(fields.invalid(SPEC.child("maxReplicas"), highest, why))
    found += _validate_reference(spec.get("scaleTargetRef") or {}, SPEC.child("scaleTargetRef"))
    for position, metric in enumerate(spec.get("metrics") or ()):
        found += _validate_metric(metric, SPEC.child("metrics").index(position))
    for name, rules in (spec.get("behavior") or {}).items():
        found += _validate_rules(rules or {}, SPEC.child("behavior").child(name))
    return found


def _validate_reference(reference: Mapping[str, Any], path: fields.Path) -> Found:
    found: Found = []
    for name in ("kind", "name"):
        value = reference.get(name) or ""
        if value:
            found += checks.messages(names.check_path_segment(value), value, path.child(name))
        else:
            found.append(fields.required(path.child(name)))
    return found


def _validate_metric(metric: Mapping[str, Any], path: fields.Path) -> Found:
    kind = metric.get("type") or ""
    found: Found = []
    if not kind:
        found.append(fields.required(path.child("type"), "must specify a metric source type"))
    if kind not in _SOURCES:
        found.append(fields.not_supported(path.child("type"), kind, _SOURCES))
        return found
    named = kind[0].lower() + kind[1:]
    if metric.get(named) is None:
        found.append(fields.required(path.child(named), "must populate information for the given metric source"))
    else:
        found += _validate_source(kind, metric[named], path.child(named))
    others = [one for one in (name[0].lower() + name[1:] for name in _SOURCES) if metric.get(one) is not None]
    return found + [
        fields.forbidden(path.child(one), "must populate the given metric source only")
        for one in others
        if one != named
    ]


def _validate_source(kind: str, source: Mapping[str, Any], path: fields.Path) -> Found:
    target, where = source.get("target") or {}, path.child("target")
    found: Found = []
    if kind in {"Resource", "ContainerResource"}:
        found += _validate_resource(kind, source, path)
    else:
        if kind == "Object":
            found += _validate_reference(source.get("describedObject") or {}, path.child("describedObject"))
        name, named = (source.get("metric") or {}).get("name") or "", path.child("metric", "name")
        if name:
            found += checks.messages(names.check_path_segment(name), name, named)
        else:
            found.append(fields.required(named, "must specify a metric name"))
    found += _validate_target(target, where)
    each, whole, share = (target.get(one) is not None for one in ("averageValue", "value", "averageUtilization"))
    if kind == "Pods" and not each:
        found.append(fields.required(where.child("averageValue"), "must specify a positive target averageValue"))
    elif kind == "Object" and not (each or whole):
        found.append(fields.required(where.child("averageValue"), "must set either a target value or averageValue"))
    elif kind == "External" and not (each or whole):
        why = "must set either a target value for metric or a per-pod target"
        found.append(fields.required(where.child("averageValue"), why))
    elif kind == "External" and each and whole:
        why = "may not set both a target value for metric and a per-pod target"
        found.append(fields.forbidden(where.child("value"), why))
    elif kind in {"Resource", "ContainerResource"} and not (each or share):
        why = "must set either a target raw value or a target utilization"
        found.append(fields.required(where.child("averageUtilization"), why))
    elif kind in {"Resource", "ContainerResource"} and each and share:
        why = "may not set both a target raw value and a target utilization"
        found.append(fields.forbidden(where.child("averageValue"), why))
    return found


def _validate_resource(kind: str, source: Mapping[str, Any], path: fields.Path) -> Found:
    found = [] if source.get("name") else [fields.required(path.child("name"), "must specify a resource name")]
    if kind == "ContainerResource":
        container = source.get("container") or ""
        if container:
            found += checks.dns_label(container, path.child("container"))
        else:
            found.append(fields.required(path.child("container"), "must specify a container"))
    return found


def _validate_target(target: Mapping[str, Any], path: fields.Path) -> Found:
    found: Found = []
    kind = target.get("type") or ""
    if not kind:
        found.append(fields.required(path.child("type"), "must specify a metric target type"))
    if kind not in _TARGETS:
        found.append(fields.invalid(path.child("type"), kind, "must be either Utilization, Value, or AverageValue"))
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and checks.quantity(amount) <= checks.quantity(0):
            found.append(fields.invalid(path.child(name), amount, "must be positive"))
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        found.append(fields.invalid(path.child("averageUtilization"), share, "must be greater than 0"))
    return found


def _validate_rules(rules: Mapping[str, Any], path: fields.Path) -> Found:
    found: Found = []
    window, where = rules.get("stabilizationWindowSeconds"), path.child("stabilizationWindowSeconds")
    if window is not None and window < 0:
        found.append(fields.invalid(where, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW_S:
        found.append(fields.invalid(where, window, f"must be less than or equal to {_LONGEST_WINDOW_S}"))
    choice = rules.get("selectPolicy")
    if choice is not None and choice not in _CHOICES:
        found.append(fields.not_supported(path.child("selectPolicy"), choice, _CHOICES))
    if not rules.get("policies"):
        found.append(fields.required(path.child("policies"), "must specify at least one Policy"))
    for position, policy in enumerate(rules.get("policies") or ()):
        found += _validate_policy(policy, path.child("policies").index(position))
    if rules.get("tolerance") is not None and checks.quantity(rules["tolerance"]) < checks.quantity(0):
        found.append(fields.invalid(path.child("tolerance"), rules["tolerance"], checks.NOT_NEGATIVE))
    return found


def _validate_policy(policy: Mapping[str, Any], path: fields.Path) -> Found:
    found: Found = []
    if policy.get("type") not in _POLICIES:
        found.append(fields.not_supported(path.child("type"), policy.get("type") or "", _POLICIES))
    for name in ("value", "periodSeconds"):
        if (policy.get(name) or 0) <= 0:
            found.append(fields.invalid(path.child(name), policy.get(name) or 0, "must be greater than zero"))
    if (policy.get("periodSeconds") or 0) > _LONGEST_PERIOD_S:
        why = f"must be less than or equal to {_LONGEST_PERIOD_S}"
        found.append(fields.invalid(path.child("periodSeconds"), policy["periodSeconds"], why))
    return found
