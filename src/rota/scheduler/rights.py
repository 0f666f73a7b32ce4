"""What the scheduler does at an API server, as rights."""

from rota.client.rights import Right, leased, table
from rota.scheduler import handlers


def needed(lease: tuple[str, str] | None) -> tuple[Right, ...]:
    """All rights that a scheduler uses; `lease`: the namespace and the name of that by which schedulers take turns."""
    read = tuple(
        right
        for group, _, resource in (("", "v1", "nodes"), ("", "v1", "pods"), *(of for of, _ in handlers.KINDS.values()))
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
    return (*read, *written, *(() if lease is None else leased(*lease)))
