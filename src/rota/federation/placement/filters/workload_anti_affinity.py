"""Workloads of one anti-affinity group keep away from each other."""

from rota.federation.clusters import Cluster
from rota.federation.placement.contexts import Context

NAME = "WorkloadAntiAffinity"


def accepted(context: Context) -> int:
    """The clusters that no other member of the group has, and the present targets."""
    fleet, group = context.fleet, context.request.anti_affinity_group
    if not group:
        return fleet.every
    found = fleet.every
    for other in context.others:
        if other.anti_affinity_group == group:
            found &= ~fleet.mask_of_names(other.clusters)
    return found | context.targets


def reason(context: Context, cluster: Cluster) -> str:
    """Why a cluster is refused."""
    return "cluster already has workload with the same anti-affinity group"
