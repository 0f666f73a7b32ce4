"""A cluster must have what a workload takes of a CapacitySource: for all duplicated replicas, or for one."""

from rota.federation.clusters import Cluster
from rota.federation.estimation import amounts
from rota.federation.estimation.capacity_sources import PREFIX
from rota.federation.placement.contexts import Context

NAME = "CapacitySources"


def accepted(context: Context) -> int:
    """The clusters with enough of all sources, and those that have the workload already."""
    needed = _needed(context)
    if not needed:
        return context.fleet.every
    return context.targets | context.fleet.mask(lambda cluster: _missing(cluster, needed) is None)


def reason(context: Context, cluster: Cluster) -> str:
    """The first source of which there is too little."""
    missing = _missing(cluster, _needed(context))
    return f"cluster(s) did not have enough {missing}"


def _needed(context: Context) -> dict[str, int]:
    request = context.request
    asked = (request.requirements or {}).get("resourceRequest") or {}
    if not any(name.startswith(PREFIX) for name in asked):
        return {}
    count = request.replicas if request.placement.duplicated else min(request.replicas, 1)
    return {name: amount * count for name, amount in amounts.read(asked).items() if name.startswith(PREFIX)}


def _missing(cluster: Cluster, needed: dict[str, int]) -> str | None:
    summary = cluster.summary or {}
    total, used = amounts.read(summary.get("allocatable")), amounts.read(summary.get("allocated"))
    return next((name for name, amount in needed.items() if total.get(name, 0) - used.get(name, 0) < amount), None)
