"""Which of the candidates are chosen, by the spread constraints of the placement.

Only constraints over clusters and regions choose; those over zones and providers merely filter (`filters`).
"""

from collections.abc import Sequence

from rota.federation.placement import regions
from rota.federation.placement.candidates import Candidate
from rota.federation.placement.errors import SelectionError
from rota.federation.placement.requests import Request


def select(request: Request, candidates: list[Candidate]) -> list[Candidate]:
    """The chosen clusters in order; raises `SelectionError` if constraints cannot be satisfied."""
    placement = request.placement
    if not placement.constraints or placement.ignores_constraints:
        return candidates
    by_region, by_cluster = placement.constraint("region"), placement.constraint("cluster")
    if by_region is not None:
        return _by_region(request, candidates)
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


def _by_region(request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
    constraint = request.placement.constraint("region") or {}
    of_clusters = request.placement.constraint("cluster") or {}
    found = regions.group(request, candidates, constraint)
    least, most = int(constraint.get("minGroups") or 0), int(constraint.get("maxGroups") or 0)
    if len(found) < least:
        raise SelectionError("the number of feasible region is less than spreadConstraint.MinGroups")
    taken = regions.choose(found, least, most, int(of_clusters.get("minGroups") or 0))
    if not taken:
        raise SelectionError("the number of clusters is less than the cluster spreadConstraint.MinGroups")
    chosen = [region.clusters[0] for region in taken]
    rest = sorted(one for region in taken for one in region.clusters[1:])
    wanted = min(len(rest) + len(chosen), int(of_clusters.get("maxGroups") or 0))
    return chosen + rest[: max(wanted - len(chosen), 0)]
