"""One scheduling of a binding: filters, ranking, selection and assignment, for one affinity or for terms in order.

With terms the first that works is taken, beginning with the one observed last; if none works, the error of the first
that was tried decides the condition and whether the present result is given up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from rota.federation import bindings
from rota.federation.estimation.member_nodes import MemberNodes
from rota.federation.gates import DEFAULT, Gates
from rota.federation.placement import assignment, candidates, contexts, selection
from rota.federation.placement.contexts import Context
from rota.federation.placement.errors import NoClusterFits, PlacementError, Unschedulable
from rota.federation.placement.filters import (
    api_enablement,
    capacity_sources,
    cluster_affinity,
    cluster_eviction,
    spread_constraint,
    taint_toleration,
    workload_affinity,
    workload_anti_affinity,
)
from rota.federation.placement.fleet import Fleet, places
from rota.federation.placement.requests import Placement, Request, Term

Object: TypeAlias = Mapping[str, Any]

SUCCESS: Final = "Binding has been scheduled successfully."

_FILTERS: Final = (
    api_enablement,
    taint_toleration,
    cluster_affinity,
    spread_constraint,
    cluster_eviction,
    capacity_sources,
)
_GROUP_FILTERS: Final = (workload_affinity, workload_anti_affinity)


@dataclass(slots=True)
class Attempt:
    """One affinity tried: what each step came to, as far as it got."""

    context: Context
    feasible: int = 0
    ranked: list[candidates.Candidate] = field(default_factory=list)
    selected: list[candidates.Candidate] | None = None
    result: dict[str, int] = field(default_factory=dict)
    error: PlacementError | None = None

    def reasons(self) -> dict[str, dict[str, str]]:
        """By refused cluster: every filter that refuses it, with its words."""
        return _reasons(self.context, self.feasible)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of the binding."""

    clusters: tuple[bindings.Target, ...]
    reason: str
    message: str
    affinity_name: str
    attempts: tuple[Attempt, ...]

    @property
    def scheduled(self) -> bool:
        """Whether the scheduling succeeded."""
        return self.reason == "Success"


class Scheduler:
    """Schedules bindings onto one snapshot of clusters; equal placements are read once."""

    def __init__(
        self, fleet: Fleet, gates: Gates = DEFAULT, *, keep_empty: bool = False, nodes: MemberNodes | None = None
    ) -> None:
        """With `nodes`, clusters hold no more than fits on their nodes, as far as those are known."""
        self.fleet = fleet
        self._nodes = nodes
        self.gates = gates
        #: Whether clusters that get no replicas get the resource all the same.
        self.keep_empty = keep_empty

    def schedule(
        self,
        binding: Object,
        placement: Placement | None = None,
        *,
        others: Sequence[Object] = (),
        estimates: Mapping[str, int] | None = None,
    ) -> Outcome:
        """Place a binding."""
        spec, status = binding.get("spec") or {}, binding.get("status") or {}
        compiled = Placement(spec.get("placement") or {}) if placement is None else placement
        request = Request(spec, status, compiled, self.gates)
        observed = status.get("schedulerObservingAffinityName") or ""
        near: tuple[contexts.Other, ...] = ()
        if self.gates.workload_affinity and others:
            name = (binding.get("metadata") or {}).get("name") or ""
            near = contexts.others(request, name, others)
        if self._nodes is not None:
            estimates = {**_by_nodes(self._nodes, request), **(estimates or {})}
        targets = self.fleet.mask_of_names(request.assigned)

        def attempt(term: Term | None, term_name: str) -> Attempt:
            return self._attempt(Context(request, self.fleet, term, term_name, targets, near, estimates))

        if compiled.terms is None:
            only = attempt(None, observed)
            return self._outcome(request, [only], observed)
        attempts = []
        for term in compiled.terms[_first_term(compiled.terms, observed, fresh=request.fresh) :]:
            attempts.append(attempt(term, term.name))
            if attempts[-1].error is None:
                break
        return self._outcome(request, attempts, observed)

    def _attempt(self, context: Context) -> Attempt:
        done = Attempt(context)
        feasible = self.fleet.staying
        for one in _FILTERS:
            feasible &= one.accepted(context)
        if self.gates.workload_affinity:
            for group_filter in _GROUP_FILTERS:
                feasible &= group_filter.accepted(context)
        done.feasible = feasible
        if not feasible:
            done.error = NoClusterFits(len(self.fleet.clusters), _reasons(context, feasible))
            return done
        done.ranked = candidates.rank(context, feasible)
        step = "select clusters"
        try:
            done.selected = selection.select(context, done.ranked)
            step = "assign replicas"
            done.result = assignment.assign(context, done.selected)
        except PlacementError as error:
            done.error = type(error)(f"failed to {step}: {error}")
            return done
        if self.keep_empty:
            for candidate in done.selected:
                done.result.setdefault(candidate.name, 0)
        return done

    def _outcome(self, request: Request, attempts: Sequence[Attempt], observed: str) -> Outcome:
        last = attempts[-1] if attempts else None
        if last is not None and last.error is None:
            name = last.context.observed
            return Outcome(self._targets(request, last.result), "Success", SUCCESS, name, tuple(attempts))
        error = attempts[0].error if attempts else None
        kept: tuple[bindings.Target, ...] = tuple(dict(target) for target in bindings.targets(request.spec))
        reason = "SchedulerError"
        if isinstance(error, Unschedulable):
            reason = "Unschedulable"
        elif isinstance(error, NoClusterFits):
            reason, kept = "NoClusterFit", ()
        return Outcome(kept, reason, str(error or ""), observed, tuple(attempts))

    def _targets(self, request: Request, result: Mapping[str, int]) -> tuple[bindings.Target, ...]:
        found: list[bindings.Target] = [{"name": name, "replicas": result[name]} for name in sorted(result)]
        if request.in_one_piece and len(request.components) > 1:
            for target in found:
                target["components"] = [
                    {"name": part.get("name", ""), "replicas": int(part.get("replicas") or 0)}
                    for part in request.components
                ]
        return tuple(found)


def _by_nodes(nodes: MemberNodes, request: Request) -> Mapping[str, int]:
    """What fits on the nodes of clusters; what runs no pods fits everywhere."""
    if request.in_one_piece:
        return nodes.sets(request.components)
    return nodes.replicas(request.requirements) if request.replicas else {}


def _first_term(terms: Sequence[Term], observed: str, *, fresh: bool) -> int:
    """The term observed last; the first if there is none, or if a fresh placement was asked for."""
    if fresh:
        return 0
    return next((place for place, term in enumerate(terms) if observed and term.name == observed), 0)


def _reasons(context: Context, feasible: int) -> dict[str, dict[str, str]]:
    refused = context.fleet.staying & ~feasible
    if not refused:
        return {}
    filters = (*_FILTERS, *_GROUP_FILTERS) if context.request.gates.workload_affinity else _FILTERS
    accepted = [(one, one.accepted(context)) for one in filters]
    found = {}
    for place in places(refused):
        cluster = context.fleet.clusters[place]
        found[cluster.name] = {
            one.NAME: one.reason(context, cluster) for one, mask in accepted if not mask >> place & 1
        }
    return found
