"""The permissions that `rota forecaster` needs at an API server."""

from rota.client.rights import Right, leased, table
from rota.forecaster.forecaster import LEASE, Settings


def needed(settings: Settings) -> tuple[Right, ...]:
    """All permissions."""
    return (
        *table("list", "nodes,pods"),
        *table("list", "nodes,pods", "metrics.k8s.io", loses="measurements; forecasts count by requests"),
        *table("list", "verticalpodautoscalers", "autoscaling.k8s.io", loses="recommendations of requests"),
        *table("patch", "verticalpodautoscalers/status", "autoscaling.k8s.io", loses="recommendations of requests"),
        *table("create,delete,get,list", "nodeforecasts", "rota.dev"),
        *table("patch", "nodeforecasts/status", "rota.dev"),
        *table("watch", "nodes,pods", loses="ClusterStates"),
        *table("create,get,list,watch", "clusterstates", "rota.dev", loses="ClusterStates"),
        *table("watch", "nodeforecasts", "rota.dev", loses="ClusterStates"),
        *table("update", "clusterstates/status", "rota.dev", loses="ClusterStates"),
        *table("create,get", "customresourcedefinitions", "apiextensions.k8s.io", loses="the definition of the kind"),
        *leased(settings.lease_namespace, LEASE),
    )
