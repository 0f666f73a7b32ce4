"""How fast a number of pods may follow what metrics ask for. Pure.

First the recommendation is steadied: the lowest of those of the window counts for more pods, the highest for fewer.
Then policies bound the change, by what has changed in their periods already, and then the autoscaler's own bounds.
Upstream's rules and words (`pkg/controller/podautoscaler`, 1.36), with and without `behavior`.
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
#: Without `behavior`: as many as there are come at once, or so many.
_AT_ONCE: Final = 4
#: The longest period or window that can be asked for.
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
    """What an autoscaler remembers: what it recommended, and what it has changed."""

    recommendations: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def forget(self, now: float) -> None:
        """Drop what no rule can ask for any more."""
        self.recommendations = [one for one in self.recommendations if one[0] > now - _MEMORY_S]
        self.changes = [one for one in self.changes if one[0] > now - _MEMORY_S]


@dataclass(frozen=True, slots=True)
class Decision:
    """How many pods there will be, and why not more or fewer: status, reason and message of two conditions."""

    replicas: int
    able: tuple[str, str, str]
    limited: tuple[str, str, str]


def decide(spec: Mapping[str, Any], memory: Memory, *, current: int, wanted: int, now: float) -> Decision:
    """Bound what is wanted; it is remembered as recommended."""
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
        # as before there were rules: what was recommended lately is made up for, even if that is more than there are
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
    """By how much the number has changed."""
    return sum(change for at, change in changes if at > since)


def _window(spec: Mapping[str, Any], direction: str, usual: int) -> int:
    rules = (spec.get("behavior") or {}).get(direction) or {}
    window = rules.get("stabilizationWindowSeconds")
    return usual if window is None else int(window)
