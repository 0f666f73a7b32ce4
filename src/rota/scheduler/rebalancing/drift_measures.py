"""Measures of drift, which a move must improve.

The scheduler's own filters say what is wrong: a pod is misplaced if they would refuse it on its node. The imbalance of
nodes is the sum of the squares of their shares. A move from a fuller to an emptier node lowers it, and the move back
raises it, so nothing moves back and forth.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np

from rota.columns.arrays import BoolArray
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo, PodShape
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.rebalancing.rebalance_plan import DriftMeasurement, Strategy, Usage

#: The kind of drift by the plugin that refuses a pod's own node.
MISPLACED_BY: Final[Mapping[str, Strategy]] = {
    "NodeAffinity": Strategy.NODE_AFFINITY,
    "TaintToleration": Strategy.TAINTS,
    "InterPodAffinity": Strategy.POD_AFFINITY,
    "PodTopologySpread": Strategy.SPREAD,
}
_COUNTED: Final = ("cpu", "memory")


class DriftMeasures:
    """Measures a cluster that may change between calls."""

    def __init__(self, cluster: Cluster, deciders: Mapping[str, Decider], usage: Usage | None) -> None:
        self._cluster: Final = cluster
        self._deciders: Final = deciders
        self._usage: Final = usage
        #: Measured usage that the plan has moved between nodes.
        self._shifted: Final[dict[str, Counter[str]]] = {}
        #: Pods with rules about other pods, by uid.
        self._ruled: Final = [
            uid for uid, pod in cluster.pods.items() if pod.shape.spread_constraints or pod.shape.required_affinity
        ]

    @contextmanager
    def without(self, pod: PodInfo) -> Iterator[Evaluation | None]:
        """The evaluation of a pod that is removed from its node in the block; None for a pod of another scheduler."""
        decider = self._deciders.get(pod.shape.scheduler_name)
        if decider is None:
            yield None
            return
        with self._cluster.what_if():
            self._cluster.remove_pod(pod.uid)
            yield decider.evaluate(unassigned(pod))

    def misplaced(self, pod: PodInfo) -> Strategy | None:
        """Why a pod is misplaced; None if it is not."""
        node = self._cluster.by_name.get(pod.node_name)
        if node is None:
            return None
        with self.without(pod) as evaluation:
            if evaluation is None or evaluation.failure is not None or evaluation.feasible[node.row]:
                return None
            # each filter by itself: a full node must not hide its other refusals
            verdicts = evaluation.verdicts()
            refusing = (
                strategy
                for plugin, strategy in MISPLACED_BY.items()
                if plugin in verdicts and verdicts[plugin][node.row] > 0
            )
            return next(refusing, None)

    def all_misplaced(self, pods: Collection[PodInfo] | None = None) -> dict[str, Strategy]:
        """The misplaced pods among some or all, by uid, and why."""
        known = self._cluster.pods
        asked = list(known.values()) if pods is None else [known[pod.uid] for pod in pods if pod.uid in known]
        found = ((pod.uid, self.misplaced(pod)) for pod in self._suspects(asked))
        return {uid: strategy for uid, strategy in found if strategy is not None}

    def _suspects(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Pods that may be misplaced; evaluated once for all pods of a shape, without removing them.

        A pod that counts itself finds more refusals of its node than there are, never fewer. The exception is a pod
        that requires others beside it and matches its own term: those are evaluated one by one.
        """
        refused: dict[tuple[PodShape, str], BoolArray | None] = {}
        found: list[PodInfo] = []
        for pod in pods:
            decider, node = self._deciders.get(pod.shape.scheduler_name), self._cluster.by_name.get(pod.node_name)
            if decider is None or node is None:
                continue
            key = (pod.shape, pod.shape.scheduler_name)
            if key not in refused:
                refused[key] = None if pod.shape.required_affinity else _refused(decider.evaluate(unassigned(pod)))
            rows = refused[key]
            if rows is None or rows[node.row]:
                found.append(pod)
        return found

    def sensitive_to(self, moved: PodInfo) -> list[PodInfo]:
        """Pods whose own rules select the moved pod, so that its move may violate them."""
        labels = self._cluster.catalog.namespace_labels(moved.namespace)
        group, found = moved.shape.group, []
        for uid in self._ruled:
            pod = self._cluster.pods.get(uid)
            if pod is None or uid == moved.uid or pod.terminating:
                continue
            shape = pod.shape
            spreads = shape.spread_constraints and pod.namespace == moved.namespace
            if spreads or any(term.matches(group, labels) for term in shape.required_affinity):
                found.append(pod)
        return found

    def duplicates(self) -> int:
        """The number of pairs of one owner that share a node."""
        return sum(pairs(count) for count in self.by_owner().values())

    def by_owner(self) -> Counter[tuple[str, str]]:
        """The number of pods by owner and node."""
        counted: Counter[tuple[str, str]] = Counter()
        for pod in self._cluster.pods.values():
            if pod.shape.owner is not None and pod.node_name in self._cluster.by_name:
                counted[pod.shape.owner.uid, pod.node_name] += 1
        return counted

    def of_owner(self, owner: str, node: str) -> int:
        """The number of pods of an owner on one node."""
        info = self._cluster.by_name.get(node)
        guests = info.pods.values() if info is not None else ()
        return sum(pod.shape.owner is not None and pod.shape.owner.uid == owner for pod in guests)

    def share(self, node: NodeInfo) -> float:
        """The share of a node's most used resource."""
        return max(self._shares(node), default=0.0)

    def unevenness(self, *names: str) -> float:
        """The sum of the squares of the shares of these nodes, or of all."""
        infos = [self._cluster.by_name[name] for name in names] if names else self._cluster.node_infos()
        return sum(share * share for node in infos for share in self._shares(node))

    def shift(self, pod: PodInfo, source: str, target: str) -> None:
        """Move a pod's measured usage with it."""
        if self._usage is not None:
            used = self._usage.pods.get(pod.uid, pod.shape.requests)
            self._shifted.setdefault(source, Counter()).subtract(used)
            self._shifted.setdefault(target, Counter()).update(used)

    def measured(self, misplaced: Collection[str]) -> DriftMeasurement:
        """The measurement of the cluster, where these pods are misplaced."""
        nodes = list(self._cluster.node_infos())
        return DriftMeasurement(
            violations=len(misplaced),
            duplicates=self.duplicates(),
            unevenness=self.unevenness(),
            nodes_in_use=sum(bool(node.pods) for node in nodes),
            shares={node.name: self.share(node) for node in nodes},
        )

    def _shares(self, node: NodeInfo) -> list[float]:
        used: Mapping[str, int] = node.requested
        measured = self._usage.nodes.get(node.name) if self._usage is not None else None
        if measured is not None:
            shifted = self._shifted.get(node.name, Counter())
            used = {name: max(0, measured.get(name, 0) + shifted[name]) for name in _COUNTED}
        return [used.get(name, 0) / node.allocatable[name] for name in _COUNTED if node.allocatable.get(name)]


def _refused(evaluation: Evaluation) -> BoolArray | None:
    """The rows refused by a filter whose refusal is drift; None if that is unknown."""
    if evaluation.failure is not None or not evaluation.pre_filter_status.ok:
        return None
    verdicts = evaluation.verdicts()
    refused = np.zeros(len(evaluation.feasible), dtype=np.bool_)
    for plugin in MISPLACED_BY:
        if plugin in verdicts:
            # also where it was not called because another filter had refused the node before
            refused |= verdicts[plugin] != 0
    return refused


def unassigned(pod: PodInfo) -> PodInfo:
    """A pod as it would be submitted again, without a node."""
    return msgspec.structs.replace(pod, node_name="", nominated_node="")


def pairs(count: int) -> int:
    """The number of pairs among so many."""
    return count * (count - 1) // 2
