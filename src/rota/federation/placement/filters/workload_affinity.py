"""Workloads of one affinity group follow each other: the first is free, others go where all its members are."""

from rota.federation.clusters import Cluster
from rota.federation.placement.contexts import Context

NAME = "WorkloadAffinity"


def accepted(context: Context) -> int:
    """The clusters that every other placed member of the group has, and the present targets."""
    fleet, group = context.fleet, context.request.affinity_group
    if not group:
        return fleet.every
    found = fleet.every
    for other in context.others:
        if other.affinity_group == group and other.clusters:
            found &= fleet.mask_of_names(other.clusters)
    return found | context.targets


def reason(context: Context, cluster: Cluster) -> str:
    """Why a cluster is refused."""
    return "ResourceBinding with the same affinity group does not target this cluster"
