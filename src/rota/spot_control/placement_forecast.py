"""Whether the scheduler would place a pod from an on-demand machine on a spot machine now, and with which score. Pure.

The scheduler's plugins score on a copy of the cluster; for workloads with spot annotations, the score of
`rota.spot.scoring` is added, as an extender would.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from rota.api import meta
from rota.columns.arrays import BoolArray
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.rebalancing import drift_measures
from rota.scheduler.snapshot.cluster_snapshot import ClusterSnapshot
from rota.spot import prices, return_policy, scoring
from rota.spot.node_readings import Capacity, Reading
from rota.spot.policies import Policy
from rota.spot.scoring import Candidate
from rota.spot_control import placement
from rota.spot_control.placement import Deciders

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Better:
    """A better node, and both scores; None if the scheduler would refuse the pod's present node."""

    node: str
    before: int | None
    after: int


class Appeal:
    """The additional score of nodes for workloads with spot annotations."""

    def __init__(self, nodes: Iterable[Document], readings: Mapping[str, Reading], *, weight: int) -> None:
        self._prices: Final = {meta.name(node): prices.of(node) for node in nodes}
        self._dearest: Final = max((price for price in self._prices.values() if price is not None), default=None)
        self._readings: Final = readings
        self._weight: Final = weight
        self._known: Final[dict[tuple[str, Policy], int]] = {}

    def of(self, name: str, policy: Policy) -> int:
        """The score that is added to a node's."""
        known = self._known.get((name, policy))
        if known is None:
            reading = self._readings[name]
            candidate = Candidate(capacity=reading.capacity, risky=bool(reading.risky), price=self._prices.get(name))
            good = scoring.score(candidate, policy, highest_price=self._dearest)
            known = self._known[name, policy] = round(self._weight * good)
        return known


class PlacementForecast:
    """Forecasts one pod after the other; a pod that would move counts as moved in later forecasts."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        frameworks: Mapping[str, Framework],
        *,
        capacities: Mapping[str, Capacity],
        good: Collection[str],
        appeal: Appeal,
    ) -> None:
        """`good` are the spot machines that pods may return to."""
        self._snapshot: Final = snapshot
        self._cluster: Final = snapshot.cluster
        self._deciders: Final = Deciders(frameworks, snapshot.cluster)
        self._capacities: Final = capacities
        self._good: Final = good
        self._appeal: Final = appeal

    def better(self, document: Document, policy: Policy) -> Better | str:
        """A strictly better spot machine for a pod, or why there is none."""
        cluster = self._cluster
        pod = cluster.pods[meta.uid(document)]
        source = cluster.by_name[pod.node_name]
        says = return_policy.says_so(document["metadata"].get("annotations") or {})
        with cluster.what_if():
            cluster.remove_pod(pod.uid)
            anew = drift_measures.unassigned(pod)
            rows = self._rows(placement.within(cluster, anew, policy, self._capacities))
            evaluation = self._deciders.of(pod).evaluate(anew, nominations=self._snapshot.nominated(), within=rows)
            if evaluation.failure is not None:
                return str(evaluation.failure)
            scores = {
                node.name: int(evaluation.totals[node.row]) + (self._appeal.of(node.name, policy) if says else 0)
                for node in cluster.node_infos()
                if evaluation.feasible[node.row]
            }
        best = max(scores, key=lambda name: (scores[name], name), default="")
        if best not in self._good:
            return "no spot machine is the best place for it"
        before = scores.get(source.name)
        if before is not None and scores[best] <= before:
            return "no spot machine is better than where it is"
        cluster.remove_pod(pod.uid)
        cluster.add_pod(anew, best)
        return Better(best, before, scores[best])

    def _rows(self, allowed: BoolArray | None) -> BoolArray:
        """Nodes that a policy allows, without spot machines that pods may not return to."""
        rows = np.ones(self._cluster.size, dtype=np.bool_) if allowed is None else allowed.copy()
        for node in self._cluster.node_infos():
            if self._capacities.get(node.name, Capacity.UNKNOWN).leaves and node.name not in self._good:
                rows[node.row] = False
        return rows
