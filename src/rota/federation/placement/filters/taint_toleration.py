"""Taints of a cluster must be tolerated; clusters that have the resource already may stay."""

from rota.federation import tolerations
from rota.federation.clusters import Cluster
from rota.federation.placement.contexts import Context

NAME = "TaintToleration"


def accepted(context: Context) -> int:
    """The clusters without an untolerated taint, and the present targets."""
    return context.fleet.tolerated(context.request.placement.tolerations) | context.targets


def reason(context: Context, cluster: Cluster) -> str:
    """The first taint that is not tolerated."""
    taint = tolerations.first_untolerated(cluster.taints, context.request.placement.tolerations, tolerations.keeps_out)
    return f"cluster(s) had untolerated taint {{{tolerations.text(taint or {})}}}"
