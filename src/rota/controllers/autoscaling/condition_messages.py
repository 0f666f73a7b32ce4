"""Names of metrics, and messages about metrics that cannot be read. Pure.

Users search for upstream's messages and programs compare them, so they are identical to upstream's, including the order
of their prefixes (`pkg/controller/podautoscaler`, 1.36).
"""

from collections.abc import Mapping
from typing import Any, Final

_RESOURCES: Final = frozenset({"Resource", "ContainerResource"})


def field(metric: Mapping[str, Any]) -> str:
    """The field that describes a metric of its type."""
    kind = str(metric.get("type", ""))
    return kind[:1].lower() + kind[1:]


def source(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a metric's description that its type names."""
    return metric.get(field(metric)) or {}


def name(metric: Mapping[str, Any]) -> str:
    """The name of a metric in the reason for a size."""
    kind, described = metric["type"], source(metric)
    if kind in _RESOURCES:
        if _is_aimed_at(described, "averageValue"):
            return f"{described['name']} resource"
        what = "container resource" if kind == "ContainerResource" else "resource"
        return f"{described['name']} {what} utilization (percentage of request)"
    called = described["metric"]["name"]
    if kind == "Pods":
        return f"pods metric {called}"
    if kind == "Object" and not _is_aimed_at(described, "averageValue"):
        return f"{described['describedObject']['kind']} metric {called}"
    return f"external metric {called}({selector(described['metric'].get('selector'))})"


def identity(metric: Mapping[str, Any]) -> dict[str, Any]:
    """The metric identifier that the status contains."""
    described = source(metric)
    kept = ("name", "container") if metric["type"] in _RESOURCES else ("metric", "describedObject")
    return {part: described[part] for part in kept if part in described}


def failure(metric: Mapping[str, Any], why: str) -> str:
    """Why a metric proposes no size."""
    if metric["type"] not in _RESOURCES:
        return why
    described = source(metric)
    what = "usage" if _is_aimed_at(described, "averageValue") else "utilization"
    return f"failed to get {described['name']} {what}: {why}"


def among_others(metric: Mapping[str, Any], failed: str) -> str:
    """The same message where an autoscaler has several metrics."""
    kind, described = metric["type"], source(metric)
    each = _is_aimed_at(described, "averageValue")
    if kind == "Resource":
        return f"failed to get {described['name']} resource metric value: {failed}"
    if kind == "ContainerResource":
        return f"failed to get {described['container']} container metric value: {failed}"
    called = described["metric"]["name"]
    if kind == "External":
        what = f"{called} external metric" if each else f"external metric {called}"
        return f"failed to get {called} external metric value: failed to get {what}: {failed}"
    if kind == "Object" and each:
        failed = f"failed to get {called} object metric: {failed}"
    return f"failed to get {'object' if kind == 'Object' else 'pods'} metric value: {failed}"


def unread(metric: Mapping[str, Any], namespace: str, why: str) -> str:
    """The message for a metric that could not be read."""
    kind, described = metric["type"], source(metric)
    if kind in _RESOURCES:
        return f"unable to get metrics for resource {described['name']}: {why}"
    called = described["metric"]["name"]
    if kind == "Object":
        about = described["describedObject"]
        return f"unable to get metric {called}: {about['kind']} on {namespace} {about['name']}/{why}"
    if kind == "External":
        return (
            f"unable to get external metric {namespace}/{called}/{selector(described['metric'].get('selector'))}: {why}"
        )
    return f"unable to get metric {called}: {why}"


def selector(given: Mapping[str, Any] | None) -> str:
    """A LabelSelector as upstream's programs print it."""
    if given is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((given.get("matchLabels") or {}).items()))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{one['key']},Operator:{one['operator']},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in given.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )


def _is_aimed_at(described: Mapping[str, Any], what: str) -> bool:
    return (described.get("target") or {}).get(what) is not None
