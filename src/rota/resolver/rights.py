"""The permissions that `rota resolver` needs at an API server."""

from rota.api.batch.kinds import SCHEDULING
from rota.client.rights import Right, leased, table
from rota.resolver.service import LEASE, Settings


def needed(settings: Settings) -> tuple[Right, ...]:
    """All permissions."""
    hooks = table("create,get,patch", "validatingwebhookconfigurations", "admissionregistration.k8s.io")
    return (
        *table("get,list,watch", "pods"),
        *table("list,watch", "nodes,persistentvolumes"),
        *table("get,list,watch", "persistentvolumeclaims"),
        *table("list,watch", "csinodes,storageclasses", "storage.k8s.io"),
        *table("get,list,watch", "podgroups", SCHEDULING, loses="limits of queues"),
        *table("list,watch", "queues", SCHEDULING, loses="limits of queues"),
        *leased(settings.lease_namespace, LEASE),
        *(hooks if settings.registered is not None else ()),
    )
