"""The permissions that `rota resolver` needs at an API server."""

from rota.client.rights import Right, leased, table
from rota.resolver.service import LEASE, Settings


def needed(settings: Settings) -> tuple[Right, ...]:
    """All permissions."""
    hooks = table("create,get,patch", "validatingwebhookconfigurations", "admissionregistration.k8s.io")
    return (
        *table("get,list,watch", "pods"),
        *table("list,watch", "nodes"),
        *leased(settings.lease_namespace, LEASE),
        *(hooks if settings.registered is not None else ()),
    )
