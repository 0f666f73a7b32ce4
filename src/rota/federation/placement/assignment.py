"""How replicas are assigned to the chosen clusters: duplicated, by static or dynamic weight, or aggregated.

Dynamic strategies keep what is assigned: growth is divided by what is free, shrinkage by what is assigned. A fresh
assignment (asked for by `rescheduleTriggeredAt`) forgets it.
"""

from collections.abc import Mapping, Sequence

from rota.federation import bindings
from rota.federation.placement import requests
from rota.federation.placement.candidates import Candidate
from rota.federation.placement.contexts import Context
from rota.federation.placement.division import divide
from rota.federation.placement.errors import PlacementError, Unschedulable
from rota.federation.placement.requests import Request


def assign(context: Context, chosen: Sequence[Candidate]) -> dict[str, int]:
    """Replicas by cluster; 0 means that a cluster gets the resource without replicas."""
    request = context.request
    if not chosen:
        raise PlacementError("no clusters available to schedule")
    if (request.replicas > 0 or request.requirements is not None) and len(request.components) <= 1:
        return _assign_replicas(context, chosen)
    return {candidate.name: 0 for candidate in chosen}


def _assign_replicas(context: Context, chosen: Sequence[Candidate]) -> dict[str, int]:
    request = context.request
    if not _overflows(context):
        return _by_strategy(context, request.replicas, chosen)
    tiers: dict[int, list[Candidate]] = {}
    for candidate in chosen:
        tiers.setdefault(candidate.tier, []).append(candidate)
    found: dict[str, int] = {}
    remaining = request.replicas
    for tier in sorted(tiers):
        share = min(remaining, sum(candidate.available for candidate in tiers[tier]))
        found.update(_by_strategy(context, share, tiers[tier]))
        remaining -= share
        if remaining <= 0:
            break
    if remaining > 0:
        raise Unschedulable("Clusters available replicas are not enough to schedule.")
    return found


def _overflows(context: Context) -> bool:
    placement = context.request.placement
    if placement.affinity is not None or placement.terms is None or not context.observed:
        return False
    return any(term.name == context.observed and term.overflows for term in placement.terms)


def _by_strategy(context: Context, replicas: int, chosen: Sequence[Candidate]) -> dict[str, int]:
    request = context.request
    strategy = request.placement.strategy_type
    if strategy == bindings.DUPLICATED:
        found = {candidate.name: replicas for candidate in chosen}
    elif strategy == requests.STATIC:
        found = divide(replicas, _static_weights(context, chosen), uid=request.uid)
    elif strategy in (requests.DYNAMIC, bindings.AGGREGATED):
        found = _dynamic(request, replicas, chosen)
    else:
        raise PlacementError("unsupported replica scheduling strategy, please try another scheduling strategy")
    return {name: count for name, count in found.items() if count > 0}


def _static_weights(context: Context, chosen: Sequence[Candidate]) -> dict[str, int]:
    """The highest weight of the rules that mean a cluster; if none means any, all clusters are equal."""
    rules, fleet = context.request.placement.weights, context.fleet
    found: dict[str, int] = {}
    if rules:
        weights = fleet.weights(rules)
        found = {candidate.name: weights[candidate.place] for candidate in chosen if weights[candidate.place] > 0}
    return found or {candidate.name: 1 for candidate in chosen}


def _dynamic(request: Request, replicas: int, chosen: Sequence[Candidate]) -> dict[str, int]:
    names = {candidate.name for candidate in chosen}
    # A name may stand twice in a list that was written by hand; each entry counts.
    kept = [
        (target.get("name", ""), int(target.get("replicas") or 0))
        for target in bindings.targets(request.spec)
        if target.get("name", "") in names
    ]
    assigned = sum(count for _, count in kept)
    held = dict(kept)
    if request.fresh:
        free = [(candidate.name, candidate.allocatable + held.get(candidate.name, 0)) for candidate in chosen]
        return _by_room(request, replicas, free, {}, "do fresh scale")
    if assigned > replicas:
        return _by_room(request, replicas, kept, {}, "scale down")
    if assigned < replicas:
        free = [(candidate.name, candidate.allocatable) for candidate in chosen]
        added = _by_room(request, replicas - assigned, free, held, "scale up")
        return {**held, **{name: count + held.get(name, 0) for name, count in added.items()}}
    return held


def _by_room(
    request: Request, replicas: int, room: Sequence[tuple[str, int]], held: Mapping[str, int], task: str
) -> dict[str, int]:
    total = sum(count for _, count in room)
    if total < replicas:
        raise Unschedulable(f"failed to {task}: Clusters available replicas {total} are not enough to schedule.")
    ordered = sorted(room, key=lambda one: -one[1])
    if request.placement.strategy_type == bindings.AGGREGATED:
        ordered = _prefix(ordered, held, replicas)
    return divide(replicas, dict(ordered), uid=request.uid)


def _prefix(ordered: Sequence[tuple[str, int]], held: Mapping[str, int], replicas: int) -> list[tuple[str, int]]:
    """As few clusters as hold all replicas, those first that hold some already."""
    first = [one for one in ordered if held.get(one[0], 0) > 0]
    taken, room = [], 0
    for one in (*first, *(one for one in ordered if held.get(one[0], 0) <= 0)):
        taken.append(one)
        room += one[1]
        if room >= replicas:
            break
    return taken
