"""NodeResourcesBalancedAllocation: prefer nodes whose resource use becomes more balanced by the pod.

The score compares the balance of the node with and without the pod: 75 is no difference, 100 the greatest improvement,
50 the greatest deterioration. Pods that request none of the resources are skipped.
"""

from collections.abc import Hashable
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from rota.columns import allocation
from rota.columns.allocation import BalanceColumn
from rota.columns.arrays import BoolArray, IntArray, Rows, count, pick
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.config.args import NodeResourcesBalancedAllocationArgs
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Status

HALF = MAX_SCORE // 2


class NodeResourcesBalancedAllocation:
    """Score by the balance of requests."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._resources = tuple(resource.name for resource in args.resources)
        self._columns: WeakKeyDictionary[Cluster, BalanceColumn] = WeakKeyDictionary()

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of the configured resources."""
        requests = pod.shape.requests
        return tuple(requests.get(name, 0) for name in self._resources)

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status:
        """Skip pods that would not change the balance."""
        return SUCCESS if self._changes_balance(pod) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Compare the node with and without the pod."""
        requests, allocatable, requested = pod.shape.requests, node.allocatable, node.requested
        before: list[float] = []
        after: list[float] = []
        changes = False
        for name in self._resources:
            extra = requests.get(name, 0)
            whole = allocatable.get(name, 0)
            if extra:
                changes = True
            elif name not in allocation.NATIVE:
                continue
            if whole == 0:
                continue
            used = requested.get(name, 0)
            part, then = used / whole, (used + extra) / whole
            before.append(min(1.0, part))
            after.append(min(1.0, then))
        if not changes:
            return 0
        return HALF + (HALF + allocation.balance(after) - allocation.balance(before)) // 2

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Compare the selected rows with and without the pod."""
        if not self._changes_balance(pod):
            return np.zeros(count(rows), dtype=np.int64)
        indices = [cluster.resources.get(name, -1) for name in self._resources]
        floats = cluster.floats
        if len(indices) == 2 and max(indices) < len(allocation.NATIVE) and all(map(floats.complete, indices)):
            requests = pod.shape.requests
            first, second = (
                np.minimum(
                    (pick(floats.requested[index], rows) + requests.get(name, 0)) / pick(floats.whole[index], rows), 1.0
                )
                for name, index in zip(self._resources, indices, strict=True)
            )
            scores = allocation.even(first, second)
            scores -= pick(self._before(cluster), rows)
            scores += HALF
            scores >>= 1
            scores += HALF
            return scores
        return self._score_irregular(pod, cluster, rows)

    def _changes_balance(self, pod: PodInfo) -> bool:
        requests = pod.shape.requests
        return any(requests.get(name, 0) for name in self._resources)

    def _before(self, cluster: Cluster) -> IntArray:
        """The balance without the pod, which is the same for every pod."""
        column = self._columns.get(cluster)
        if column is None:
            column = self._columns[cluster] = BalanceColumn(self._resources)
        return column.values(cluster)

    def _score_irregular(self, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """The same for nodes that lack a resource, or for more than two resources."""
        shape = (len(self._resources), count(rows))
        before, after = np.zeros(shape), np.zeros(shape)
        present = np.zeros(shape, dtype=np.bool_)
        for position, name in enumerate(self._resources):
            index, extra = cluster.resources.get(name), pod.shape.requests.get(name, 0)
            if index is None or (extra == 0 and name not in allocation.NATIVE):
                continue
            whole = cluster.allocatable[index, rows]
            used = cluster.requested[index, rows]
            present[position] = whole > 0
            divisor = np.maximum(whole, 1)
            before[position] = np.where(present[position], np.minimum(used / divisor, 1.0), 0.0)
            after[position] = np.where(present[position], np.minimum((used + extra) / divisor, 1.0), 0.0)
        gain = allocation.balance_all(after, present) - allocation.balance_all(before, present)
        return np.asarray(HALF + (HALF + gain) // 2)
