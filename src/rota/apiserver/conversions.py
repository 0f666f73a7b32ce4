"""Conversion between API versions: which version is stored, and how objects are converted.

Versions that differ in name only need another apiVersion. Events exist in two groups with different field names and are
stored as those of the core group; a HorizontalPodAutoscaler is stored as version 2. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver.interfaces import Object

_Rewrite: TypeAlias = Callable[[Object], Object]


@dataclass(frozen=True, slots=True)
class Home:
    """Where objects of a resource are stored; the part of a `ResourceType` that determines keys."""

    group: str
    plural: str
    namespaced: bool


_CORE_EVENTS: Final = Home("", "events", True)


def home(resource: ResourceType) -> ResourceType | Home:
    """The group and resource in the keys of this resource's objects."""
    return _CORE_EVENTS if resource.group == "events.k8s.io" and resource.plural == "events" else resource


def is_rewritten(resource: ResourceType) -> bool:
    """Whether objects of this resource may be stored in another shape than it is served in."""
    return resource.group_resource in _REWRITTEN


def stored_version(resource: ResourceType) -> str:
    """The apiVersion in which objects of this resource are stored."""
    return _STORED.get(resource.group_resource, resource.api_version)


def convert(obj: Object, api_version: str) -> Object:
    """The object in another version of its kind; the argument's top level may be reused."""
    rewrite = _REWRITES.get((obj["kind"], obj["apiVersion"], api_version))
    converted = rewrite(obj) if rewrite else obj
    converted["apiVersion"] = api_version
    return converted


_EVENT_FIELDS: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_EVENT_FIELDS: Final = {core: new for new, core in _EVENT_FIELDS.items()}


def _renaming(names: Mapping[str, str]) -> _Rewrite:
    def rename(obj: Object) -> Object:
        return {names.get(name, name): item for name, item in obj.items()}

    return rename


def _autoscaler_to_v2(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        spec["metrics"] = [_cpu_metric("target", {"type": "Utilization", "averageUtilization": target})]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        status["currentMetrics"] = [_cpu_metric("current", {"averageUtilization": current})]
    return _with_parts(obj, spec, status)


def _autoscaler_to_v1(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    target = _cpu_utilization(spec.pop("metrics", None), "target")
    if target is not None:
        spec["targetCPUUtilizationPercentage"] = target
    current = _cpu_utilization(status.pop("currentMetrics", None), "current")
    if current is not None:
        status["currentCPUUtilizationPercentage"] = current
    for name in ("behavior", "conditions"):
        spec.pop(name, None)
        status.pop(name, None)
    return _with_parts(obj, spec, status)


def _cpu_metric(side: str, value: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", side: value}}


def _cpu_utilization(metrics: Any, side: str) -> Any:
    for metric in metrics or ():
        resource = metric.get("resource") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu":
            return (resource.get(side) or {}).get("averageUtilization")
    return None


def _with_parts(obj: Object, spec: Object, status: Object) -> Object:
    return {**obj, "spec": spec, **({"status": status} if status else {})}


_REWRITES: Final[Mapping[tuple[str, str, str], _Rewrite]] = {
    ("Event", "events.k8s.io/v1", "v1"): _renaming(_EVENT_FIELDS),
    ("Event", "v1", "events.k8s.io/v1"): _renaming(_CORE_EVENT_FIELDS),
    ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2"): _autoscaler_to_v2,
    ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1"): _autoscaler_to_v1,
}
_STORED: Final[Mapping[GroupResource, str]] = {
    GroupResource("events.k8s.io", "events"): "v1",
    GroupResource("autoscaling", "horizontalpodautoscalers"): "autoscaling/v2",
}
_REWRITTEN: Final = frozenset(_STORED)
