"""A cluster that the resource is being moved out of is no candidate."""

from rota.federation.clusters import Cluster
from rota.federation.placement.contexts import Context

NAME = "ClusterEviction"


def accepted(context: Context) -> int:
    """All clusters but those."""
    fleet = context.fleet
    return fleet.every & ~fleet.mask_of_names(context.request.evicting) if context.request.evicting else fleet.every


def reason(context: Context, cluster: Cluster) -> str:
    """Why a cluster is refused."""
    return "cluster(s) is in the process of eviction"
