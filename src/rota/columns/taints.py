"""Taints and tolerations: which taints refuse a pod.

Sets of taints are interned, and there are few distinct ones, so a pod's tolerations are matched once per set.
"""

from collections.abc import Iterable

from rota.columns import objects

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"

Taints = tuple[objects.Taint, ...]
Tolerations = tuple[objects.Toleration, ...]


def tolerates(toleration: objects.Toleration, taint: objects.Taint) -> bool:
    """Whether one toleration tolerates one taint. The numeric operators are an alpha feature upstream, and off."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {None, "", "Equal"} and (toleration.value or "") == (taint.value or "")


def tolerated(tolerations: Iterable[objects.Toleration], taint: objects.Taint) -> bool:
    """Whether any toleration tolerates the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def repelled(tolerations: Tolerations, taints: Taints) -> bool:
    """Whether some NoSchedule or NoExecute taint is not tolerated."""
    return any(taint.effect in {NO_SCHEDULE, NO_EXECUTE} and not tolerated(tolerations, taint) for taint in taints)


def disliked(tolerations: Tolerations, taints: Taints) -> int:
    """How many PreferNoSchedule taints are not tolerated."""
    return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerated(tolerations, taint) for taint in taints)


def against_scheduling(tolerations: Tolerations) -> Tolerations:
    """The tolerations that apply to PreferNoSchedule taints."""
    return tuple(each for each in tolerations if each.effect in {None, "", PREFER_NO_SCHEDULE})
