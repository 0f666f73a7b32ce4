"""A cluster must serve the resource's API; clusters that have the resource already may stay."""

from rota.federation.clusters import Cluster
from rota.federation.placement.contexts import Context

NAME = "APIEnablement"


def accepted(context: Context) -> int:
    """The clusters that serve the API, and the present targets."""
    return context.fleet.serving(context.request.api) | context.targets


def reason(context: Context, cluster: Cluster) -> str:
    """Why a cluster is refused."""
    return "cluster(s) did not have the API resource"
