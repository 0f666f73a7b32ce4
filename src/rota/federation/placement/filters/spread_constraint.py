"""A cluster must have the property that it is to be spread by."""

from rota.federation.clusters import Cluster
from rota.federation.placement.contexts import Context

NAME = "SpreadConstraint"

_PROPERTIES = {"provider": "provider", "region": "region", "zone": "zones"}


def accepted(context: Context) -> int:
    """The clusters with all properties that constraints name."""
    names = [one.get("spreadByField") for one in context.request.placement.constraints]
    labels = _labels(context)
    if not labels and not any(name in _PROPERTIES for name in names):
        return context.fleet.every
    return context.fleet.kept_mask(
        (NAME, *names, *labels),
        lambda cluster: (
            all(getattr(cluster, _PROPERTIES[name]) for name in names if name in _PROPERTIES)
            and all(cluster.labels.get(label) for label in labels)
        ),
    )


def _labels(context: Context) -> list[str]:
    """Labels that clusters are to be spread by; they count only where they choose, too."""
    if not context.request.gates.spread_by_every_field:
        return []
    return [one["spreadByLabel"] for one in context.request.placement.constraints if one.get("spreadByLabel")]


def reason(context: Context, cluster: Cluster) -> str:
    """The first property that is missing."""
    for one in context.request.placement.constraints:
        attribute = _PROPERTIES.get(one.get("spreadByField") or "")
        if attribute is not None and not getattr(cluster, attribute):
            return f"cluster(s) did not have {attribute} property"
    for label in _labels(context):
        if not cluster.labels.get(label):
            return f"cluster(s) did not have label {label}"
    return ""
