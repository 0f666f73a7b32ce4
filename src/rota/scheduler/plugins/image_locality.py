"""ImageLocality: prefer nodes that have the pod's images already.

An image counts by its size, scaled by the share of nodes that have it, so that a large image on one node does not
attract all pods.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rota.columns.arrays import IntArray, Rows, count
from rota.columns.change_log import Changes, ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE, Reuse
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState

MIB = 1 << 20
#: Smaller images do not count; larger ones count as this size.
LOWEST = 23 * MIB
HIGHEST = 1000 * MIB


@dataclass(frozen=True, slots=True)
class Shares:
    """For each image of the pod that some node has: the share of nodes that have it."""

    images: tuple[tuple[str, float], ...]


class ImageLocality:
    """Score by images that are present."""

    name: ClassVar[str] = "ImageLocality"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable:
        """The pod's images."""
        return pod.shape.images

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Sum the scaled sizes of the images that the node has."""
        held = node.images
        shares = self._shares(state, pod).images
        return _stretched(
            sum(int(held[image] * share) for image, share in shares if image in held), len(pod.shape.images)
        )

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Sum the scaled sizes of the images that each row has."""
        shares = self._shares(state, pod).images
        if not shares:
            return np.zeros(count(rows), dtype=np.int64)
        sums = np.zeros(cluster.size, dtype=np.int64)
        for image, share in shares:
            holders = cluster.images.holders(image)
            sizes = np.fromiter(holders.values(), dtype=np.float64, count=len(holders))
            sums[list(holders)] += (sizes * share).astype(np.int64)
        highest = HIGHEST * len(pod.shape.images)
        clipped = np.minimum(np.maximum(sums[rows], LOWEST), highest)
        return MAX_SCORE * (clipped - LOWEST) // (highest - LOWEST)

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """Shares depend on all nodes."""
        if not changes.node:
            return Reuse.ROWS
        state.delete(self.name)
        return Reuse.ALL_ROWS

    def _shares(self, state: CycleState, pod: PodInfo) -> Shares:
        """Compute once how widely each image is spread."""
        shares = state.find(self.name, Shares)
        if shares is None:
            assert state.cluster is not None
            images, total = state.cluster.images, len(state.cluster.by_name)
            holders = ((image, len(images.holders(image))) for image in pod.shape.images)
            shares = Shares(tuple((image, number / total) for image, number in holders if number))
            state.write(self.name, shares)
        return shares


def _stretched(total: int, images: int) -> int:
    highest = HIGHEST * images
    return MAX_SCORE * (min(max(total, LOWEST), highest) - LOWEST) // (highest - LOWEST)
