"""The extender's decisions: feasible nodes, their scores, and the nodes on which preemption is worthwhile.

Only machines that are about to end, and nodes that a workload's own policy forbids, are filtered. Everything else is a
matter of scores, so that a shortage of spot machines never leaves a pod unscheduled. Preemption does not help on a node
that is about to end (unresolvable); on one that the policy forbids it may, once other pods of the owner have moved.
Nodes that are sent by name are handled together (`columns`). Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from rota.extender import view
from rota.extender.columns import CAPACITIES, Named
from rota.extender.facts import NodeFacts
from rota.extender.messages import MOST_SCORE
from rota.extender.view import View
from rota.spot import policies, scoring
from rota.spot.node_readings import Capacity, Notice
from rota.spot.policies import Policy, PolicyError, Spread
from rota.spot.scoring import USUAL, Candidate, Weights


@dataclass(slots=True)
class Filtered:
    """The result of a filter request."""

    passed: Sequence[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)


class Adviser:
    """Decides from a view of the cluster."""

    def __init__(self, cluster: View, *, weights: Weights = USUAL) -> None:
        self._view: Final = cluster
        self._weights: Final = weights

    def filter(self, pod: Mapping[str, Any], candidates: Iterable[NodeFacts], *, now: float) -> Filtered:
        """Filter nodes for a pod; PolicyError if its annotations are inconsistent."""
        passed: list[str] = []
        found = Filtered(passed)
        policy, refusals = self._policy(pod)
        for one in candidates:
            notice = one.reading.notice
            if notice is not None:
                found.unresolvable[one.name] = _ending(notice, now)
                continue
            why = refusals[one.reading.capacity]
            if why:
                (found.failed if policy.counts else found.unresolvable)[one.name] = why
            else:
                passed.append(one.name)
        return found

    def filter_named(self, pod: Mapping[str, Any], named: Named, *, now: float) -> Filtered:
        """Filter nodes that are sent by name."""
        policy, refusals = self._policy(pod)
        passed, out = self._view.columns.verdicts(named, tuple(bool(refusals[one]) for one in CAPACITIES))
        found = Filtered(passed)
        for place in out:
            name = named.names[place]
            known = self._view.nodes.get(name)
            notice = known.reading.notice if known is not None else None
            if notice is not None:
                found.unresolvable[name] = _ending(notice, now)
            else:
                into = found.failed if policy.counts else found.unresolvable
                into[name] = refusals[known.reading.capacity if known is not None else Capacity.UNKNOWN]
        return found

    def prioritize_named(self, pod: Mapping[str, Any], named: Named, *, now: float) -> list[int]:
        """Score nodes that are sent by name."""
        policy, _ = self._policy(pod)
        good = self._view.columns.scores(
            named.slots,
            policy,
            near=self._view.near(view.owner_of(pod)),
            risks=self._view.risks,
            weights=self._weights,
            now=now,
        )
        scores: list[int] = np.rint(MOST_SCORE * good).astype(np.int64).tolist()
        return scores

    def prioritize(self, pod: Mapping[str, Any], candidates: Sequence[NodeFacts], *, now: float) -> list[int]:
        """Score nodes."""
        policy, _ = self._policy(pod)
        distances = self._view.distances(view.owner_of(pod))
        dearest = max((one.price for one in candidates if one.price is not None), default=None)
        risks: dict[str, float] = {}
        scores = []
        for one in candidates:
            reading = one.reading
            risk = 0.0
            if reading.capacity.leaves:
                known = risks.get(reading.pool)
                risk = known if known is not None else self._view.risks.risk(reading.pool, now=now)
                risks[reading.pool] = risk
            candidate = Candidate(
                capacity=reading.capacity,
                risk=risk,
                risky=bool(reading.risky),
                price=one.price,
                load=one.load,
                distance=distances.to(one),
            )
            good = (
                0.0
                if reading.notice is not None
                else scoring.score(candidate, policy, highest_price=dearest, weights=self._weights)
            )
            scores.append(round(MOST_SCORE * good))
        return scores

    def worth_preempting(self, pod: Mapping[str, Any], candidates: Iterable[NodeFacts]) -> list[str]:
        """The nodes on which preemption for a pod is worthwhile."""
        _, refusals = self._policy(pod)
        return [one.name for one in candidates if one.reading.notice is None and not refusals[one.reading.capacity]]

    def _policy(self, pod: Mapping[str, Any]) -> tuple[Policy, dict[Capacity, str]]:
        """The policy of a pod's workload, and why each kind of machine is refused."""
        policy = policies.parse(pod["metadata"].get("annotations") or {})
        owner = view.owner_of(pod)
        if policy.counts and not owner:
            raise PolicyError(f"{policies.BASE} and {policies.MAX_SHARE} count an owner's pods; this pod has none")
        # counted only if the policy needs it
        spread = self._view.spread(owner) if policy.counts else Spread(0, 0)
        return policy, {capacity: policies.refusal(policy, spread, capacity) for capacity in Capacity}


def _ending(notice: Notice, now: float) -> str:
    when = f"ends in {notice.left(now):.0f} s" if notice.left(now) else "ends now"
    return f"the machine {'is emptied' if notice.waits else when} ({notice.mark})"
