"""Whether a binding concerns the scheduler, and whether it has to be scheduled again."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import meta, times
from rota.federation import bindings
from rota.federation.gates import DEFAULT, Gates

Object: TypeAlias = Mapping[str, Any]

DEFAULT_SCHEDULER: Final = "default-scheduler"
APPLIED_PLACEMENT: Final = "policy.karmada.io/applied-placement"
#: On a policy and its bindings: `rebalance` if clusters that join later are taken up.
NEW_CLUSTERS: Final = "federation.rota.dev/new-clusters"
_MARKS: Final = (
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
    "binding.karmada.io/managed-by",
)


#: Numbers for which zero means something else than absence.
_OPTIONAL: Final = frozenset({"tolerationSeconds"})


def admitted(binding: Object, scheduler: str = DEFAULT_SCHEDULER) -> bool:
    """Whether the scheduler of this name takes events of a binding."""
    spec: Object = binding.get("spec") or {}
    if (spec.get("schedulerName") or DEFAULT_SCHEDULER) != scheduler:
        return False
    if (spec.get("suspension") or {}).get("scheduling"):
        return False
    labels = meta.labels(binding)
    return any(labels.get(mark) for mark in _MARKS)


def due(binding: Object, is_terminating: Callable[[str], bool], gates: Gates = DEFAULT) -> bool:
    """Whether a binding has to be scheduled now; otherwise only its generation is noted."""
    spec: Object = binding.get("spec") or {}
    status: Object = binding.get("status") or {}
    placement: Object = spec.get("placement") or {}
    applied = meta.annotations(binding).get(APPLIED_PLACEMENT) or ""
    return (
        placement_changed(placement, applied, status.get("schedulerObservingAffinityName") or "")
        or _replicas_changed(spec, placement.get("replicaScheduling"), gates)
        or bindings.reschedule_requested(spec, status)
        or not bindings.is_workload(spec)
        or bindings.scheduling_type(placement) == bindings.DUPLICATED
        or any(is_terminating(target.get("name", "")) for target in bindings.targets(spec))
    )


def placement_changed(placement: Object, applied: str, observed: str) -> bool:
    """Whether the placement differs from the one applied last, in what counts: of terms only the observed one does."""
    if not applied:
        return True
    try:
        before = msgspec.json.decode(applied)
    except msgspec.DecodeError:
        return False
    if before is None:
        before = {}
    if not isinstance(before, Mapping):
        return False
    old, new = _plain(before), _plain(placement)
    if old == new:
        return False
    if any(
        old.get(name) != new.get(name)
        for name in ("clusterAffinity", "clusterTolerations", "spreadConstraints", "replicaScheduling")
    ):
        return True
    if not observed:
        return True
    terms = [
        next((term for term in side.get("clusterAffinities") or () if term.get("affinityName") == observed), None)
        for side in (old, new)
    ]
    return terms[0] is None or terms[1] is None or terms[0] != terms[1]


def _plain(value: Any) -> Any:
    """Without what is null, empty text, zero or false: a decoded object does not know those from what is absent."""
    if isinstance(value, Mapping):
        return {
            key: _plain(one)
            for key, one in value.items()
            if one is not None and (one not in ("", 0, False) or key in _OPTIONAL)
        }
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def new_clusters(binding: Object, clusters: Mapping[str, str]) -> list[str]:
    """Clusters that came after a divided binding was placed, if its policy says that it takes them up.

    `clusters` are the times of creation by name. A binding that was asked to be placed anew since then has seen them.
    """
    annotations = (binding.get("metadata") or {}).get("annotations") or {}
    spec, status = binding.get("spec") or {}, binding.get("status") or {}
    last, asked = status.get("lastScheduledTime"), spec.get("rescheduleTriggeredAt")
    placement = spec.get("placement") or {}
    if annotations.get(NEW_CLUSTERS) != "rebalance" or not last:
        return []
    if bindings.scheduling_type(placement) != bindings.DIVIDED:
        return []
    return [
        name
        for name, created in clusters.items()
        if times.parse(created) >= times.parse(last) and not (asked and times.parse(asked) >= times.parse(created))
    ]


def _replicas_changed(spec: Object, strategy: Object | None, gates: Gates) -> bool:
    if strategy is None:
        return False
    clusters = bindings.targets(spec)
    if gates.multiple_pod_templates_scheduling and spec.get("components") and not clusters:
        return True
    wanted = bindings.replicas(spec)
    if strategy.get("replicaSchedulingType") == bindings.DUPLICATED:
        return any(int(target.get("replicas") or 0) != wanted for target in clusters)
    if strategy.get("replicaSchedulingType") == bindings.DIVIDED:
        return bindings.sum_of_replicas(clusters) != wanted
    return False
