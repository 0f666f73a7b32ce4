"""The pods of a session as filters and scores see them: a placed pod counts at once, but its affinity not for all
pods.

Volcano lists the nodes with pods that have affinity when a session opens, and uses these lists until it closes. The
anti-affinity of a pod that is placed on another node takes effect only in the next session, and its preferences only
for pods that have preferences themselves: for those, all nodes are evaluated.
"""

from dataclasses import replace
from typing import Final

import msgspec

from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo, PodShape
from rota.scheduler.batch.tasks import Task


class Placements:
    """Pods that a session places and takes away, on the cluster that filters and scores look at."""

    __slots__ = ("_cluster", "_listed", "_muted", "_open", "_repelling", "_shapes")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        pods = {node.name: list(node.pods.values()) for node in cluster.node_infos()}
        self._repelling: Final = {
            name for name, held in pods.items() if any(pod.shape.required_anti_affinity for pod in held)
        }
        self._listed: Final = {name for name, held in pods.items() if any(pod.shape.has_affinity for pod in held)}
        #: By uid, pods whose preferences are known to some pods only, with their nodes.
        self._muted: Final[dict[str, tuple[PodInfo, str]]] = {}
        #: Whether preferences of these pods can be seen now.
        self._open = True
        self._shapes: Final[dict[tuple[PodShape, bool, bool], PodShape]] = {}

    def add(self, task: Task) -> None:
        """Place a pod."""
        shape, node = task.info.shape, task.node
        if (shape.preferred_affinity or shape.preferred_anti_affinity) and node not in self._listed:
            self._muted[task.uid] = task.info, node
        self._show(task.info, node)

    def remove(self, task: Task) -> None:
        """Take a pod away."""
        self._muted.pop(task.uid, None)
        self._cluster.remove_pod(task.uid)

    def prepare(self, task: Task) -> None:
        """Show or hide preferences for the next pod to be placed."""
        shape = task.info.shape
        wanted = bool(shape.preferred_affinity or shape.preferred_anti_affinity)
        if wanted == self._open:
            return
        self._open = wanted
        for info, node in self._muted.values():
            self._cluster.remove_pod(info.uid)
            self._show(info, node)

    def _show(self, info: PodInfo, node: str) -> None:
        repels = not info.shape.required_anti_affinity or node in self._repelling
        prefers = self._open or info.uid not in self._muted
        if not repels or not prefers:
            info = msgspec.structs.replace(info, shape=self._shape(info.shape, repels=repels, prefers=prefers))
        self._cluster.add_pod(info, node)

    def _shape(self, shape: PodShape, *, repels: bool, prefers: bool) -> PodShape:
        key = shape, repels, prefers
        known = self._shapes.get(key)
        if known is None:
            known = replace(
                shape,
                required_anti_affinity=shape.required_anti_affinity if repels else (),
                preferred_affinity=shape.preferred_affinity if prefers else (),
                preferred_anti_affinity=shape.preferred_anti_affinity if prefers else (),
            )
            self._shapes[key] = known
        return known
