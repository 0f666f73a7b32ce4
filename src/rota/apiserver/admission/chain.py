"""Admission plugins that change objects and those that look at cached kinds, in the order in which they run.

The validating plugins that need other parts of the server are added in `apiserver.server.assembly`.
"""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.admission.limit_ranger import RANGES, LimitRanger
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES, NamespaceLifecycle
from rota.apiserver.admission.node_capacity import NodeCapacity
from rota.apiserver.admission.node_taints import NotReadyTaint
from rota.apiserver.admission.pod_defaults import DefaultTolerations
from rota.apiserver.admission.priority import CLASSES, Priority
from rota.apiserver.admission.resource_quota import QUOTAS, ResourceQuota
from rota.apiserver.admission.runtime_classes import RUNTIMES, RuntimeClasses
from rota.apiserver.admission.service_accounts import ACCOUNTS, ServiceAccounts
from rota.apiserver.admission.service_addresses import ServiceAddresses
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Admission, Registry
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard

#: Kinds that plugins read on every request, and that are therefore cached.
FOLLOWED: Final = (NAMESPACES, RANGES, CLASSES, RUNTIMES, QUOTAS, ACCOUNTS)


def mutating(
    registry: Registry,
    copies: Mapping[GroupResource, WatchCache],
    overcommit_guard: OvercommitGuard | None,
    network: IPv4Network,
    *,
    taint_nodes: bool,
) -> tuple[Admission, ...]:
    """The plugins that run before validation.

    Without an overcommit guard, nodes are not protected against overcommitment. With `taint_nodes`, new nodes are
    tainted as not ready.
    """
    return (
        *((NotReadyTaint(),) if taint_nodes else ()),
        NamespaceLifecycle(registry, copies[NAMESPACES]),
        LimitRanger(registry, copies[RANGES]),
        ServiceAccounts(registry, copies[ACCOUNTS]),
        Priority(registry, copies[CLASSES]),
        DefaultTolerations(),
        RuntimeClasses(registry, copies[RUNTIMES]),
        ServiceAddresses(registry, network),
        *((NodeCapacity(registry, overcommit_guard),) if overcommit_guard is not None else ()),
        ResourceQuota(registry, copies[QUOTAS]),
    )
