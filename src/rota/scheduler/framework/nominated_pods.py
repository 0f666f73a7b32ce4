"""Nominated pods keep their place on the node where pods were evicted for them.

A node is feasible only if the pod fits both now and after the nominated pods have arrived. Only nominated pods of the
same or a higher priority count; the others would be preempted.
"""

from collections.abc import Mapping, Sequence

from rota.columns.arrays import BoolArray
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_results import PluginFailure
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Code, Status

#: Nominated pods by node name.
Nominations = Mapping[str, Sequence[PodInfo]]


class NominatedPodFilter:
    """The nominations that affect one pod, and their refusals."""

    __slots__ = ("_by_node", "_framework", "_pod", "refusals")

    def __init__(self, framework: Framework, pod: PodInfo, nominations: Nominations) -> None:
        self._framework = framework
        self._pod = pod
        self._by_node = {
            name: ahead
            for name, pods in nominations.items()
            if (ahead := [each for each in pods if each.priority >= pod.priority and each.uid != pod.uid])
        }
        self.refusals: dict[int, Status] = {}

    def refuse(self, state: CycleState, cluster: Cluster, feasible: BoolArray) -> None:
        """Clear the feasibility of nodes that do not fit once their nominated pods have arrived."""
        state.nominations = self._by_node
        for name, pods in self._by_node.items():
            node = cluster.by_name.get(name)
            if node is None or not feasible[node.row]:
                continue
            answer = self._framework.filter_with_nominated_pods(state, self._pod, node, pods)
            if answer.code is Code.ERROR:
                raise PluginFailure(answer)
            if not answer.ok:
                feasible[node.row] = False
                self.refusals[node.row] = answer
