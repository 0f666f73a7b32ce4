"""Horizontal pod autoscalers: each metric as its current value over its target."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations, texts
from rota.apiserver.printing.columns import NONE, UNSET, Cells, Object, Printer, Printers, age, at, columns, items, name

_MAX_SHOWN: Final = 2
#: The default target of autoscaling/v1 in percent of the requested CPU.
_DEFAULT_UTILIZATION: Final = 80


def _autoscaler(obj: Object, now: float) -> Cells:
    minimum = at(obj, "spec", "minReplicas")
    target = at(obj, "spec", "scaleTargetRef")
    return [
        name(obj),
        f"{at(target, 'kind') or ''}/{at(target, 'name') or ''}",
        _metrics(obj),
        UNSET if minimum is None else str(minimum),
        at(obj, "spec", "maxReplicas") or 0,
        at(obj, "status", "currentReplicas") or 0,
        age(obj, now),
    ]


def _metrics(obj: Object) -> str:
    specs, statuses = _of_version_1(obj) or (items(obj, "spec", "metrics"), items(obj, "status", "currentMetrics"))
    listed = [
        _metric(spec, statuses[position] if position < len(statuses) else None) for position, spec in enumerate(specs)
    ]
    if len(listed) > _MAX_SHOWN:
        return f"{', '.join(listed[:_MAX_SHOWN])} + {len(listed) - _MAX_SHOWN} more..."
    return ", ".join(listed) or NONE


def _of_version_1(obj: Object) -> tuple[list[Any], list[Any]] | None:
    """The one metric of autoscaling/v1 in the form of v2; None for an object of v2."""
    if at(obj, "apiVersion") != "autoscaling/v1":
        return None
    wanted = at(obj, "spec", "targetCPUUtilizationPercentage")
    used = at(obj, "status", "currentCPUUtilizationPercentage")
    return [_cpu("target", _DEFAULT_UTILIZATION if wanted is None else wanted)], [] if used is None else [
        _cpu("current", used)
    ]


def _cpu(key: str, percentage: int) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", key: {"averageUtilization": percentage}}}


def _metric(spec: Mapping[str, Any], status: Mapping[str, Any] | None) -> str:
    read = _SOURCES.get(spec.get("type") or "")
    return read(spec, status) if read else "<unknown type>"


def _value_or_average(key: str) -> Callable[[Mapping[str, Any], Mapping[str, Any] | None], str]:
    def read(spec: Mapping[str, Any], status: Mapping[str, Any] | None) -> str:
        average = at(spec, key, "target", "averageValue")
        current = at(status, key, "current")
        if average is not None:
            return f"{_known(current, 'averageValue')}/{texts.quantity(average)} (avg)"
        return f"{_known(current, 'value')}/{texts.quantity(at(spec, key, 'target', 'value'))}"

    return read


def _pods(spec: Mapping[str, Any], status: Mapping[str, Any] | None) -> str:
    wanted = texts.quantity(at(spec, "pods", "target", "averageValue"))
    return f"{_known(at(status, 'pods', 'current'), 'averageValue')}/{wanted}"


def _utilization(key: str) -> Callable[[Mapping[str, Any], Mapping[str, Any] | None], str]:
    def read(spec: Mapping[str, Any], status: Mapping[str, Any] | None) -> str:
        target, current = at(spec, key, "target"), at(status, key, "current")
        resource = at(spec, key, "name") or ""
        if at(target, "averageValue") is not None:
            return f"{resource}: {_known(current, 'averageValue')}/{texts.quantity(target['averageValue'])}"
        used, wanted = at(current, "averageUtilization"), at(target, "averageUtilization")
        return (
            f"{resource}: {durations.UNKNOWN if used is None else f'{used}%'}"
            f"/{'<auto>' if wanted is None else f'{wanted}%'}"
        )

    return read


def _known(current: Mapping[str, Any] | None, key: str) -> str:
    value = at(current, key)
    return durations.UNKNOWN if value is None else texts.quantity(value)


_SOURCES: Final = {
    "External": _value_or_average("external"),
    "Object": _value_or_average("object"),
    "Pods": _pods,
    "Resource": _utilization("resource"),
    "ContainerResource": _utilization("containerResource"),
}

PRINTERS: Final[Printers] = {
    GroupResource("autoscaling", "horizontalpodautoscalers"): Printer(
        columns=columns("""
            Name      | string name | The name of the autoscaler.
            Reference | string      | The object that is scaled.
            Targets   | string      | Each metric: what it is, over what it should be.
            MinPods   | string      | The fewest pods that it goes down to.
            MaxPods   | string      | The most pods that it goes up to.
            Replicas  | string      | How many pods there are.
            Age       | string      | How long the autoscaler has existed.
        """),
        cells=_autoscaler,
    ),
}
