"""Conditions of one object in several clusters as one list.

A condition that is good when true is true where it is true everywhere; one that is bad when true is true where it is
true anywhere. What no cluster reports is not in the list.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Object: TypeAlias = Mapping[str, Any]

#: Condition types that are bad when true.
BAD: Final = frozenset({"Degraded", "Failed", "Failure", "ReplicaFailure", "Stalled", "Terminating", "Suspended"})
_WORST_FIRST: Final = ("False", "Unknown", "True")


def merged(items: Sequence[Object], now: str) -> list[dict[str, Any]]:
    """The conditions of all items of an aggregated status, by type in the order of their first appearance."""
    by_type: dict[str, list[tuple[str, Object]]] = {}
    for item in items:
        for one in (item.get("status") or {}).get("conditions") or ():
            if isinstance(one, Mapping) and one.get("type"):
                by_type.setdefault(one["type"], []).append((item.get("clusterName") or "", one))
    return [_one(kind, found, now) for kind, found in by_type.items()]


def _one(kind: str, found: Sequence[tuple[str, Object]], now: str) -> dict[str, Any]:
    order = _WORST_FIRST if kind not in BAD else tuple(reversed(_WORST_FIRST))
    status = next((status for status in order if any(_status(one) == status for _, one in found)), "Unknown")
    like = [(cluster, one) for cluster, one in found if _status(one) == status]
    times = [one["lastTransitionTime"] for _, one in like if one.get("lastTransitionTime")]
    return {
        "type": kind,
        "status": status,
        "reason": next((one["reason"] for _, one in like if one.get("reason")), "Merged"),
        "message": _message(like),
        "lastTransitionTime": max(times) if times else now,
    }


def _status(condition: Object) -> str:
    return str(condition.get("status") or "Unknown")


def _message(like: Iterable[tuple[str, Object]]) -> str:
    """Each message once, with the clusters that report it."""
    said: dict[str, list[str]] = {}
    for cluster, one in like:
        said.setdefault(one.get("message") or "", []).append(cluster)
    return "; ".join(
        f"{', '.join(clusters)}: {message}" if message else ", ".join(clusters) for message, clusters in said.items()
    )
