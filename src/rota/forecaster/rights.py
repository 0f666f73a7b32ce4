"""The permissions that `rota forecaster` needs at an API server."""

from rota.client.rights import Right, leased, table
from rota.forecaster.autoscaler_webhook import NAME
from rota.forecaster.forecaster import LEASE, Settings


def needed(settings: Settings) -> tuple[Right, ...]:
    """All permissions."""
    return (
        *table("list", "nodes,pods"),
        *(
            table("list", "nodes,pods", "metrics.k8s.io", loses="measurements; forecasts count by requests")
            if settings.prometheus is None
            else ()
        ),
        *table("list", "verticalpodautoscalers", "autoscaling.k8s.io", loses="recommendations of requests"),
        *table("patch", "verticalpodautoscalers/status", "autoscaling.k8s.io", loses="recommendations of requests"),
        *table(
            "create,delete,get,list,update",
            "verticalpodautoscalercheckpoints",
            "autoscaling.k8s.io",
            loses="histories over restarts",
        ),
        *(_applying() if settings.webhook is not None else ()),
        *table("create,delete,get,list", "nodeforecasts", "rota.dev"),
        *table("patch", "nodeforecasts/status", "rota.dev"),
        *table("watch", "nodes,pods", loses="ClusterStates"),
        *table("create,get,list,watch", "clusterstates", "rota.dev", loses="ClusterStates"),
        *table("watch", "nodeforecasts", "rota.dev", loses="ClusterStates"),
        *table("update", "clusterstates/status", "rota.dev", loses="ClusterStates"),
        *table("create,get", "customresourcedefinitions", "apiextensions.k8s.io", loses="the definition of the kind"),
        *leased(settings.lease_namespace, LEASE),
    )


def _applying() -> tuple[Right, ...]:
    """What the modes of VerticalPodAutoscalers other than Off need."""
    return (
        *table("watch", "verticalpodautoscalers", "autoscaling.k8s.io"),
        *table("list,watch", "limitranges"),
        *table("create", "pods/eviction"),
        *table("patch", "pods/resize", loses="resizes in place; pods are evicted instead"),
        *table("create", "mutatingwebhookconfigurations", "admissionregistration.k8s.io"),
        *table("get,patch", "mutatingwebhookconfigurations", "admissionregistration.k8s.io", name=NAME),
    )
