"""The permissions that the spot controller needs."""

from rota.client.rights import Right, leased, table
from rota.scheduler.ingest import watched_kinds
from rota.spot_control.leader_process import LEASE


def needed(*, namespace: str, dry_run: bool) -> tuple[Right, ...]:
    """All permissions of a controller; `namespace` is that of its Lease and its placeholder pods."""
    looked_at = tuple(
        right
        for group, _, resource in (
            *(each.target for each in watched_kinds.BUILTIN.values()),
            ("scheduling.k8s.io", "v1", "priorityclasses"),
        )
        for right in table("list", resource, group, loses="plans that heed them")
    )
    return (
        *table("get,list,watch,patch", "nodes"),
        *table("list,watch,delete", "pods"),
        *table("create", "pods/eviction"),
        *(() if dry_run else leased(namespace, LEASE)),
        *looked_at,
        *table("create", "pods", namespace=namespace, loses="places that are held for successors"),
        *table("patch", "pods/status", loses="successors that are told of their places"),
        *table("create,patch", "events", loses="events"),
    )
