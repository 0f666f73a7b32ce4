"""Which running pods of a workload should get their recommended resources now. Pure.

The rules are VPA's. A pod is due if a request is outside the recommended bounds, or if it has run for half a day and
its requests differ from the target by a tenth. Pods that need more come first. A workload keeps at least half of its
pods, and a workload with fewer pods than `minReplicas` (2 if not set) is left alone. Disruption budgets come on top:
they are the API server's.

A pod that is evicted must come back with other requests, or it would be evicted again and again. So a pod that came
after an eviction and does not carry the mark of the webhook stops the updates of its workload. If no replacement comes,
for example because a quota refuses it, the pods that are left would be the base of the next half. So a workload waits
for its replacements, at most half a day: it may have been made smaller.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.forecaster import recommended_pods
from rota.forecaster.recommended_pods import IN_PLACE, RECREATE, Wanted

Object = Mapping[str, Any]

#: The annotation of pods that the webhook has seen; VPA's.
MARK: Final = "vpaObservedContainers"
MIN_REPLICAS: Final = 2
#: The part of a workload's pods that may be missing at a time.
TOLERANCE: Final = 0.5
#: A change below this part is not worth an eviction, and a pod younger than this is not moved for it.
SIGNIFICANT: Final = 0.10
LONG_S: Final = 12 * 3600.0
#: A resize that waits for longer than this will not come.
DEFERRED_S: Final = 300.0
#: The condition of an autoscaler that keeps its last evictions over restarts.
EVICTED: Final = "PodsEvicted"
_EVICTED: Final = re.compile(r"(?P<count>\d+) pods at (?P<at>\S+) by generation (?P<generation>\d+)")
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Update:
    """A pod to update, and whether its node may do so without a restart."""

    pod: Object
    changes: Wanted
    in_place: bool


@dataclass(frozen=True, slots=True)
class Evictions:
    """The last evictions of a workload."""

    at_s: float
    count: int
    #: The uids of the pods that were there before.
    known: frozenset[str]


@dataclass(frozen=True, slots=True)
class Decision:
    """The updates of one turn, or why there are none."""

    updates: Sequence[Update] = ()
    #: A pod came after an eviction, and the webhook was not asked about it.
    unreached: bool = False


def evicted_condition(autoscaler: Object, count: int, began_s: float) -> dict[str, str]:
    """The condition that remembers evictions; `began_s` is the time of the first one."""
    message = f"{count} pods at {times.format_time(began_s)} by generation {generation(autoscaler)}"
    return {"type": EVICTED, "status": "True", "reason": "RecommendationApplied", "message": message}


def remembered(autoscaler: Object, pods: Iterable[Object], *, now_s: float) -> Evictions | None:
    """The last evictions by this generation, which a former process may have made; pods are those of the namespace.

    Times have whole seconds. A pod of the same second counts as a replacement: otherwise one that came at once would be
    waited for. Evictions of more than half a day ago say nothing about pods that came without the mark: the webhook,
    which is a part of this process, is not asked while the process starts again.
    """
    said = _EVICTED.fullmatch(str((meta.condition(autoscaler, EVICTED) or {}).get("message") or ""))
    if said is None or int(said["generation"]) != generation(autoscaler):
        return None
    try:
        at_s = times.parse(said["at"])
    except ValueError:
        return None
    if now_s - at_s >= LONG_S:
        return None
    there = (pod for pod in pods if recommended_pods.names(autoscaler, pod))
    known = frozenset(meta.uid(pod) for pod in there if _created_s(pod) < at_s)
    return Evictions(at_s, int(said["count"]), known)


def generation(autoscaler: Object) -> int:
    """The generation of an autoscaler's spec."""
    return int(meta.metadata(autoscaler).get("generation") or 0)


def _created_s(pod: Object) -> float:
    created = meta.metadata(pod).get("creationTimestamp")
    return times.parse(created) if created else 0.0


def decide(
    autoscaler: Object,
    pods: Iterable[Object],
    ranges: Iterable[Object],
    *,
    now_s: float,
    evictions: Evictions | None = None,
) -> Decision:
    """The pods of one workload to update now; `pods` and `ranges` are those of its namespace."""
    chosen = recommended_pods.mode(autoscaler)
    if chosen not in RECREATE and chosen != IN_PLACE:
        return Decision()
    there = [pod for pod in pods if _phase(pod) not in _ENDED and recommended_pods.names(autoscaler, pod)]
    ranges = list(ranges)
    changes = {meta.uid(pod): recommended_pods.wanted(autoscaler, pod, ranges) for pod in there}
    if evictions is not None:
        new = [pod for pod in there if meta.uid(pod) not in evictions.known]
        if any(MARK not in meta.annotations(pod) for pod in new):
            return Decision(unreached=True)
        if len(new) < evictions.count and now_s - evictions.at_s < LONG_S:
            return Decision()
    least = ((autoscaler.get("spec") or {}).get("updatePolicy") or {}).get("minReplicas") or MIN_REPLICAS
    available = [pod for pod in there if meta.is_condition_true(pod, "Ready") and not meta.is_deleting(pod)]
    if len(there) < least:
        return Decision()
    places = max(int(len(there) * TOLERANCE), 1) - (len(there) - len(available))
    due = []
    for pod in available:
        wanted = changes[meta.uid(pod)]
        if not wanted or _waits_for_resize(pod, now_s):
            continue
        rank = _rank(autoscaler, pod, wanted, now_s)
        if rank is not None and _meets_requirements(autoscaler, pod):
            due.append(
                (rank, meta.name(pod), Update(pod, wanted, chosen == IN_PLACE and not _resize_failed(pod, now_s)))
            )
    due.sort(key=lambda each: each[:2])
    return Decision([update for _, _, update in due][: max(places, 0)])


def _rank(autoscaler: Object, pod: Object, wanted: Wanted, now_s: float) -> tuple[bool, float] | None:
    """The order of a pod that is due: those that need more first, then by the difference; None if it is not due."""
    lower, upper = (recommended_pods.recommendations(autoscaler, bound) for bound in ("lowerBound", "upperBound"))
    outside = grows = False
    difference = 0.0
    for container in (pod.get("spec") or {}).get("containers") or ():
        for resource, amount in wanted.get(container["name"], {}).items():
            request = recommended_pods.present(container, resource).request
            low = lower.get(container["name"], {}).get(resource)
            high = upper.get(container["name"], {}).get(resource)
            outside |= (low is not None and request < low) or (high is not None and request > high)
            grows |= amount.request > request
            difference += abs(amount.request - request) / max(request, 1)
    started = (pod.get("status") or {}).get("startTime")
    is_old = started is not None and now_s - times.parse(started) >= LONG_S
    if not outside and not (is_old and difference >= SIGNIFICANT):
        return None
    return not grows, -difference


def _meets_requirements(autoscaler: Object, pod: Object) -> bool:
    """Whether a pod meets every evictionRequirement: one of its resources changes in the required direction."""
    policy = (autoscaler.get("spec") or {}).get("updatePolicy") or {}
    targets = recommended_pods.recommendations(autoscaler)
    for requirement in policy.get("evictionRequirements") or ():
        sign = 1 if requirement.get("changeRequirement") == "TargetHigherThanRequests" else -1
        if not any(
            sign * (targets[container["name"]][resource] - recommended_pods.present(container, resource).request) > 0
            for container in (pod.get("spec") or {}).get("containers") or ()
            for resource in requirement.get("resources") or ()
            if resource in targets.get(container["name"], {})
        ):
            return False
    return True


def _waits_for_resize(pod: Object, now_s: float) -> bool:
    pending = meta.condition(pod, "PodResizePending")
    if meta.is_condition_true(pod, "PodResizeInProgress"):
        return True
    return pending is not None and pending.get("status") == "True" and not _resize_failed(pod, now_s)


def _resize_failed(pod: Object, now_s: float) -> bool:
    """Whether the node cannot resize a pod, or has not for long."""
    pending = meta.condition(pod, "PodResizePending")
    if pending is None or pending.get("status") != "True":
        return False
    since = pending.get("lastTransitionTime")
    return pending.get("reason") == "Infeasible" or (since is not None and now_s - times.parse(since) > DEFERRED_S)


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")
