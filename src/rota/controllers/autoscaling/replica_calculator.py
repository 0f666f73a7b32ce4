"""Calculates the number of pods that a metric calls for. Pure.

The ratio is usage over target; within the tolerance nothing changes. Pods that are not ready or have no reading are
counted so that they never enlarge a change: with zero usage when scaling up, with their full request when scaling down.
An object metric or external metric is one number, for all pods together or per pod. Rules and messages are upstream's
(`pkg/controller/podautoscaler`, 1.36).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import meta, quantities, resources, times
from rota.api.meta import Object
from rota.api.quantities import Format
from rota.controllers import pod_states
from rota.controllers.autoscaling import condition_messages

TOLERANCE: Final = 0.1
#: For this long after its start, a pod's CPU usage counts as startup usage.
_STARTING_S: Final = 300.0
#: For this long after its start, a pod that was never ready counts as starting.
_FIRST_READY_S: Final = 30.0
_MOST: Final = 2**31 - 1


_Ratio: TypeAlias = Callable[[Mapping[str, int]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Usage of one pod, in thousandths."""

    amount: int
    at: float
    window_s: float


#: Readings by pod name, or one number in thousandths, or the reason why there are none.
Reading: TypeAlias = Mapping[str, Measured] | int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The workload that is scaled: its pods, its desired size and its current size."""

    namespace: str
    pods: Sequence[Object]
    wanted: int
    present: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The number of pods that one metric calls for."""

    replicas: int
    #: The metric's name in messages.
    name: str
    #: The metric's entry in the status.
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why a metric proposes no size."""

    reason: str
    message: str
    #: The same message where the autoscaler has several metrics.
    among_others: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerances:
    """Deviations from the target that cause no scaling, up and down."""

    up: float = TOLERANCE
    down: float = TOLERANCE

    def allow(self, ratio: float) -> bool:
        """Whether a ratio is within the tolerance."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class _Groups:
    """Pods by whether their readings count."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Sum:
    """The result of a calculation: number of pods, and the values for the status."""

    replicas: int
    shown: Mapping[str, Any]


def propose(
    metric: Mapping[str, Any], reading: Reading, target: Target, *, tolerances: Tolerances, now: float
) -> Proposal | Unknown:
    """The number of pods that a metric calls for, from its reading."""
    kind, described = str(metric.get("type", "")), condition_messages.source(metric)
    if kind in {"Resource", "ContainerResource"}:
        found = _by_resource(described, reading, target, tolerances=tolerances, now=now)
    elif kind == "Pods":
        found = _by_pods(described, reading, target, tolerances=tolerances, now=now)
    elif kind == "Object":
        found = _by_object(described, reading, target, tolerances=tolerances)
    elif kind == "External":
        found = _by_number(described, reading, target, tolerances=tolerances)
    else:
        why = f'unknown metric source type "{kind}"'
        return Unknown("InvalidMetricSourceType", why, why)
    if isinstance(found, str):
        message = condition_messages.failure(metric, found)
        return Unknown(f"FailedGet{kind}Metric", message, condition_messages.among_others(metric, message))
    status = {
        "type": kind,
        condition_messages.field(metric): {**condition_messages.identity(metric), "current": dict(found.shown)},
    }
    return Proposal(replicas=min(found.replicas, _MOST), name=condition_messages.name(metric), status=status)


def _by_resource(
    described: Mapping[str, Any], reading: Reading, target: Target, *, tolerances: Tolerances, now: float
) -> _Sum | str:
    resource, container = str(described["name"]), str(described.get("container") or "")
    sorted_out = _sorted_out(reading, target, resource=resource, now=now)
    if isinstance(sorted_out, str):
        return sorted_out
    amounts, groups = sorted_out
    goals = described.get("target") or {}
    notation = Format.BINARY_SI if resource == "memory" else Format.DECIMAL_SI
    if goals.get("averageValue") is not None:
        return _for_each(amounts, groups, quantities.milli(goals["averageValue"]), target, tolerances, notation)
    if goals.get("averageUtilization") is None:
        return (
            "invalid resource metric source: neither an average utilization target "
            "nor an average value (usage) target was set"
        )
    requests = _requests(target.pods, resource, container)
    if isinstance(requests, str):
        return requests
    goal = int(goals["averageUtilization"])
    full = {name: request * max(100, goal) // 100 for name, request in requests.items()}
    utilization = _utilization(amounts, requests)
    if utilization is None:
        return "no metrics returned matched known pods"

    def ratio(of: Mapping[str, int]) -> float:
        return (_utilization(of, requests) or 0) / goal

    known = [amount for name, amount in amounts.items() if name in requests]
    average = quantities.from_milli(sum(known) // len(known), notation)
    replicas = _replicas(amounts, groups, full, ratio, current=target.wanted, tolerances=tolerances)
    return _Sum(replicas, {"averageUtilization": utilization, "averageValue": str(average)})


def _by_pods(
    described: Mapping[str, Any], reading: Reading, target: Target, *, tolerances: Tolerances, now: float
) -> _Sum | str:
    sorted_out = _sorted_out(reading, target, resource="", now=now)
    if isinstance(sorted_out, str):
        return sorted_out
    goal = _target(described, "averageValue")
    return _for_each(*sorted_out, goal, target, tolerances, Format.DECIMAL_SI)


def _by_object(described: Mapping[str, Any], reading: Reading, target: Target, *, tolerances: Tolerances) -> _Sum | str:
    goals = described.get("target") or {}
    kind = {"Value": "value", "AverageValue": "averageValue"}.get(str(goals.get("type")), "")
    if not kind or goals.get(kind) is None:
        return "invalid object metric source: neither a value target nor an average value target was set"
    return _by_number({**described, "target": {kind: goals[kind]}}, reading, target, tolerances=tolerances)


def _by_number(described: Mapping[str, Any], reading: Reading, target: Target, *, tolerances: Tolerances) -> _Sum | str:
    """From one number: an average over the current pods, or a total."""
    if not isinstance(reading, int):
        return reading if isinstance(reading, str) else "no single number was measured"
    each, whole = _target(described, "averageValue"), _target(described, "value")
    if each:
        off = not target.present or not tolerances.allow(reading / (each * target.present))
        replicas = math.ceil(reading / each) if off else target.present
        average = math.ceil(reading / target.present) if target.present else reading
        return _Sum(replicas, {"averageValue": str(quantities.from_milli(average))})
    if not whole:
        return "invalid external metric source: neither a value target nor an average value target was set"
    ratio, shown = reading / whole, {"value": str(quantities.from_milli(reading))}
    if not target.wanted:
        return _Sum(math.ceil(ratio), shown)
    if tolerances.allow(ratio):
        return _Sum(target.wanted, shown)
    if not target.pods:
        return "unable to calculate ready pods: no pods returned by selector while calculating replica count"
    ready = sum(pod_states.phase(pod) == "Running" and meta.is_condition_true(pod, "Ready") for pod in target.pods)
    return _Sum(math.ceil(ratio * ready), shown)


def _sorted_out(reading: Reading, target: Target, *, resource: str, now: float) -> tuple[dict[str, int], _Groups] | str:
    """Usage of the pods that count, and which pods are ignored or have no reading."""
    if not isinstance(reading, Mapping):
        return reading if isinstance(reading, str) else "no pod was measured"
    if not target.pods:
        return "no pods returned by selector while calculating replica count"
    groups = _group(target.pods, reading, resource=resource, now=now)
    amounts = {
        name: one.amount for name, one in reading.items() if name not in groups.unready and name not in groups.ignored
    }
    return (amounts, groups) if amounts else "did not receive metrics for targeted pods (pods might be unready)"


def _for_each(
    amounts: Mapping[str, int], groups: _Groups, goal: int, target: Target, tolerances: Tolerances, notation: Format
) -> _Sum:
    """From a target per pod."""

    def ratio(of: Mapping[str, int]) -> float:
        return (sum(of.values()) // len(of)) / goal

    full = {meta.name(one): goal for one in target.pods}
    average = quantities.from_milli(sum(amounts.values()) // len(amounts), notation)
    replicas = _replicas(amounts, groups, full, ratio, current=target.wanted, tolerances=tolerances)
    return _Sum(replicas, {"averageValue": str(average)})


def _replicas(
    amounts: Mapping[str, int],
    groups: _Groups,
    full: Mapping[str, int],
    ratio: _Ratio,
    *,
    current: int,
    tolerances: Tolerances,
) -> int:
    first = ratio(amounts)
    with_unready = bool(groups.unready) and first > 1.0
    if not with_unready and not groups.missing:
        return current if tolerances.allow(first) else math.ceil(first * groups.ready)
    reckoned = dict(amounts)
    if first < 1.0:
        reckoned |= {name: full[name] for name in groups.missing}
    elif first > 1.0:
        reckoned |= dict.fromkeys(groups.missing, 0)
    if with_unready:
        reckoned |= dict.fromkeys(groups.unready, 0)
    second = ratio(reckoned)
    if tolerances.allow(second) or (first < 1.0 < second) or (second < 1.0 < first):
        return current
    wanted = math.ceil(second * len(reckoned))
    turned = (second < 1.0 and wanted > current) or (second > 1.0 and wanted < current)
    return current if turned else wanted


def _group(pods: Sequence[Object], measured: Mapping[str, Measured], *, resource: str, now: float) -> _Groups:
    ready, unready, missing, ignored = 0, set[str](), set[str](), set[str]()
    for pod in pods:
        name = meta.name(pod)
        if meta.is_deleting(pod) or pod_states.phase(pod) == "Failed":
            ignored.add(name)
        elif pod_states.phase(pod) == "Pending":
            unready.add(name)
        elif name not in measured:
            missing.add(name)
        elif resource == "cpu" and _is_starting(pod, measured[name], now=now):
            unready.add(name)
        else:
            ready += 1
    return _Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_starting(pod: Object, one: Measured, *, now: float) -> bool:
    """Whether a pod is starting, so that its usage does not predict later usage."""
    condition, began = meta.condition(pod, "Ready"), (pod.get("status") or {}).get("startTime")
    if condition is None or not began:
        return True
    started, since = times.parse(began), times.parse(condition["lastTransitionTime"])
    if started + _STARTING_S > now:
        return condition.get("status") == "False" or one.at < since + one.window_s
    return condition.get("status") == "False" and started + _FIRST_READY_S > since


def _requests(pods: Sequence[Object], resource: str, container: str) -> dict[str, int] | str:
    """Requests of each pod (or of one container) in thousandths, or the message for a missing request."""
    found: dict[str, int] = {}
    for pod in pods:
        asked = (
            _of_whole_pod(pod, resource)
            if not container and resources.has_pod_level_requests(pod)
            else _of_containers(pod, resource, container)
        )
        if isinstance(asked, str):
            return asked
        found[meta.name(pod)] = asked
    return found


def _of_whole_pod(pod: Object, resource: str) -> int | str:
    asked = resources.pod_requests(pod).get(resource)
    if asked is None:
        return f"missing pod-level request for {resource} in Pod {meta.name(pod)}"
    return asked if resource == "cpu" else asked * 1000


def _of_containers(pod: Object, resource: str, container: str) -> int | str:
    spec = pod.get("spec") or {}
    beside = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    chosen = [one for one in (*(spec.get("containers") or ()), *beside) if container in {"", one["name"]}]
    if container and not chosen:
        return f"container {container} not found in Pod {meta.name(pod)}"
    total = 0
    for one in chosen:
        request = ((one.get("resources") or {}).get("requests") or {}).get(resource)
        if request is None:
            return f"missing request for {resource} in container {one['name']} of Pod {meta.name(pod)}"
        total += quantities.milli(request)
    return total


def _utilization(amounts: Mapping[str, int], requests: Mapping[str, int]) -> int | None:
    known = amounts.keys() & requests.keys()
    asked = sum(requests[name] for name in known)
    return sum(amounts[name] for name in known) * 100 // asked if asked else None


def _target(described: Mapping[str, Any], name: str) -> int:
    """The target in thousandths; 0 if the target is of another type."""
    return quantities.milli((described.get("target") or {}).get(name))
