"""predicates: the filters of the stock scheduler, and the number of pods that a node takes.

Filters that look only at nodes are asked once for all pods of one shape. Pods that a session places, and those that it
lets leave, are counted at once.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import BoolArray, CodeArray, IndexArray
from rota.columns.pods import PodShape
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.plugin import BatchPlugin, Trial
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import FINAL, Verdicts
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import Enabled, ProfileSpec
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.plugin_registry import builtin

TOO_MANY_PODS: Final = "node(s) pod number exceeded"
INTER_POD: Final = "InterPodAffinity"

_STABLE: Final = {
    "NodeUnschedulable": None,
    "NodeAffinity": "predicate.NodeAffinityEnable",
    "TaintToleration": "predicate.TaintTolerationEnable",
}
_MOVING: Final = {
    "NodePorts": "predicate.NodePortsEnable",
    INTER_POD: "predicate.PodAffinityEnable",
    "NodeVolumeLimits": "predicate.NodeVolumeLimitsEnable",
    "VolumeZone": "predicate.VolumeZoneEnable",
    "PodTopologySpread": "predicate.PodTopologySpreadEnable",
    "VolumeBinding": "predicate.VolumeBindingEnable",
}
#: What a filter said: rows with the status that all of them got.
_Said = list[tuple[BoolArray, Status]]


class Predicates(BatchPlugin):
    """Filter nodes."""

    name: ClassVar[str] = "predicates"
    filters_alone: ClassVar[bool] = True
    arguments: ClassVar[Mapping[str, Argument]] = {
        **{switch: Argument(args.boolean, True) for switch in (*_STABLE.values(), *_MOVING.values()) if switch},
        # Answers that depend on nodes alone are always kept; the switch is honoured either way.
        "predicate.CacheEnable": Argument(args.boolean, False),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._nodes = session.nodes
        self._cluster = session.cluster
        self._placements = session.placements
        stable, moving = (
            [name for name, switch in filters.items() if switch is None or arguments[switch]]
            for filters in (_STABLE, _MOVING)
        )
        framework = _framework([*stable, *moving])
        self._stable: Final = [framework.plugins[name] for name in stable]
        self._moving: Final = [framework.plugins[name] for name in moving]
        self._by_shape: dict[PodShape, _Said] = {}
        self._states: dict[str, CycleState] = {}
        #: By shape, the version of affinity terms and the nodes that are refused by themselves.
        self._alone: dict[PodShape, tuple[int, BoolArray | None]] = {}

    # --- judging ----------------------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> str | None:
        """Let filters look at the cluster as it is now."""
        state = CycleState(self._cluster)
        self._states[task.uid] = state
        for plugin in self._moving:
            if not hasattr(plugin, "pre_filter"):
                continue
            status = plugin.pre_filter(state, task.info, self._cluster).status
            if status.skipped:
                state.skip_filter.add(plugin.name)
            elif not status.ok:
                return ", ".join(status.reasons)
        return None

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Judge all nodes; a filter that no eviction can please ends the judgement of a node."""
        verdicts = Verdicts(len(rows))
        crowded = self._nodes.most_pods <= self._cluster.pod_count[: len(rows)]
        if crowded.any():
            verdicts.refuse(crowded, Code.UNSCHEDULABLE, TOO_MANY_PODS)
        left: BoolArray = np.ones(len(rows), dtype=np.bool_)
        for refused, status in self._said_of_nodes(task):
            left = self._note(verdicts, refused, status, left)
        state = self._states.get(task.uid)
        if state is None:
            self.pre_predicate(task)
            state = self._states[task.uid]
        for plugin in self._moving:
            if plugin.name not in state.skip_filter:
                for refused, status in self._asked(plugin, state, task):
                    left = self._note(verdicts, refused, status, left)
        return verdicts if verdicts.reasons else None

    @staticmethod
    def _note(verdicts: Verdicts, refused: BoolArray, status: Status, left: BoolArray) -> BoolArray:
        rows = refused & left
        if not rows.any():
            return left
        for reason in status.reasons or ("",):
            verdicts.refuse(rows, status.code, reason)
        return left & ~rows if status.code in FINAL else left

    def _said_of_nodes(self, task: Task) -> _Said:
        shape = task.info.shape
        said = self._by_shape.get(shape)
        if said is None:
            state = CycleState(self._cluster)
            said = self._by_shape[shape] = [
                each for plugin in self._stable for each in self._asked(plugin, state, task)
            ]
        return said

    def _asked(self, plugin: Any, state: CycleState, task: Task) -> _Said:
        cluster = self._cluster
        if not hasattr(plugin, "filter_nodes"):
            return self._asked_singly(plugin, state, task)
        codes: CodeArray | None = plugin.filter_nodes(state, task.info, cluster, cluster.rows)
        if codes is None or not codes.any():
            return []
        return [
            (codes == code, plugin.explain(state, task.info, int(code))) for code in np.unique(codes).tolist() if code
        ]

    def _asked_singly(self, plugin: Any, state: CycleState, task: Task) -> _Said:
        said: dict[Status, BoolArray] = {}
        for node in self._cluster.node_infos():
            status = plugin.filter(state, task.info, node)
            if status is not None and not status.ok:
                rows = said.setdefault(status, np.zeros(self._cluster.size, dtype=np.bool_))
                rows[node.row] = True
        return [(rows, status) for status, rows in said.items()]

    def trial(self, task: Task, row: int) -> Trial:
        """In trials, affinity to other pods counts."""
        state = self._states.get(task.uid)
        plugin = next((each for each in self._moving if each.name == INTER_POD), None)
        if state is None or plugin is None or INTER_POD in state.skip_filter:
            return Trial()
        return _AffinityTrial(plugin, state.clone(), task, self._cluster.nodes[row])

    def refused_alone(self, task: Task) -> BoolArray | None:
        """The nodes that filters refuse by the nodes alone; None if a filter looks at other pods for this pod."""
        shape, version = task.info.shape, self._cluster.terms.version
        known = self._alone.get(shape)
        if known is None or known[0] != version:
            refused = np.zeros(self._cluster.size, dtype=np.bool_) if self._looks_at_nodes(task) else None
            if refused is not None:
                for rows, _ in self._said_of_nodes(task):
                    refused |= rows
            known = self._alone[shape] = version, refused
        return known[1]

    def _looks_at_nodes(self, task: Task) -> bool:
        state = CycleState(self._cluster)
        return all(
            hasattr(plugin, "pre_filter") and plugin.pre_filter(state, task.info, self._cluster).status.skipped
            for plugin in self._moving
        )

    def crowded(self, rows: IndexArray) -> BoolArray:
        """Which of the nodes have no place for another pod."""
        full: BoolArray = self._nodes.most_pods[rows] <= self._cluster.pod_count[rows]
        return full

    def is_crowded(self, row: int) -> bool:
        """Whether a node has no place for another pod."""
        return bool(self._nodes.most_pods[row] <= self._cluster.pod_count[row])

    # --- following --------------------------------------------------------------------------------------------------

    def on_allocate(self, task: Task) -> None:
        """Count a pod in, unless its eviction was only taken back: Volcano does not count that pod again."""
        if task.status is TaskStatus.RUNNING:
            return
        self._placements.add(task)

    def on_deallocate(self, task: Task) -> None:
        """Count a pod out."""
        self._placements.remove(task)


class _AffinityTrial(Trial):
    def __init__(self, plugin: Any, state: CycleState, task: Task, node: Any) -> None:
        self._plugin, self._state, self._task, self._node = plugin, state, task, node

    def remove(self, other: Task) -> bool:
        return bool(self._plugin.remove_pod(self._state, self._task.info, other.info, self._node).ok)

    def add(self, other: Task) -> bool:
        return bool(self._plugin.add_pod(self._state, self._task.info, other.info, self._node).ok)

    def fits(self, task: Task) -> bool:
        return bool(self._plugin.filter(self._state, task.info, self._node).ok)


def _framework(names: list[str]) -> Framework:
    points = {ExtensionPoint.FILTER: tuple(Enabled(name) for name in names)}
    return Framework(ProfileSpec(points=points), builtin.registry())
