"""Which of the candidates are chosen, by the spread constraints of the placement.

Constraints over clusters and regions choose. Those over zones, providers and labels merely filter (`filters`), as
upstream has it, unless the gate `SpreadByEveryField` is on: then groups are made by them as by regions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rota.federation.placement import regions
from rota.federation.placement.candidates import Candidate
from rota.federation.placement.contexts import Context
from rota.federation.placement.errors import SelectionError
from rota.federation.placement.requests import Request


def select(context: Context, candidates: list[Candidate]) -> list[Candidate]:
    """The chosen clusters in order; raises `SelectionError` if constraints cannot be satisfied."""
    request = context.request
    placement = request.placement
    if not placement.constraints or placement.ignores_constraints:
        return candidates
    by_region, by_cluster = placement.constraint("region"), placement.constraint("cluster")
    if request.gates.spread_by_every_field:
        groups = [one for one in placement.constraints if (one.get("spreadByField") or "") != "cluster"]
        if len(groups) > 1:
            raise SelectionError("just support one spread constraint besides that over clusters")
        if groups:
            return _by_groups(request, candidates, groups[0], _group_of(context, groups[0]))
    elif by_region is not None:
        return _by_groups(request, candidates, by_region, lambda candidate: candidate.region)
    if by_cluster is None:
        raise SelectionError("just support cluster and region spread constraint")
    least, most = int(by_cluster.get("minGroups") or 0), int(by_cluster.get("maxGroups") or 0)
    if len(candidates) < least:
        raise SelectionError("the number of feasible clusters is less than spreadConstraint.MinGroups")
    count = min(len(candidates), most)
    if placement.duplicated:
        return candidates[:count]
    needed = 1 if request.in_one_piece else request.replicas
    chosen = _with_room(candidates, count, needed)
    if not chosen:
        raise SelectionError(f"no enough resource when selecting {count} clusters")
    return chosen


def _with_room(candidates: Sequence[Candidate], count: int, needed: int) -> list[Candidate]:
    """The first so many; from the last backwards each may be exchanged for the roomiest of the others."""
    chosen, rest = list(candidates[:count]), list(candidates[count:])
    room = sum(one.available for one in chosen)
    for place in range(count - 1, -1, -1):
        if room >= needed:
            break
        largest, best = chosen[place].available, -1
        for position, other in enumerate(rest):
            if other.available > largest:
                largest, best = other.available, position
        if best >= 0:
            room += rest[best].available - chosen[place].available
            chosen[place], rest[best] = rest[best], chosen[place]
    return chosen if room >= needed else []


def _group_of(context: Context, constraint: Mapping[str, Any]) -> Callable[[Candidate], str]:
    """The group of a cluster: a property, its first zone, or the value of a label."""
    clusters, field, label = context.fleet.clusters, constraint.get("spreadByField"), constraint.get("spreadByLabel")

    def name(candidate: Candidate) -> str:
        cluster = clusters[candidate.place]
        if field == "zone":
            return cluster.zones[0] if cluster.zones else ""
        if field == "provider":
            return cluster.provider
        return cluster.labels.get(label, "") if label else cluster.region

    return name


def _by_groups(
    request: Request,
    candidates: Sequence[Candidate],
    constraint: Mapping[str, Any],
    group_of: Callable[[Candidate], str],
) -> list[Candidate]:
    of_clusters = request.placement.constraint("cluster") or {}
    found = regions.group(request, candidates, constraint, group_of)
    least, most = int(constraint.get("minGroups") or 0), int(constraint.get("maxGroups") or 0)
    if len(found) < least:
        kind = constraint.get("spreadByLabel") or constraint.get("spreadByField") or "region"
        raise SelectionError(f"the number of feasible {kind} is less than spreadConstraint.MinGroups")
    taken = regions.choose(found, least, most, int(of_clusters.get("minGroups") or 0))
    if not taken:
        raise SelectionError("the number of clusters is less than the cluster spreadConstraint.MinGroups")
    chosen = [region.clusters[0] for region in taken]
    rest = sorted(one for region in taken for one in region.clusters[1:])
    wanted = min(len(rest) + len(chosen), int(of_clusters.get("maxGroups") or 0))
    return chosen + rest[: max(wanted - len(chosen), 0)]
