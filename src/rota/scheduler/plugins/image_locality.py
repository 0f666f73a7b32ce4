"""ImageLocality: prefer nodes that hold the pod's images already.

An image counts by its size, scaled by the share of nodes that hold it, so that a large image on one node does not draw
all pods there.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rota.columns.arrays import BoolArray, IntArray, Rows, count
from rota.columns.cluster import Cluster
from rota.columns.journal import Changes, Facet
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.points import MAX_SCORE, Reuse
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Status

MIB = 1 << 20
#: Less than this is not worth moving for; more than this per image makes no difference.
LOWEST = 23 * MIB
HIGHEST = 1000 * MIB


@dataclass(frozen=True, slots=True)
class Shares:
    """For each image of the pod that some node holds: the share of nodes that do."""

    images: tuple[tuple[str, float], ...]


class ImageLocality:
    """Score on images present."""

    name: ClassVar[str] = "ImageLocality"
    Args = NoArgs
    watches: ClassVar[Facet] = Facet.NODE

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable:
        """Only images matter."""
        return pod.shape.images

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status:
        """Work out how widely each image is spread."""
        total = len(cluster.by_name)
        holders = ((image, len(cluster.images.holders(image))) for image in pod.shape.images)
        state.write(self.name, Shares(tuple((image, number / total) for image, number in holders if number)))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Sum the scaled sizes of the images that the node holds."""
        held = node.images
        shares = state.read(self.name, Shares).images
        return _stretched(
            sum(int(held[image] * share) for image, share in shares if image in held), len(pod.shape.images)
        )

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Sum the scaled sizes of the images that each row holds."""
        shares = state.read(self.name, Shares).images
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
        return Reuse.AGAIN if changes.node else Reuse.ROWS


def _stretched(total: int, images: int) -> int:
    highest = HIGHEST * images
    return MAX_SCORE * (min(max(total, LOWEST), highest) - LOWEST) // (highest - LOWEST)
