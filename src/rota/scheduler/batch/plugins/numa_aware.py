"""numa-aware: pods that ask for a NUMA policy go to nodes whose kubelet has it and can keep it.

A pod names its policy by the annotation `volcano.sh/numa-topology-policy` (a Job's task by `topologyPolicy`). The node
must report the same policy and the static CPU manager in its Numatopology, and must have whole CPUs for every container
of a Guaranteed pod as the policy asks. Nodes where the pod's CPUs come from fewer NUMA nodes are preferred.

Free CPUs are those of the Numatopology, less the CPUs of pods that are bound and not running yet and of those that this
session places. The kubelet chooses the CPUs; what is counted here are numbers of CPUs.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from rota.api import resources
from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch import numa_topologies
from rota.scheduler.batch.amounts import CPU, MEMORY
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.numa_topologies import NumaTopology
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import Verdicts
from rota.scheduler.framework.status import Code

ANNOTATION: Final = "volcano.sh/numa-topology-policy"
MAX_SCORE: Final = 100.0
UNKNOWN: Final = "node(s) have no NUMA topology"
OTHER_POLICY: Final = "node(s) have another NUMA policy"
NOT_STATIC: Final = "node(s) have no static CPU manager"
NO_PLACE: Final = "node(s) cannot keep the NUMA policy"
_MILLI: Final = 1000
_RESTING: Final = frozenset({TaskStatus.BINDING, TaskStatus.BOUND})


class NumaAware(BatchPlugin):
    """Filter and score by NUMA topology."""

    name: ClassVar[str] = "numa-aware"
    arguments: ClassVar[Mapping[str, Argument]] = {"weight": Argument(args.integer, 1)}

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._nodes: Final = session.nodes
        self._weight: Final[int] = arguments["weight"]
        self._topologies: Final[Mapping[str, NumaTopology]] = session.state.numa
        #: By node, the CPUs that are free of each NUMA node.
        self._free: Final = {name: dict(topology.free) for name, topology in self._topologies.items()}
        #: By uid, the node and the CPUs that a pod was given.
        self._given: Final[dict[str, tuple[str, dict[int, int]]]] = {}
        for tasks in session.nodes.tasks:
            for task in tasks.values():
                if task.status in _RESTING:
                    self._take(task)

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Refuse nodes that do not have the pod's policy or cannot keep it."""
        policy = _policy(task)
        if not policy:
            return None
        wanted, verdicts = _containers(task), Verdicts(len(rows))
        masks: dict[tuple[Code, str], BoolArray] = {}
        for row in np.flatnonzero(rows).tolist():
            said = self._refusal(self._nodes.names[row], policy, wanted)
            if said is not None:
                masks.setdefault(said, np.zeros(len(rows), dtype=np.bool_))[row] = True
        for (code, reason), mask in masks.items():
            verdicts.refuse(mask, code, reason)
        return verdicts if verdicts.reasons else None

    def _refusal(self, node: str, policy: str, wanted: list[int]) -> tuple[Code, str] | None:
        topology = self._topologies.get(node)
        if topology is None:
            return Code.UNRESOLVABLE, UNKNOWN
        if topology.topology_policy != policy:
            return Code.UNRESOLVABLE, OTHER_POLICY
        if topology.cpu_policy != numa_topologies.STATIC:
            return Code.UNRESOLVABLE, NOT_STATIC
        if numa_topologies.assign(topology, self._free[node], wanted, policy) is None:
            return Code.UNSCHEDULABLE, NO_PLACE
        return None

    def batch_node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate nodes by the number of NUMA nodes that they would use, in comparison."""
        policy = _policy(task)
        if not policy or not self._weight:
            return np.zeros(len(rows))
        wanted = _containers(task)
        used = np.array([self._spread(self._nodes.names[row], policy, wanted) for row in rows.tolist()], dtype=float)
        most = used.max(initial=0.0)
        return np.asarray(MAX_SCORE * self._weight * (1.0 - used / most if most else np.ones(len(rows))))

    def _spread(self, node: str, policy: str, wanted: list[int]) -> int:
        topology = self._topologies.get(node)
        found = None if topology is None else numa_topologies.assign(topology, self._free[node], wanted, policy)
        return len(found or ())

    def compares(self, task: Task) -> bool:
        """Only pods with a policy are compared."""
        return bool(_policy(task))

    def on_allocate(self, task: Task) -> None:
        """Count the CPUs of a pod; one whose eviction was taken back never lost them."""
        if task.status is not TaskStatus.RUNNING:
            self._take(task)

    def on_deallocate(self, task: Task) -> None:
        """Count the CPUs of a pod that gives up its place as free."""
        node, cpus = self._given.pop(task.uid, ("", {}))
        for numa, number in cpus.items():
            self._free[node][numa] += number

    def _take(self, task: Task) -> None:
        policy, topology = _policy(task), self._topologies.get(task.node)
        if not policy or topology is None:
            return
        cpus = numa_topologies.assign(topology, self._free[task.node], _containers(task), policy)
        if cpus:
            self._given[task.uid] = task.node, cpus
            for numa, number in cpus.items():
                self._free[task.node][numa] -= number


def _policy(task: Task) -> str:
    """Give the policy of a pod; "" if it has none."""
    named = task.annotations.get(ANNOTATION, "")
    return "" if named == "none" else named


def _containers(task: Task) -> list[int]:
    """Give the numbers of CPUs that the kubelet sets aside for each container: whole CPUs of Guaranteed pods."""
    manifest = task.info.manifest
    if manifest is None:  # a pod that has a node already: its containers are counted as one
        return [] if task.info.shape.requests.get(CPU, 0) % _MILLI else [task.info.shape.requests.get(CPU, 0) // _MILLI]
    numbers = []
    for container in (manifest.get("spec") or {}).get("containers") or ():
        asked = container.get("resources") or {}
        requests, limits = asked.get("requests") or asked.get("limits") or {}, asked.get("limits") or {}
        for name in (CPU, MEMORY):
            if name not in limits or resources.amount(name, limits[name]) != resources.amount(
                name, requests.get(name, limits[name])
            ):
                return []
        milli = resources.amount(CPU, limits[CPU])
        if milli and milli % _MILLI == 0:
            numbers.append(milli // _MILLI)
    return numbers
