"""The return of bindings to clusters that they left because those failed. Pure: time is an argument.

A FailbackPolicy says which bindings return, to which clusters, after how long a time of health, in which windows and
how many a minute. A return is a fresh placement, as by a WorkloadRebalancer. Copies in clusters that the binding leaves
for it are removed after the new ones are healthy; those of an exclusive workload are removed first.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from rota.api import meta, times
from rota.federation import bindings
from rota.federation.affinities import Affinity
from rota.federation.clusters import Cluster
from rota.federation.failover import moves, tasks
from rota.federation.placement.scheduler import Scheduler
from rota.federation.policies import resource_selectors

Object: TypeAlias = Mapping[str, Any]
_P = TypeVar("_P", bound=Mapping[str, Any])

REASON: Final = "Failback"
PRODUCER: Final = "rota-failback"
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_STABLE_S: Final = 300.0
_PER_MINUTE: Final = 6
_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Wait:
    """A binding does not return yet: why, and when to look again."""

    why: str
    again_s: float


@dataclass(frozen=True, slots=True)
class Return:
    """The members of the spec to write, and the clusters that have the binding again."""

    spec: Mapping[str, Any]
    homes: frozenset[str]


def policy_for(binding: Object, policies: Iterable[_P]) -> _P | None:
    """The oldest policy that is for a binding's resource; one without selectors is for all."""
    reference = (binding.get("spec") or {}).get("resource") or {}
    resource = {
        "apiVersion": reference.get("apiVersion"),
        "kind": reference.get("kind"),
        "metadata": {"name": reference.get("name") or "", "namespace": reference.get("namespace") or ""},
    }
    by_age = sorted(policies, key=lambda one: (meta.metadata(one).get("creationTimestamp") or "", meta.name(one)))
    for policy in by_age:
        selected = (policy.get("spec") or {}).get("resourceSelectors") or ()
        if not selected or resource_selectors.best_match(resource, selected):
            return policy
    return None


def interval_s(policy: Object) -> float:
    """The time between two returns by a policy."""
    return _MINUTE_S / int((policy.get("spec") or {}).get("maxPerMinute") or _PER_MINUTE)


def until_window_s(policy: Object, now: float) -> float:
    """How long it is until a window of a policy opens; 0 if one is open, or if there are none."""
    windows: Sequence[Object] = (policy.get("spec") or {}).get("windows") or ()
    if not windows:
        return 0.0
    at = dt.datetime.fromtimestamp(now, tz=dt.UTC)
    second = at.hour * 3600 + at.minute * 60 + at.second
    waits = []
    for window in windows:
        start, end = _seconds(window["start"]), _seconds(window["end"])
        length = (end - start) % 86_400 or 86_400
        days = [_DAYS.index(day) for day in window.get("days") or _DAYS]
        for ahead in range(-1, 8):
            if (at.weekday() + ahead) % 7 in days:
                opens = ahead * 86_400 + start - second
                if opens <= 0 < opens + length:
                    return 0.0
                if opens > 0:
                    waits.append(opens)
    return float(min(waits))


def _seconds(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 3600 + int(minutes) * 60


def homes(binding: Object, policy: Object, clusters: Mapping[str, Object], now: float) -> set[str] | Wait:
    """The clusters that a binding may return to now: healthy for long enough, without taints that keep it out."""
    spec: Object = policy.get("spec") or {}
    wanted = spec.get("targetClusters")
    said = spec.get("stabilizationSeconds")
    stable_s = _STABLE_S if said is None else float(said)
    found: set[str] = set()
    waits: list[float] = []
    for name in moves.left(binding):
        cluster = clusters.get(name)
        if cluster is None or (wanted is not None and not Affinity(wanted).matches(Cluster(cluster))):
            continue
        ready = meta.condition(cluster, "Ready") or {}
        if ready.get("status") != "True" or any(taint.get("effect") for taint in Cluster(cluster).taints):
            waits.append(_MINUTE_S)
            continue
        steady_s = now - times.parse(ready.get("lastTransitionTime") or times.format_time(now))
        if steady_s < stable_s:
            waits.append(stable_s - steady_s)
        else:
            found.add(name)
    if found:
        return found
    return Wait("no cluster that it left has been healthy for long enough", min(waits, default=0.0))


def planned(binding: Object, back: set[str], scheduler: Scheduler, now: float, *, exclusive: bool) -> Return | Wait:
    """A fresh placement, if it has one of the clusters that the binding left."""
    spec: dict[str, Any] = dict(binding.get("spec") or {})
    asked = times.format_time(now)
    fresh = {**spec, "rescheduleTriggeredAt": asked}
    outcome = scheduler.schedule({**binding, "spec": fresh})
    if not outcome.scheduled:
        return Wait(f"no placement: {outcome.message}", _MINUTE_S)
    chosen = {target.get("name", "") for target in outcome.clusters}
    if not chosen & back:
        return Wait("a fresh placement would not use a cluster that it left", _MINUTE_S)
    evictions = list(spec.get("gracefulEvictionTasks") or ())
    if not exclusive:
        evictions += [
            {
                "fromCluster": name,
                "purgeMode": tasks.GRACEFULLY,
                "reason": REASON,
                "producer": PRODUCER,
                **({"replicas": count} if count else {}),
            }
            for name, count in bindings.assigned(spec).items()
            if name not in chosen and name not in bindings.evicting(spec)
        ]
    written = {"clusters": list(outcome.clusters), "rescheduleTriggeredAt": asked}
    if evictions:
        written["gracefulEvictionTasks"] = evictions
    return Return(written, frozenset(chosen & back))
