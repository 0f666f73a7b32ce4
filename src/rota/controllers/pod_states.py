"""Pod states as controllers count them, and the order in which pods are deleted on scale-down. Pure.

The order is upstream's (`ActivePodsWithRanks`, `pkg/controller/controller_utils.go`, 1.36): unscheduled, pending, not
ready, cheap to delete, co-located and young pods go first.
"""

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.api.meta import Object

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_COST: Final = re.compile(r"-?(0|[1-9][0-9]*)|[+]?[1-9][0-9]*", re.ASCII)
_INT32: Final = range(-(2**31), 2**31)
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def phase(pod: Mapping[str, Any]) -> str:
    """A pod's phase; empty if it has none yet."""
    return str((pod.get("status") or {}).get("phase") or "")


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has ended, with or without success."""
    return phase(pod) in {"Succeeded", "Failed"}


def is_active(pod: Mapping[str, Any]) -> bool:
    """Whether a pod runs or will run."""
    return not is_finished(pod) and not meta.is_deleting(pod)


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is in deletion and has not ended yet."""
    return not is_finished(pod) and meta.is_deleting(pod)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is ready."""
    return meta.is_condition_true(pod, "Ready")


def available_in_s(pod: Mapping[str, Any], *, min_ready_s: int, now: float) -> float | None:
    """Seconds until a ready pod is available, 0.0 if it is; None if it is not ready."""
    if not is_ready(pod):
        return None
    if min_ready_s == 0:
        return 0.0
    since = _ready_since(pod)
    return None if since is None else max(since + min_ready_s - now, 0.0)


def deletion_cost(pod: Mapping[str, Any]) -> int:
    """The annotation with a pod's deletion cost; 0 if it is missing or invalid."""
    text = meta.annotations(pod).get(DELETION_COST, "")
    cost = int(text) if _COST.fullmatch(text) else 0
    return cost if cost in _INT32 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worth:
    """The deletion rank of a pod."""

    #: Scheduled, phase, ready, deletion cost, fewer related pods on its node; in this order.
    merits: tuple[int, ...]
    ready_since: float | None
    #: The most restarts of a container, and of a sidecar.
    restarts: tuple[int, int]
    created: float | None
    uid: str


def deletion_order(
    pods: Sequence[Object], count: int, *, related: Iterable[Mapping[str, Any]], now: float
) -> list[Object]:
    """The first `count` pods in deletion order; `related` are the pods that count as co-located."""
    if count <= 0 or count >= len(pods):
        return list(pods) if count > 0 else []
    neighbours = Counter(_node(one) for one in related if is_active(one))
    worth = {meta.uid(one): _worth(one, neighbours[_node(one)]) for one in pods}

    def compare(one: Object, other: Object) -> int:
        return _compare(worth[meta.uid(one)], worth[meta.uid(other)], now=now)

    return sorted(pods, key=functools.cmp_to_key(compare))[:count]


def _worth(pod: Object, neighbours: int) -> _Worth:
    ready, known_phase = is_ready(pod), _PHASES.get(phase(pod), 0)
    return _Worth(
        merits=(int(bool(_node(pod))), known_phase, int(ready), deletion_cost(pod), -neighbours),
        ready_since=_ready_since(pod) if ready else None,
        restarts=_restarts(pod),
        created=_created(pod),
        uid=meta.uid(pod),
    )


def _compare(one: _Worth, other: _Worth, *, now: float) -> int:
    """Below zero if the first pod is deleted first."""
    if one.merits != other.merits:
        return -1 if one.merits < other.merits else 1
    by_age = functools.partial(_compare_ages, uids=(one.uid, other.uid), now=now)
    if one.ready_since != other.ready_since:
        return by_age(one.ready_since, other.ready_since)
    if one.restarts != other.restarts:
        return -1 if one.restarts > other.restarts else 1
    return by_age(one.created, other.created)


def _compare_ages(mine: float | None, theirs: float | None, *, uids: tuple[str, str], now: float) -> int:
    """The younger pod is deleted first; ages of the same order of magnitude are ordered by uid, which is random."""
    if mine is None or theirs is None:
        return int(mine is not None) - int(theirs is not None)
    magnitudes = _magnitude(now - mine), _magnitude(now - theirs)
    if magnitudes[0] != magnitudes[1]:
        return -1 if magnitudes[0] < magnitudes[1] else 1
    return -1 if uids[0] < uids[1] else 1


def _magnitude(age_s: float) -> int:
    return int(math.log2(age_s * 1e9)) if age_s > 0 else -1


def _restarts(pod: Object) -> tuple[int, int]:
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    own = [one.get("restartCount", 0) for one in status.get("containerStatuses") or ()]
    beside = [
        one.get("restartCount", 0) for one in status.get("initContainerStatuses") or () if one.get("name") in sidecars
    ]
    return max(own, default=0), max(beside, default=0)


def _ready_since(pod: Mapping[str, Any]) -> float | None:
    since = (meta.condition(pod, "Ready") or {}).get("lastTransitionTime")
    return times.parse(since) if since else None


def _created(pod: Mapping[str, Any]) -> float | None:
    at = meta.metadata(pod).get("creationTimestamp")
    return times.parse(at) if at else None


def _node(pod: Mapping[str, Any]) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
