"""RandomPlacement: any feasible node, and any of its devices; the baseline of comparisons.

The choice is a hash of the seed, the pod and the node, so a recorded decision can be repeated.
"""

import zlib
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rota.api import gpu_devices
from rota.columns.arrays import IntArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.config.wire import Int64, WireStruct
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status
from rota.scheduler.plugins import gpu_share


class RandomPlacementArgs(WireStruct, frozen=True):
    """Arguments of RandomPlacement."""

    seed: Int64 = 0


class RandomPlacement:
    """Score by a hash: one node gets all."""

    name: ClassVar[str] = "RandomPlacement"
    Args = RandomPlacementArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: RandomPlacementArgs, handle: Handle) -> None:
        self._seed = args.seed

    def signature(self, pod: PodInfo) -> None:
        """Every pod gets its own choice."""

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """A hash of each selected row."""
        return self._hashed(pod, np.arange(cluster.size)[rows])

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> int:
        """The largest hash of all nodes."""
        return int(scores.max())

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """100 for the node with the largest hash, 0 for all others."""
        return np.where(scores == bounds, MAX_SCORE, 0)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Give a share any device that has enough left."""
        wanted = gpu_devices.demand(pod.shape.requests)
        free = gpu_share.free_for(state, pod, node_name)
        if free is not None and gpu_share.is_share(wanted):
            enough = [device for device, left in enumerate(free) if left >= wanted.milli]
            chosen = int(self._hashed(pod, np.array(enough) + (1 << 32)).argmax())
            gpu_share.assign(state, pod, (enough[chosen],))
        return None

    def _hashed(self, pod: PodInfo, numbers: npt.NDArray[np.int64]) -> IntArray:
        """Numbers from 0 to 2**63: the finaliser of splitmix64 over the seed, the pod and each number."""
        start = (zlib.crc32(pod.uid.encode()) << 32) ^ (self._seed & 0xFFFF_FFFF_FFFF_FFFF)
        mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E37_79B9_7F4A_7C15) ^ np.uint64(
            start & 0xFFFF_FFFF_FFFF_FFFF
        )
        for shift, factor in ((30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
        return (mixed >> np.uint64(1)).astype(np.int64)
