"""A cluster must have the property that it is to be spread by."""

from rota.federation.clusters import Cluster
from rota.federation.placement.contexts import Context

NAME = "SpreadConstraint"

_PROPERTIES = {"provider": "provider", "region": "region", "zone": "zones"}


def accepted(context: Context) -> int:
    """The clusters with all properties that constraints name."""
    names = [one.get("spreadByField") for one in context.request.placement.constraints]
    if not any(name in _PROPERTIES for name in names):
        return context.fleet.every
    return context.fleet.kept_mask(
        (NAME, *names),
        lambda cluster: all(getattr(cluster, _PROPERTIES[name]) for name in names if name in _PROPERTIES),
    )


def reason(context: Context, cluster: Cluster) -> str:
    """The first property that is missing."""
    for one in context.request.placement.constraints:
        attribute = _PROPERTIES.get(one.get("spreadByField") or "")
        if attribute is not None and not getattr(cluster, attribute):
            return f"cluster(s) did not have {attribute} property"
    return ""
