"""The rules of HorizontalPodAutoscaler, of which all versions have the bounds and the target in common."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import fields, names
from rota.apiserver.contract import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.workloads import SPEC

Found: TypeAlias = list[fields.FieldError]

_SOURCES: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")


class AutoscalerStrategy(GenericStrategy):
    """HorizontalPodAutoscalers."""

    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """Not below one, and by the load of processors if nothing else is said."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if obj.get("apiVersion") == "autoscaling/v2" and not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """Bounds, target and metrics."""
        return super().validate_create(obj, at) + _validate(obj["spec"])

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """Bounds, target and metrics."""
        found = super().validate_update(new, old, at)
        return found if at.subresource else found + _validate(new["spec"])


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
    target, path = spec.get("scaleTargetRef") or {}, SPEC.child("scaleTargetRef")
    for name in ("kind", "name"):
        value = target.get(name) or ""
        if value:
            found += checks.messages(names.check_path_segment(value), value, path.child(name))
        else:
            found.append(fields.required(path.child(name)))
    for position, metric in enumerate(spec.get("metrics") or ()):
        found += _validate_metric(metric, SPEC.child("metrics").index(position))
    return found


def _validate_metric(metric: Mapping[str, Any], path: fields.Path) -> Found:
    kind = metric.get("type") or ""
    found: Found = []
    if not kind:
        found.append(fields.required(path.child("type"), "must specify a metric source type"))
    if kind not in _SOURCES:
        found.append(fields.not_supported(path.child("type"), kind, _SOURCES))
        return found
    source = kind[0].lower() + kind[1:]
    if metric.get(source) is None:
        found.append(fields.required(path.child(source), "must populate information for the given metric source"))
    return found
