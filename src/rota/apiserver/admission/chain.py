"""All admission of the server, in the order in which it runs."""

from rota.apiserver.admission.limit_ranger import LimitRanger
from rota.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from rota.apiserver.admission.node_capacity import NodeCapacity
from rota.apiserver.admission.pod_defaults import DefaultAccount, DefaultTolerations
from rota.apiserver.admission.priority import Priority
from rota.apiserver.admission.resource_quota import ResourceQuota
from rota.apiserver.contract import Admission, Registry
from rota.apiserver.occupancy.ledger import Ledger


def mutating(registry: Registry, ledger: Ledger | None) -> tuple[Admission, ...]:
    """The rules that run before validation; without a ledger, nodes are not guarded against overselling."""
    return (
        NamespaceLifecycle(registry),
        LimitRanger(registry),
        DefaultAccount(),
        Priority(registry),
        DefaultTolerations(),
        *((NodeCapacity(registry, ledger),) if ledger is not None else ()),
        ResourceQuota(registry),
    )
