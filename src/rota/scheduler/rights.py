"""The permissions that the scheduler needs at the API server."""

from collections.abc import Iterable
from typing import Final

from rota.client.rights import Right, leased, table
from rota.scheduler.ingest import watched_kinds
from rota.scheduler.ingest.watched_kinds import WatchedKind


def needed(
    lease: tuple[str, str] | None, kinds: Iterable[WatchedKind] = (), *, batch: bool = False
) -> tuple[Right, ...]:
    """All permissions of a scheduler.

    `lease` is the namespace and the name of its leader election Lease, `kinds` are those that plugins declare; `batch`
    adds those of the batch profile.
    """
    watched = (each.target for each in (*watched_kinds.BUILTIN.values(), *kinds))
    read = tuple(
        right
        for group, _, resource in (("", "v1", "nodes"), ("", "v1", "pods"), *watched)
        for right in table("list,watch", resource, group)
    )
    written = (
        *table("create", "pods/binding"),
        *table("get", "pods"),
        *table("patch", "pods/status"),
        *table("delete", "pods", loses="preemption"),
        *table("create", "pods/eviction", loses="asking budgets before pods are preempted"),
        *table(
            "update", "persistentvolumeclaims,persistentvolumes", loses="volumes that are bound with their first pod"
        ),
        *table("create,patch", "events", loses="events"),
    )
    return (*read, *written, *(_BATCH if batch else ()), *(() if lease is None else leased(*lease)))


_BATCH: Final = (
    *table("list,watch", "podgroups,queues", "scheduling.volcano.sh"),
    *table("list,watch", "priorityclasses", "scheduling.k8s.io"),
    *table("list,watch", "resourcequotas", loses="quotas in batch scheduling"),
    *table("list,watch", "hypernodes", "topology.volcano.sh", loses="network topology in batch scheduling"),
    *table("patch", "podgroups,podgroups/status,queues/status", "scheduling.volcano.sh"),
)

#: Of one of several schedulers, in addition.
SHARDING: Final = (
    *table("create,get,list,update,watch", "schedulerinstances,shardmaps", "rota.dev"),
    *table("patch", "schedulerinstances/status", "rota.dev"),
    *table("update", "shardmaps/status", "rota.dev"),
    *table("delete", "schedulerinstances", "rota.dev", loses="removing schedulers that ended long ago"),
    *table("create,get,list,update,watch", "leases", "coordination.k8s.io", namespace="kube-system"),
)
