"""How many pods a metric asks for. Pure.

The measure is usage over what was aimed at; near enough to 1 nothing changes. Pods that are not ready, or of which
nothing is known, are reckoned so that they never make a change larger: as using nothing where there would be more pods,
and all they asked for where there would be fewer. Upstream's rules (`pkg/controller/podautoscaler`, 1.36).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import meta, quantities, times
from rota.api.meta import Object
from rota.controllers import pod_states

TOLERANCE: Final = 0.1
#: For so long after its start a pod's use of processors is that of its start.
_STARTING_S: Final = 300.0
#: A pod that was never ready for so long after its start is taken for one that starts.
_FIRST_READY_S: Final = 30.0


_Ratio: TypeAlias = Callable[[Mapping[str, int]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a pod uses, in thousandths."""

    amount: int
    at: float
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """How many pods there should be by one metric."""

    replicas: int
    #: The metric, in words.
    name: str
    #: What to say of the metric in the status.
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why a metric asks for nothing."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerances:
    """By how much usage may be off before pods come, or go."""

    up: float = TOLERANCE
    down: float = TOLERANCE

    def allow(self, ratio: float) -> bool:
        """Whether nothing has to change."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class _Groups:
    """Pods by what their measures are worth."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def source(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a metric's description that its type names."""
    kind = str(metric.get("type", ""))
    return metric.get(kind[:1].lower() + kind[1:]) or {}


def propose(
    metric: Mapping[str, Any],
    pods: Sequence[Object],
    measured: Mapping[str, Measured],
    *,
    current: int,
    tolerances: Tolerances,
    now: float,
) -> Proposal | Unknown:
    """What a metric of the types Resource and ContainerResource asks for; `measured` by the pods' names."""
    described, failed = source(metric), f"FailedGet{metric.get('type', '')}Metric"
    resource, container = str(described["name"]), str(described.get("container") or "")
    if not pods:
        return Unknown(failed, "no pods returned by selector while calculating replica count")
    groups = _group(pods, measured, resource=resource, now=now)
    amounts = {
        name: one.amount for name, one in measured.items() if name not in groups.unready and name not in groups.ignored
    }
    if not amounts:
        return Unknown(failed, f"did not receive metrics for targeted pods for resource {resource}")
    target = described.get("target") or {}
    if target.get("averageUtilization") is not None:
        requests = _requests(pods, resource, container)
        if isinstance(requests, str):
            return Unknown(failed, requests)
        goal, fallback = int(target["averageUtilization"]), max(100, int(target["averageUtilization"]))
        full = {name: request * fallback // 100 for name, request in requests.items()}
        utilization = _utilization(amounts, requests)
        if utilization is None:
            return Unknown(failed, "no metrics returned matched known pods")

        def ratio(of: Mapping[str, int]) -> float:
            return (_utilization(of, requests) or 0) / goal

        said: dict[str, Any] = {"averageUtilization": utilization}
        name = f"{resource} resource utilization (percentage of request)"
    else:
        each = quantities.milli(target.get("averageValue"))
        full = {meta.name(one): each for one in pods}

        def ratio(of: Mapping[str, int]) -> float:
            return (sum(of.values()) // len(of)) / each

        said, name = {}, f"{resource} resource"
    average = quantities.from_milli(sum(amounts.values()) // len(amounts))
    shown = {"name": resource, "current": {**said, "averageValue": str(average)}}
    if container:
        shown["container"] = container
        name = name.replace(" resource", " container resource", 1)
    kind = str(metric["type"])
    replicas = _replicas(amounts, groups, full, ratio, current=current, tolerances=tolerances)
    return Proposal(replicas=replicas, name=name, status={"type": kind, kind[0].lower() + kind[1:]: shown})


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
    """Whether what a pod uses says little about what it will use."""
    condition, began = meta.condition(pod, "Ready"), (pod.get("status") or {}).get("startTime")
    if condition is None or not began:
        return True
    started, since = times.parse(began), times.parse(condition["lastTransitionTime"])
    if started + _STARTING_S > now:
        return condition.get("status") == "False" or one.at < since + one.window_s
    return condition.get("status") == "False" and started + _FIRST_READY_S > since


def _requests(pods: Sequence[Object], resource: str, container: str) -> dict[str, int] | str:
    """What each pod (or its one container) asked for, in thousandths; or what is missing, in words."""
    found: dict[str, int] = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        beside = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
        total = 0
        for one in (*(spec.get("containers") or ()), *beside):
            if container and one["name"] != container:
                continue
            request = ((one.get("resources") or {}).get("requests") or {}).get(resource)
            if request is None:
                return f"missing request for {resource} in container {one['name']} of Pod {meta.name(pod)}"
            total += quantities.milli(request)
        found[meta.name(pod)] = total
    return found


def _utilization(amounts: Mapping[str, int], requests: Mapping[str, int]) -> int | None:
    known = amounts.keys() & requests.keys()
    asked = sum(requests[name] for name in known)
    return sum(amounts[name] for name in known) * 100 // asked if asked else None
