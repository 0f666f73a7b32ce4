"""nodeorder: the scores of the stock scheduler, with weights of their own."""

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns import allocation
from rota.columns.arrays import FloatArray, IndexArray, IntArray
from rota.columns.pods import PodShape
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task
from rota.scheduler.config.args import InterPodAffinityArgs, NodeResourcesBalancedAllocationArgs, ResourceSpec
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE, ExtensionPoint
from rota.scheduler.framework.registry import Enabled, ProfileSpec
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugin_registry import builtin
from rota.scheduler.plugins import image_locality

BALANCED: Final = "NodeResourcesBalancedAllocation"
#: Scores that are stretched over the nodes that are compared.
_COMPARED: Final = {
    "NodeAffinity": "nodeaffinity.weight",
    "InterPodAffinity": "podaffinity.weight",
    "TaintToleration": "tainttoleration.weight",
    "PodTopologySpread": "podtopologyspread.weight",
}
#: Those of them that look at nodes alone, not at other pods.
_OF_NODES: Final = frozenset({"NodeAffinity", "TaintToleration"})
_RESOURCES: Final = (("cpu", 1), ("memory", 1))


class NodeOrder(BatchPlugin):
    """Rate nodes."""

    name: ClassVar[str] = "nodeorder"
    rates_alone: ClassVar[bool] = True
    arguments: ClassVar[Mapping[str, Argument]] = {
        "leastrequested.weight": Argument(args.integer, 1),
        "mostrequested.weight": Argument(args.integer, 0),
        "balancedresource.weight": Argument(args.integer, 1),
        "nodeaffinity.weight": Argument(args.integer, 2),
        "podaffinity.weight": Argument(args.integer, 2),
        "tainttoleration.weight": Argument(args.integer, 3),
        "imagelocality.weight": Argument(args.integer, 1),
        "podtopologyspread.weight": Argument(args.integer, 2),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._cluster = session.cluster
        self._placements = session.placements
        framework = _framework()
        self._room: Final = [
            (allocation.Scorer(_RESOURCES, strategy), arguments[name])
            for name, strategy in (
                ("leastrequested.weight", allocation.Least()),
                ("mostrequested.weight", allocation.Most()),
            )
            if arguments[name]
        ]
        self._balanced: int = arguments["balancedresource.weight"]
        self._balance = framework.plugins[BALANCED]
        self._images: Final[int] = arguments["imagelocality.weight"]
        self._compared: Final = [
            (framework.plugins[name], arguments[key]) for name, key in _COMPARED.items() if arguments[key]
        ]
        self._by_shape: dict[PodShape, IntArray] = {}
        #: By shape, the version of affinity terms and whether scores in comparison differ.
        self._differs: dict[PodShape, tuple[int, bool]] = {}

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate by what would be left, by balance and by images."""
        cluster, pod = self._cluster, task.info
        total = np.zeros(len(rows), dtype=np.int64)
        for scorer, weight in self._room:
            total += weight * scorer.many(pod.shape, cluster, rows)
        if self._balanced:
            state = CycleState(cluster)
            total += self._balanced * self._balance.score_nodes(state, pod, cluster, rows)
        if self._images:
            total += self._images * self._present(task)[rows]
        return total.astype(np.float64)

    def node_key(self, task: Task, row: int) -> Hashable:
        """What the node has, what is used of it, and how its images suit the pod."""
        cluster = self._cluster
        return (
            cluster.allocatable[:, row].tobytes(),
            cluster.requested[:, row].tobytes(),
            cluster.nonzero_requested[:, row].tobytes(),
            int(self._present(task)[row]) if self._images else 0,
        )

    def compares(self, task: Task) -> bool:
        """Whether labels, taints or other pods make a difference between nodes for this pod."""
        shape, version = task.info.shape, self._cluster.terms.version
        known = self._differs.get(shape)
        if known is None or known[0] != version:
            known = self._differs[shape] = version, any(self._rates_unequally(task, one) for one, _ in self._compared)
        return known[1]

    def _rates_unequally(self, task: Task, plugin: Any) -> bool:
        cluster, pod = self._cluster, task.info
        state, rows = CycleState(cluster), np.flatnonzero(cluster.alive[: cluster.size])
        status = plugin.pre_score(state, pod, cluster, cluster.alive[: cluster.size].copy())
        if status is not None and status.skipped:
            return False
        if plugin.name not in _OF_NODES:
            return True
        raw = plugin.score_nodes(state, pod, cluster, rows)
        return bool(len(raw)) and bool(raw.min() != raw.max())

    def batch_node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate by labels, by other pods, by taints and by spread, among the nodes that come into question."""
        cluster, pod = self._cluster, task.info
        self._placements.prepare(task)
        total = np.zeros(len(rows), dtype=np.int64)
        feasible = np.zeros(cluster.size, dtype=np.bool_)
        feasible[rows] = True
        state = CycleState(cluster)
        for plugin, weight in self._compared:
            status = plugin.pre_score(state, pod, cluster, feasible)
            if status is not None and status.skipped:
                continue
            raw = plugin.score_nodes(state, pod, cluster, rows)
            total += weight * plugin.normalize(state, pod, raw, plugin.bounds(state, pod, raw))
        return total.astype(np.float64)

    def _present(self, task: Task) -> IntArray:
        """Rate nodes by the pod's images that they hold.

        An image counts by the share of nodes that hold it. A node knows of the
        holders that came before it, and of itself.
        """
        shape = task.info.shape
        known = self._by_shape.get(shape)
        if known is None:
            cluster = self._cluster
            sizes = np.zeros(cluster.size, dtype=np.int64)
            for image in shape.images:
                for number, (row, size) in enumerate(sorted(cluster.images.holders(image).items()), start=1):
                    sizes[row] += int(size * (number / len(cluster.by_name)))
            highest = image_locality.HIGHEST * len(shape.images)
            clipped = np.clip(sizes, image_locality.LOWEST, highest)
            known = MAX_SCORE * (clipped - image_locality.LOWEST) // max(highest - image_locality.LOWEST, 1)
            self._by_shape[shape] = known
        return known


def _framework() -> Framework:
    names = (BALANCED, *_COMPARED)
    balanced = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"), ResourceSpec(name="nvidia.com/gpu"))
    return Framework(
        ProfileSpec(
            points={ExtensionPoint.SCORE: tuple(Enabled(name) for name in names)},
            args={
                BALANCED: NodeResourcesBalancedAllocationArgs(resources=balanced),
                "InterPodAffinity": InterPodAffinityArgs(hard_pod_affinity_weight=0),
            },
        ),
        builtin.registry(),
    )
