"""How many replicas a metric asks for.

Metrics may stand for a share of the ready replicas only; `calibration` is that share. Pods that are not ready or not
measured never make a change larger: they count as idle where the number would grow, and as on target where it would
shrink.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import meta, quantities, times

Object: TypeAlias = Mapping[str, Any]

TOLERANCE: Final = 0.1
_STARTING_S: Final = 300.0
_FIRST_READY_S: Final = 30.0


class NotMeasured(ValueError):
    """The metric says nothing about the workload; the message says why."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of a workload, and how many there should be now."""

    pods: Sequence[Object]
    current: int
    calibration: float = 1.0
    #: For pods that have just started; infinite where all have started long ago.
    now: float = math.inf


@dataclass(frozen=True, slots=True)
class Answer:
    """Replicas, and the usage that they follow from: in milli-units for each pod, or in percent of requests."""

    replicas: int
    usage: int
    #: The average usage behind a utilization, in milli-units.
    raw: int | None = None


@dataclass(frozen=True, slots=True)
class _Groups:
    ready: int
    unready: frozenset[str]
    missing: frozenset[str]


def by_average(workload: Pods, measured: Mapping[str, int], target: int, resource: str = "") -> Answer:
    """By an average value for each pod, in milli-units."""
    values, groups = _sorted_out(workload, measured, resource)
    if not values:
        raise NotMeasured("did not receive metrics for any ready pods")
    usage = sum(values.values()) // len(values)

    def ratio(of: Mapping[str, int]) -> float:
        return (sum(of.values()) // len(of)) / target

    return Answer(_replicas(workload, values, groups, ratio, dict.fromkeys(groups.missing, target)), usage)


def by_utilization(workload: Pods, measured: Mapping[str, int], target: int, resource: str) -> Answer:
    """By a utilization of what pods have requested, in percent."""
    values, groups = _sorted_out(workload, measured, resource)
    requests = _requests(workload.pods, resource)
    if not values:
        raise NotMeasured("did not receive metrics for any ready pods")
    utilization, raw = _utilization(values, requests)

    def ratio(of: Mapping[str, int]) -> float:
        return _utilization(of, requests)[0] / target

    on_target = {name: requests[name] * max(100, target) // 100 for name in groups.missing}
    return Answer(_replicas(workload, values, groups, ratio, on_target), utilization, raw)


def by_object(workload: Pods, measured: int, target: int) -> Answer:
    """By one number of an object, for all pods together."""
    ratio = measured / target
    if workload.current == 0:
        return Answer(math.ceil(ratio), measured)
    if abs(1.0 - ratio) <= TOLERANCE:
        return Answer(workload.current, measured)
    if not workload.pods:
        raise NotMeasured("no pods returned by selector while calculating replica count")
    ready = sum(_phase(pod) == "Running" and meta.is_condition_true(pod, "Ready") for pod in workload.pods)
    return Answer(math.ceil(ratio * ready / workload.calibration), measured)


def by_object_per_pod(workload: Pods, measured: int, target: int) -> Answer:
    """By one number of an object, for each pod; the calibration counts twice, as upstream has it."""
    replicas = workload.current
    wanted = target * replicas
    if not wanted or abs(1.0 - measured / wanted) > TOLERANCE:
        replicas = math.ceil(measured / target / workload.calibration)
    usage = math.ceil(measured / workload.current) if workload.current else measured
    return Answer(math.ceil(replicas / workload.calibration), usage)


def _phase(pod: Object) -> str:
    phase: str = (pod.get("status") or {}).get("phase") or ""
    return phase


def _sorted_out(workload: Pods, measured: Mapping[str, int], resource: str) -> tuple[dict[str, int], _Groups]:
    """What is measured of pods that count, and the others by what is wrong with them."""
    if not workload.pods:
        raise NotMeasured("no pods returned by selector while calculating replica count")
    ready = 0
    unready, missing, ignored = set(), set(), set()
    for pod in workload.pods:
        name, phase = meta.name(pod), _phase(pod)
        if meta.is_deleting(pod) or phase == "Failed":
            ignored.add(name)
        elif phase == "Pending":
            unready.add(name)
        elif name not in measured:
            missing.add(name)
        elif resource == "cpu" and _is_starting(pod, workload.now):
            unready.add(name)
        else:
            ready += 1
    values = {name: value for name, value in measured.items() if name not in ignored and name not in unready}
    return values, _Groups(ready, frozenset(unready), frozenset(missing))


def _is_starting(pod: Object, now: float) -> bool:
    """Whether what a pod uses of processors is still that of its start."""
    condition, started = meta.condition(pod, "Ready"), (pod.get("status") or {}).get("startTime")
    if condition is None or started is None:
        return True
    began, turned = times.parse(started), times.parse(condition.get("lastTransitionTime") or started)
    if began + _STARTING_S > now:
        return condition.get("status") == "False" or now < turned
    return condition.get("status") == "False" and began + _FIRST_READY_S > turned


def _requests(pods: Sequence[Object], resource: str) -> dict[str, int]:
    found = {}
    for pod in pods:
        total = 0
        for container in (pod.get("spec") or {}).get("containers") or ():
            request = ((container.get("resources") or {}).get("requests") or {}).get(resource)
            if request is None:
                raise NotMeasured(
                    f"missing request for {resource} in container {container.get('name')} of Pod {meta.name(pod)}"
                )
            total += quantities.milli(request)
        found[meta.name(pod)] = total
    return found


def _utilization(values: Mapping[str, int], requests: Mapping[str, int]) -> tuple[int, int]:
    """Percent of requests, and the average usage."""
    known = [name for name in values if name in requests]
    used, requested = sum(values[name] for name in known), sum(requests[name] for name in known)
    if requested == 0:
        raise NotMeasured("no metrics returned matched known pods")
    return used * 100 // requested, used // len(known)


def _replicas(
    workload: Pods,
    values: Mapping[str, int],
    groups: _Groups,
    ratio_of: Callable[[Mapping[str, int]], float],
    on_target: Mapping[str, int],
) -> int:
    ratio = ratio_of(values)
    grows_with_unready = bool(groups.unready) and ratio > 1.0
    if not grows_with_unready and not groups.missing:
        if abs(1.0 - ratio) <= TOLERANCE:
            return workload.current
        return math.ceil(ratio * groups.ready / workload.calibration)
    filled = dict(values)
    if ratio < 1.0:
        filled |= on_target
    elif ratio > 1.0:
        filled |= dict.fromkeys(groups.missing, 0)
    if grows_with_unready:
        filled |= dict.fromkeys(groups.unready, 0)
    again = ratio_of(filled)
    if abs(1.0 - again) <= TOLERANCE or (ratio < 1.0 < again) or (again < 1.0 < ratio):
        return workload.current
    replicas = math.ceil(again * len(filled) / workload.calibration)
    if (again < 1.0 and replicas > workload.current) or (again > 1.0 and replicas < workload.current):
        return workload.current
    return replicas
