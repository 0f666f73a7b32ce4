"""How fast the number of replicas may follow: stabilisation windows first, then policies, then bounds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Object: TypeAlias = Mapping[str, Any]
#: Pairs of an age in seconds and a number.
Aged: TypeAlias = Sequence[tuple[float, int]]

_UP: Final[Object] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": (
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ),
}
_DOWN: Final[Object] = {
    "selectPolicy": "Max",
    "policies": ({"type": "Percent", "value": 100, "periodSeconds": 15},),
}
#: Without rules of its own a workload may double, or come to so many at once.
_AT_ONCE: Final = 4
_WITHIN: Final = "DesiredWithinRange"


@dataclass(frozen=True, slots=True)
class History:
    """What was recommended and changed before, with ages in seconds."""

    recommendations: Aged = ()
    grown: Aged = ()
    shrunk: Aged = ()


@dataclass(frozen=True, slots=True)
class Pace:
    """Replicas, why the recommendation was or was not taken (AbleToScale), and whether it was bounded and by what."""

    replicas: int
    able: str
    limited: bool
    limit: str


def pace(spec: Object, history: History, *, current: int, wanted: int, downscale_window_s: float) -> Pace:
    """Bound what metrics ask for."""
    lowest = int(spec.get("minReplicas") or 1) if spec.get("minReplicas") is not None else 1
    highest = int(spec["maxReplicas"])
    behavior = spec.get("behavior")
    if behavior is None:
        steady = max((n for age, n in history.recommendations if age <= downscale_window_s), default=wanted)
        steady = max(steady, wanted)
        able = "ScaleDownStabilized" if steady != wanted else "ReadyForNewScale"
        replicas, limit = _by_bounds(current, steady, lowest, highest)
        return Pace(replicas, able, replicas != steady, limit)
    up = {**_UP, **(behavior.get("scaleUp") or {})}
    down = {"stabilizationWindowSeconds": downscale_window_s, **_DOWN, **(behavior.get("scaleDown") or {})}
    steady = _steadied(history.recommendations, current, wanted, up, down)
    able = "ReadyForNewScale"
    if steady != wanted:
        able = "ScaleUpStabilized" if wanted >= current else "ScaleDownStabilized"
    replicas, limit = _by_rules(history, current, steady, lowest, highest, up, down)
    return Pace(replicas, able, replicas != steady, limit)


def into_bounds(current: int, lowest: int, highest: int) -> Pace:
    """The nearest number within the bounds, for replicas outside of them: no metrics are needed for that."""
    if current < lowest:
        return Pace(min(lowest, highest), "SucceededRescale", limited=True, limit="TooFewReplicas")
    return Pace(highest, "SucceededRescale", limited=True, limit="TooManyReplicas")


def _steadied(recommendations: Aged, current: int, wanted: int, up: Object, down: Object) -> int:
    """The lowest recommendation of the window to grow by, the highest to shrink by, the present number in between."""
    least = min((n for age, n in recommendations if age < up["stabilizationWindowSeconds"]), default=wanted)
    most = max((n for age, n in recommendations if age < down["stabilizationWindowSeconds"]), default=wanted)
    return min(max(current, min(least, wanted)), max(most, wanted))


def _by_bounds(current: int, wanted: int, lowest: int, highest: int) -> tuple[int, str]:
    limit = max(2 * current, _AT_ONCE)
    if wanted < lowest:
        return lowest, "TooFewReplicas"
    if highest > limit:
        return (limit, "ScaleUpLimit") if wanted > limit else (wanted, _WITHIN)
    return (highest, "TooManyReplicas") if wanted > highest else (wanted, _WITHIN)


def _by_rules(
    history: History, current: int, wanted: int, lowest: int, highest: int, up: Object, down: Object
) -> tuple[int, str]:
    if wanted > current:
        limit = max(_limit(history, current, up, grows=True), current)
        if wanted > min(limit, highest):
            return (limit, "ScaleUpLimit") if limit < highest else (highest, "TooManyReplicas")
    elif wanted < current:
        limit = min(_limit(history, current, down, grows=False), current)
        if wanted < max(limit, lowest):
            return (limit, "ScaleDownLimit") if limit > lowest else (lowest, "TooFewReplicas")
    return wanted, _WITHIN


def _limit(history: History, current: int, rules: Object, *, grows: bool) -> int:
    """How far policies let the number go, from what it was when their periods began."""
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposed = []
    for policy in rules.get("policies") or ():
        period, value = float(policy["periodSeconds"]), int(policy["value"])
        began = current - _sum(history.grown, period) + _sum(history.shrunk, period)
        if policy["type"] == "Pods":
            proposed.append(began + value if grows else began - value)
        elif grows:
            proposed.append(math.ceil(began * (1 + value / 100)))
        else:
            proposed.append(int(began * (1 - value / 100)))
    smallest_change = rules.get("selectPolicy") == "Min"
    if not proposed:
        return current
    return min(proposed) if grows == smallest_change else max(proposed)


def _sum(events: Aged, period_s: float) -> int:
    return sum(change for age, change in events if age < period_s)
