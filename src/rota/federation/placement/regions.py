"""Which regions are taken where a workload is spread over regions, or over other groups of clusters.

Each region has a value (its number of clusters) and a weight. A combination is feasible if its number of regions is
within bounds and its clusters are enough; a feasible combination is not lengthened. The heaviest wins, then the one
with more clusters, then the one found first; if a feasible beginning of the winner exists, that is taken instead.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.federation.placement.candidates import Candidate
from rota.federation.placement.requests import Request

_UNIT: Final = 1000
#: Steps of the search for combinations of regions: less than a tenth of a second.
_MOST_STEPS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Region:
    """The candidates of one region, in their order of preference."""

    name: str
    clusters: Sequence[Candidate]
    weight: int


def group(
    request: Request,
    candidates: Sequence[Candidate],
    constraint: Mapping[str, Any],
    group_of: Callable[[Candidate], str],
) -> dict[str, Region]:
    """The regions of candidates, with their weights; a candidate without one is left out."""
    found: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        name = group_of(candidate)
        if name:
            found.setdefault(name, []).append(candidate)
    least = int(constraint.get("minGroups") or 0)
    return {name: Region(name, clusters, _weight(request, clusters, least)) for name, clusters in found.items()}


def choose(regions: Mapping[str, Region], least: int, most: int, clusters: int) -> list[Region]:
    """The regions to take, or none if no combination is feasible."""
    ordered = sorted(regions.values(), key=lambda one: (len(one.clusters), -one.weight, one.name))
    found = _feasible(ordered, least, most, clusters)
    if not found:
        return []
    ranked = sorted(
        range(len(found)),
        key=lambda i: (-sum(one.weight for one in found[i]), -sum(len(one.clusters) for one in found[i]), i),
    )
    best = found[ranked[0]]
    for other in (found[i] for i in ranked[1:]):
        if len(other) < len(best) and all(mine.name == one.name for mine, one in zip(best, other, strict=False)):
            best = other
    return best


def _feasible(ordered: Sequence[Region], least: int, most: int, clusters: int) -> list[list[Region]]:
    """All feasible combinations in the order of their discovery, each with its heaviest region first.

    There may be too many to try all of them, so the search ends after some time. The combination of the largest
    regions is then added: if any is feasible, it is.
    """
    found: list[list[Region]] = []
    path: list[Region] = []
    steps = 0

    def search(total: int, begin: int) -> None:
        nonlocal steps
        steps += 1
        if steps > _MOST_STEPS:
            return
        if total >= clusters and least <= len(path) <= most:
            found.append(sorted(path, key=lambda one: (-one.weight, one.name)))
            return
        if len(path) >= most:
            return
        for place in range(begin, len(ordered)):
            if steps > _MOST_STEPS:
                return
            path.append(ordered[place])
            search(total + len(ordered[place].clusters), place + 1)
            if len(ordered) == least:
                # All regions are needed, so that nothing but the first combination can be feasible.
                break
            path.pop()

    search(0, 0)
    if steps > _MOST_STEPS:
        path.clear()
        for one in sorted(ordered, key=lambda one: (-len(one.clusters), -one.weight, one.name))[:most]:
            path.append(one)
            if sum(len(each.clusters) for each in path) >= clusters and len(path) >= least:
                found.append(sorted(path, key=lambda one: (-one.weight, one.name)))
                break
    return found


def _weight(request: Request, clusters: Sequence[Candidate], least: int) -> int:
    if request.placement.duplicated:
        enough = [one for one in clusters if one.available >= request.replicas]
        return len(enough) * _UNIT + sum(one.score for one in enough) // len(enough) if enough else 0
    target = math.ceil(request.replicas / least) if least else 0
    constraint = request.placement.constraint("cluster") or {}
    wanted = max(int(constraint.get("minGroups") or 0), least)
    available = score = count = 0
    for one in clusters:
        available += one.available
        score += one.score
        count += 1
        if count >= wanted and available >= target:
            break
    if available < target:
        return available * _UNIT + score // len(clusters)
    return target * _UNIT + score // count
