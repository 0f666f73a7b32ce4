"""Limits how fast an autoscaler may change the number of pods. Pure.

First the recommendation is stabilized: within the window, the lowest recommendation counts for scaling up and the
highest for scaling down. Then scaling policies bound the change by what has changed in their periods already. Last come
`minReplicas` and `maxReplicas`. Rules and messages are upstream's (`pkg/controller/podautoscaler`, 1.36), with and
without `behavior`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

_Policies: TypeAlias = tuple[Mapping[str, Any], ...]

_DOWN_WINDOW_S: Final = 300
_USUAL_UP: Final[_Policies] = (
    {"type": "Percent", "value": 100, "periodSeconds": 15},
    {"type": "Pods", "value": 4, "periodSeconds": 15},
)
_USUAL_DOWN: Final[_Policies] = ({"type": "Percent", "value": 100, "periodSeconds": 15},)
#: Without `behavior`, one step may at most double the pods, or reach this many.
_AT_ONCE: Final = 4
#: The longest period or window that the API accepts.
_MEMORY_S: Final = 3600

WITHIN: Final = ("False", "DesiredWithinRange", "the desired count is within the acceptable range")
TOO_MANY: Final = ("True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")
TOO_FEW: Final = ("True", "TooFewReplicas", "the desired replica count is less than the minimum replica count")
TOO_FAST: Final = (
    "True",
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
TOO_SOON: Final = (
    "True",
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
READY: Final = ("True", "ReadyForNewScale", "recommended size matches current size")
HELD_UP: Final = (
    "True",
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
HELD_DOWN: Final = (
    "True",
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)


@dataclass(slots=True)
class Memory:
    """The recommendations and changes that an autoscaler remembers."""

    recommendations: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def forget(self, now: float) -> None:
        """Drop entries that are older than every window and period."""
        self.recommendations = [one for one in self.recommendations if one[0] > now - _MEMORY_S]
        self.changes = [one for one in self.changes if one[0] > now - _MEMORY_S]


@dataclass(frozen=True, slots=True)
class Decision:
    """The new number of pods, and the conditions AbleToScale and ScalingLimited: status, reason and message of each."""

    replicas: int
    able: tuple[str, str, str]
    limited: tuple[str, str, str]


def decide(spec: Mapping[str, Any], memory: Memory, *, current: int, wanted: int, now: float) -> Decision:
    """Bound the proposed number of pods, and remember it as a recommendation."""
    memory.recommendations.append((now, wanted))
    steadied, able = _steadied(spec, memory, current=current, wanted=wanted, now=now)
    replicas, limited = _bounded(spec, memory, current=current, wanted=steadied, now=now)
    return Decision(replicas, able, limited)


def _steadied(
    spec: Mapping[str, Any], memory: Memory, *, current: int, wanted: int, now: float
) -> tuple[int, tuple[str, str, str]]:
    up_s, down_s = _window(spec, "scaleUp", 0), _window(spec, "scaleDown", _DOWN_WINDOW_S)
    lowest = min((count for at, count in memory.recommendations if at > now - up_s), default=wanted)
    highest = max((count for at, count in memory.recommendations if at > now - down_s), default=wanted)
    if spec.get("behavior") is None:
        # without behavior: the highest recent recommendation counts, even if it is above the present size
        steadied = max(highest, wanted)
    else:
        steadied = min(max(current, min(lowest, wanted)), max(highest, wanted))
    if steadied > wanted:
        return steadied, HELD_UP
    return steadied, HELD_DOWN if steadied < wanted else READY


def _bounded(
    spec: Mapping[str, Any], memory: Memory, *, current: int, wanted: int, now: float
) -> tuple[int, tuple[str, str, str]]:
    lowest, highest = int(spec.get("minReplicas") or 1), int(spec["maxReplicas"])
    if wanted > current:
        limit = _most(spec, memory.changes, current=current, now=now)
        if wanted > min(limit, highest):
            return min(limit, highest), TOO_FAST if limit < highest else TOO_MANY
    elif wanted < current:
        limit = _least(spec, memory.changes, current=current, now=now)
        if wanted < max(limit, lowest):
            return max(limit, lowest), TOO_SOON if limit > lowest else TOO_FEW
    if wanted > highest:
        return highest, TOO_MANY
    return (lowest, TOO_FEW) if wanted < lowest else (wanted, WITHIN)


def _most(spec: Mapping[str, Any], changes: Iterable[tuple[float, int]], *, current: int, now: float) -> int:
    behavior = spec.get("behavior")
    if behavior is None:
        return max(2 * current, _AT_ONCE)
    rules = behavior.get("scaleUp") or {}
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposed: list[int] = []
    for policy in rules.get("policies") or _USUAL_UP:
        began = current - _net(changes, now - policy["periodSeconds"])
        share = policy["type"] == "Percent"
        proposed.append(math.ceil(began * (100 + policy["value"]) / 100) if share else began + policy["value"])
    return max((min if rules.get("selectPolicy") == "Min" else max)(proposed), current)


def _least(spec: Mapping[str, Any], changes: Iterable[tuple[float, int]], *, current: int, now: float) -> int:
    behavior = spec.get("behavior")
    if behavior is None:
        return 0
    rules = behavior.get("scaleDown") or {}
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposed: list[int] = []
    for policy in rules.get("policies") or _USUAL_DOWN:
        began = current - _net(changes, now - policy["periodSeconds"])
        share = policy["type"] == "Percent"
        proposed.append(int(began * (100 - policy["value"]) / 100) if share else began - policy["value"])
    return min((max if rules.get("selectPolicy") == "Min" else min)(proposed), current)


def _net(changes: Iterable[tuple[float, int]], since: float) -> int:
    """The net change of the number of pods."""
    return sum(change for at, change in changes if at > since)


def _window(spec: Mapping[str, Any], direction: str, usual: int) -> int:
    rules = (spec.get("behavior") or {}).get(direction) or {}
    window = rules.get("stabilizationWindowSeconds")
    return usual if window is None else int(window)
