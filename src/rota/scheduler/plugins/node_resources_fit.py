"""NodeResourcesFit: the pod's requests must fit; by default nodes with the most free resources score highest.

The scoring strategies are LeastAllocated, MostAllocated and RequestedToCapacityRatio. For scoring, a container without
a cpu or memory request counts as a small one, on nodes as well as in the pod. Divisions truncate towards zero.
"""

import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rota.api import resources
from rota.columns import allocation
from rota.columns.arrays import CodeArray, IntArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo, PodShape
from rota.scheduler.config.args import MAX_SHAPE_SCORE, NodeResourcesFitArgs, ScoringStrategy
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE, PreFilterResult
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status

# Bits of a code: one for the number of pods, one for "more than the whole node has", then one per requested resource.
_PODS, _BEYOND, _FIRST = 1, 2, 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requests that Filter checks: resources and amounts, all greater than 0."""

    amounts: tuple[tuple[str, int], ...]
    #: The requests of other pods for these resources, in the same order; pods of one shape have the same.
    held: dict[PodShape, list[int]] = field(default_factory=dict)

    def held_by(self, other: PodInfo) -> list[int]:
        """The requests of another pod for these resources."""
        shape = other.shape
        amounts = self.held.get(shape)
        if amounts is None:
            amounts = self.held[shape] = [shape.requests.get(name, 0) for name, _ in self.amounts]
        return amounts


class NodeResourcesFit:
    """Filter and Score on requests against allocatable."""

    name: ClassVar[str] = "NodeResourcesFit"
    Args = NodeResourcesFitArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._scorer = _scorer(args.scoring_strategy)
        self._statuses: dict[tuple[tuple[str, ...], int], Status] = {}

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests."""
        return tuple(pod.shape.requests.items()), pod.shape.nonzero_requests

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Find the requests to check."""
        state.write(self.name, self._wanted(pod.shape))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node that lacks a resource; the status names all of them."""
        wanted = state.read(self.name, Wanted)
        code = _code(wanted, node, node.requested, node.pods_left)
        return self._status(wanted, code) if code else SUCCESS

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray | None:
        """A bit for every missing resource."""
        crowded = cluster.pods_left(rows) < 1
        refused, insufficient = crowded, []
        for name, amount in state.read(self.name, Wanted).amounts:
            lacks = cluster.free(name, rows) < amount
            refused = refused | lacks
            insufficient.append((cluster.resource_index(name), amount, lacks))
        if not refused.any():
            return None
        codes: CodeArray = crowded.astype(np.int64)
        for position, (index, amount, lacks) in enumerate(insufficient):
            codes |= lacks * np.int64(1 << (_FIRST + position))
            codes |= (lacks & (amount > cluster.allocatable[index, rows])) * np.int64(_BEYOND)
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """The missing resources; a request above the whole node's capacity is unresolvable."""
        return self._status(state.read(self.name, Wanted), code)

    def reprieve(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, others: Sequence[PodInfo]
    ) -> Sequence[bool] | Status:
        """The other pods that can stay beside the pod, by sums alone."""
        wanted = state.read(self.name, Wanted)
        # Called for every full node, so what is free is computed here and not by `node.free`.
        whole, taken = node.allocatable, node.requested
        slots = node.pods_left + len(others) - 1
        held = [wanted.held_by(other) for other in others]
        sums = list(map(sum, zip(*held, strict=True))) if held else [0] * len(wanted.amounts)
        spare = [
            whole.get(name, 0) - taken.get(name, 0) + gone - amount
            for (name, amount), gone in zip(wanted.amounts, sums, strict=True)
        ]
        if slots < 0 or min(spare, default=0) < 0:
            stay = zip(wanted.amounts, sums, strict=True)
            left = {name: taken.get(name, 0) - gone for (name, _), gone in stay}
            return self._status(wanted, _code(wanted, node, left, slots + 1))
        stays = []
        for amounts in held:
            fits = slots > 0 and all(map(operator.le, amounts, spare))
            if fits:
                slots -= 1
                spare = list(map(operator.sub, spare, amounts))
            stays.append(fits)
        return stays

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score the allocation of the node with the pod."""
        return self._scorer.one(pod.shape, node)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Score the selected rows."""
        return self._scorer.many(pod.shape, cluster, rows)

    def events_to_register(self) -> Sequence[Subscription]:
        """Events that free or add a requested resource may help."""
        return (
            Subscription(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._after_pod_deleted, by_shape=True),
            Subscription(
                ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN), self._after_scale_down, by_shape=True
            ),
            Subscription(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)),
            Subscription(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
                self._after_node_change,
                by_shape=True,
            ),
        )

    def _wanted(self, shape: PodShape) -> Wanted:
        return Wanted(
            tuple((name, amount) for name, amount in shape.requests.items() if amount > 0 and not self._ignores(name))
        )

    def _ignores(self, name: str) -> bool:
        if name in allocation.NATIVE:
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def _status(self, wanted: Wanted, code: int) -> Status:
        names = tuple(name for name, _ in wanted.amounts)
        status = self._statuses.get((names, code))
        if status is None:
            insufficient = [name for position, name in enumerate(names) if code >> (_FIRST + position) & 1]
            reasons = [resources.TOO_MANY_PODS] * (code & _PODS) + [f"Insufficient {name}" for name in insufficient]
            kind = Code.UNRESOLVABLE if code & _BEYOND else Code.UNSCHEDULABLE
            status = self._statuses[names, code] = Status(kind, tuple(reasons))
        return status

    def _after_pod_deleted(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        return Hint.QUEUE if old.node_name or old.nominated_node else Hint.SKIP

    def _after_scale_down(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        freed = any(new.shape.requests.get(name, 0) < old.shape.requests.get(name, 0) for name in pod.shape.requests)
        return Hint.QUEUE if freed else Hint.SKIP

    def _after_node_change(self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> Hint:
        wanted = self._wanted(pod.shape)
        if resources.lacking(wanted.amounts, new.allocatable, {}, pods_left=new.allowed_pods):
            return Hint.SKIP  # it would not fit on the empty node
        grew = (
            old is None
            or new.allowed_pods > old.allowed_pods
            or any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name, _ in wanted.amounts)
        )
        return Hint.QUEUE if grew else Hint.SKIP


def _code(wanted: Wanted, node: NodeInfo, requested: resources.Amounts, pods_left: int) -> int:
    """The code of what is missing on a node whose pods request this much."""
    missing = resources.lacking(wanted.amounts, node.allocatable, requested, pods_left=pods_left)
    if not missing:
        return 0
    code = 0
    positions = {name: position for position, (name, _) in enumerate(wanted.amounts)}
    for one in missing:
        if one.resource == resources.PODS:
            code |= _PODS
            continue
        code |= 1 << (_FIRST + positions[one.resource])
        if one.requested > node.allocatable.get(one.resource, 0):
            code |= _BEYOND
    return code


def _scorer(strategy: ScoringStrategy) -> allocation.Scorer:
    weighted = [(resource.name, resource.weight) for resource in strategy.resources]
    if strategy.type == "MostAllocated":
        return allocation.Scorer(weighted, allocation.Most())
    if strategy.type == "RequestedToCapacityRatio" and strategy.requested_to_capacity_ratio is not None:
        points = strategy.requested_to_capacity_ratio.shape
        stretch = MAX_SCORE // MAX_SHAPE_SCORE
        return allocation.Scorer(
            weighted, allocation.Ratio([(point.utilization, point.score * stretch) for point in points])
        )
    return allocation.Scorer(weighted, allocation.Least())
