"""The clusters that passed the filters, with their scores and capacities, in the order of preference."""

from collections.abc import Sequence
from typing import NamedTuple

from rota.federation.estimation.amounts import INT32_MAX
from rota.federation.placement.contexts import Context
from rota.federation.placement.fleet import places

LOCALITY_SCORE = 100
#: The order of clusters that neither the term nor its overflow means.
_LAST_TIER = 1000


class Candidate(NamedTuple):
    """A cluster that may be chosen; the first four members are the order of preference."""

    tier: int
    negative_score: int
    negative_available: int
    name: str
    #: What estimators grant, without what the binding has there.
    allocatable: int
    region: str
    place: int

    @property
    def score(self) -> int:
        """How much the cluster is preferred."""
        return -self.negative_score

    @property
    def available(self) -> int:
        """What the cluster can hold of the binding, with what it holds already."""
        return -self.negative_available


def rank(context: Context, feasible: int) -> list[Candidate]:
    """All feasible clusters, the most preferred first."""
    request, fleet = context.request, context.fleet
    shared = _is_shared(context)
    capacity = _by_summary(context)
    if shared:
        # Bindings that are placed for the first time and ask for the same have the same ranking.
        known: list[Candidate] | None = fleet.kept.get((capacity, feasible))
        if known is not None:
            return known
    chosen = list(places(feasible))
    allocatable = _granted(context, chosen, capacity)
    tiers = _tiers(context)
    assigned = request.assigned
    found = []
    for place, grant in zip(chosen, allocatable, strict=True):
        cluster = fleet.clusters[place]
        held = assigned.get(cluster.name)
        found.append(
            Candidate(
                tiers(place),
                -LOCALITY_SCORE if held is not None else 0,
                -(grant + (held or 0)),
                cluster.name,
                grant,
                cluster.region,
                place,
            )
        )
    found.sort()
    if shared and INT32_MAX not in capacity:
        fleet.keep((capacity, feasible), found)
    return found


def _is_shared(context: Context) -> bool:
    """Whether the ranking depends on nothing but the request for resources."""
    request = context.request
    is_counted = bool(request.replicas or request.components)
    return is_counted and not request.assigned and not context.estimates and not request.placement.terms


def _by_summary(context: Context) -> Sequence[int]:
    """What clusters grant by their own summaries, by place; for what runs no pods there is no bound."""
    request, fleet = context.request, context.fleet
    if request.replicas == 0 and not request.components:
        return ()
    if request.in_one_piece:
        return fleet.sets(request.components, request.gates)
    return fleet.replicas(request.requirements, request.gates)


def _granted(context: Context, chosen: Sequence[int], capacity: Sequence[int]) -> list[int]:
    """What estimators grant each cluster; the least of their answers counts."""
    if not capacity:
        return [INT32_MAX] * len(chosen)
    found = [capacity[place] for place in chosen]
    if context.estimates:
        for position, place in enumerate(chosen):
            answer = context.estimates.get(context.fleet.names[place], -1)
            if answer >= 0:
                found[position] = min(found[position], answer)
    wanted = context.request.replicas
    return [wanted if grant == INT32_MAX else grant for grant in found]


class _Tiers:
    """The tier of each cluster: 0 is the term itself, then its overflow in order."""

    __slots__ = ("_masks",)

    def __init__(self, masks: Sequence[int]) -> None:
        self._masks = masks

    def __call__(self, place: int) -> int:
        bit = 1 << place
        for tier, mask in enumerate(self._masks):
            if mask & bit:
                return tier
        return _LAST_TIER


def _tiers(context: Context) -> "_Tiers | _OneTier":
    placement = context.request.placement
    if placement.affinity is not None or not placement.terms:
        return _ONE_TIER
    term = context.term
    if term is None:
        return _Tiers(())
    fleet = context.fleet
    return _Tiers([fleet.matching(term.affinity), *(fleet.matching(one) for one in term.overflow)])


class _OneTier:
    __slots__ = ()

    def __call__(self, place: int) -> int:
        return 0


_ONE_TIER = _OneTier()
