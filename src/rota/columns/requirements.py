"""A pod's requirements of its node's labels and name, compiled: nodeSelector and required node affinity.

NodeAffinity and topology spreading use this, for one node or for all of them.
"""

import functools
from dataclasses import dataclass

import numpy as np

from rota.api import nodeselectors, selectors
from rota.api.nodeselectors import NodeSelector
from rota.api.selectors import Selector
from rota.columns.arrays import BoolArray, Rows, count
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodShape


@dataclass(frozen=True, slots=True)
class NodeRequirements:
    """Required labels of a node, and terms of which one must match (None: no terms are given)."""

    labels: Selector
    terms: NodeSelector | None

    @property
    def empty(self) -> bool:
        """Whether every node matches."""
        return self.labels.empty and self.terms is None

    def met_by(self, node: NodeInfo) -> bool:
        """Whether this node matches. Invalid terms match nothing."""
        return self.labels.matches(node.labels) and (self.terms is None or self.terms.matches(node.labels, node.name))

    def rows(self, cluster: Cluster, rows: Rows) -> BoolArray:
        """Which of the rows match."""
        met = cluster.labels.matching(self.labels, rows)
        if self.terms is not None:
            matched = cluster.labels.matching_any(self.terms, rows, cluster.by_name)
            met = matched if met is None else met & matched
        return np.ones(count(rows), dtype=np.bool_) if met is None else met


@functools.lru_cache(maxsize=1024)
def _labels(pairs: tuple[tuple[str, str], ...]) -> Selector:
    return selectors.from_labels(dict(pairs))


def of(shape: PodShape) -> NodeRequirements:
    """Compile the requirements of a pod."""
    required = shape.node_affinity.requiredDuringSchedulingIgnoredDuringExecution if shape.node_affinity else None
    return NodeRequirements(
        labels=_labels(tuple(shape.node_selector.items())) if shape.node_selector else selectors.EVERYTHING,
        terms=None if required is None else nodeselectors.compile_selector(required),
    )
