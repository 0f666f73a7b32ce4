"""A move of a binding away from a cluster, decided as a whole: what it changes, and why it does not happen. Pure.

There is no eviction without a placement: a move is decided together with the clusters that take over. An exclusive
workload moves directly, and from a cluster that does not answer only if an agent there stops it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import meta
from rota.federation.failover import tasks
from rota.federation.placement.scheduler import Scheduler

Object: TypeAlias = Mapping[str, Any]

#: On a binding: the clusters that it left because they failed, with the time of each; a failback policy reads it.
LEFT: Final = "rota.dev/left-clusters"
#: Why a binding stays.
NO_SUBSTITUTE: Final = "NoSubstitute"
NO_FENCING_AGENT: Final = "NoFencingAgent"
_GRACEFUL_ONLY: Final = frozenset({"gracePeriodSeconds", "suppressDeletion"})


@dataclass(frozen=True, slots=True)
class Move:
    """The spec afterwards and the clusters that take over, or the reason why the binding stays."""

    spec: tasks.Spec
    clusters: tuple[Mapping[str, Any], ...] = ()
    refused: str = ""
    message: str = ""


def directly(spec: tasks.Spec, cluster: str) -> tasks.Spec:
    """The spec with its eviction task for a cluster made a direct one, without a grace period."""
    changed = []
    for task in spec.get("gracefulEvictionTasks") or ():
        if task.get("fromCluster") == cluster:
            kept = {
                name: value for name, value in task.items() if name not in ("gracePeriodSeconds", "suppressDeletion")
            }
            changed.append({**kept, "purgeMode": tasks.DIRECTLY})
        else:
            changed.append(task)
    return {**spec, "gracefulEvictionTasks": changed}


def planned(
    binding: Object,
    changed: tasks.Spec,
    cluster: str,
    scheduler: Scheduler,
    *,
    exclusive: bool = False,
    answers: bool = True,
    fenced: bool = False,
) -> Move:
    """Decide a move; `changed` is the spec after the eviction.

    `answers` says whether the cluster is ready, `fenced` whether its agent stops exclusive workloads by itself.
    """
    if exclusive:
        if not answers and not fenced:
            kind = (binding.get("spec") or {}).get("resource") or {}
            return Move(
                changed,
                refused=NO_FENCING_AGENT,
                message=f"{kind.get('kind')} {kind.get('name')} is exclusive, and cluster {cluster} has no agent that"
                " stops it there: it is not moved automatically",
            )
        changed = directly(changed, cluster)
    outcome = scheduler.schedule({**binding, "spec": changed})
    if not outcome.scheduled:
        return Move(changed, refused=NO_SUBSTITUTE, message=f"no other cluster can take it: {outcome.message}")
    return Move(changed, clusters=tuple(outcome.clusters))


def left(binding: Object) -> dict[str, str]:
    """The clusters that a binding left because they failed, each with the time."""
    try:
        found = msgspec.json.decode(meta.annotations(binding).get(LEFT) or "{}")
    except msgspec.DecodeError:
        return {}
    return {str(name): str(at) for name, at in found.items()} if isinstance(found, dict) else {}


def with_left(binding: Object, clusters: Iterable[str], now: str) -> str:
    """The annotation after more clusters were left."""
    return msgspec.json.encode({**left(binding), **dict.fromkeys(clusters, now)}).decode()


def without_left(binding: Object, clusters: Collection[str]) -> str | None:
    """The annotation without clusters to which the binding has returned; None to remove it."""
    kept = {name: at for name, at in left(binding).items() if name not in clusters}
    return msgspec.json.encode(kept).decode() if kept else None
