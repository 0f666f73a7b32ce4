"""A cluster must match the affinity of the placement, or of the term that is tried with what takes its overflow."""

from rota.federation.clusters import Cluster
from rota.federation.placement.contexts import Context

NAME = "ClusterAffinity"


def accepted(context: Context) -> int:
    """The clusters that the affinity means; all of them where none is given."""
    placement, fleet = context.request.placement, context.fleet
    if placement.affinity is not None:
        return fleet.matching(placement.affinity)
    term = context.term
    if term is None:
        return fleet.every
    found = fleet.matching(term.affinity)
    if context.request.is_workload:
        for affinity in term.overflow:
            found |= fleet.matching(affinity)
    return found


def reason(context: Context, cluster: Cluster) -> str:
    """Why a cluster is refused."""
    return "cluster(s) did not match the placement cluster affinity constraint"
