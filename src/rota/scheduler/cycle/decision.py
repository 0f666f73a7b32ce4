"""One scheduling decision: the node for a pod and the reasons, on the cluster as it is now. Pure.

`Decider` keeps the evaluations of equal pods between decisions, so that only changed nodes are evaluated again. A
`Decision` computes details on demand; read it before the cluster changes.
"""

from collections import OrderedDict
from collections.abc import Hashable

from rota.columns.arrays import BoolArray
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo, PodShape
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework import stopwatch
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.nominated_pods import Nominations
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, NodeStatuses, PostFilterResult
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import SUCCESS, Code, Status, unschedulable

#: Limit of array cells in all kept evaluations: about 128 MiB.
KEPT_CELLS = 1 << 24
#: Approximate number of columns in an evaluation.
_COLUMNS = 12
FEWEST_KEPT = 8
#: Number of shapes that are remembered.
_SHAPES = 4096

NO_NODES = statuses.unresolvable("no nodes available to schedule pods")


class Decision:
    """The outcome for one pod."""

    __slots__ = ("evaluation", "post_filter", "row", "status")

    def __init__(self, evaluation: Evaluation, row: int, status: Status, post_filter: PostFilterResult | None) -> None:
        #: The results of all plugins for all nodes.
        self.evaluation = evaluation
        #: The chosen row, or -1.
        self.row = row
        #: Success, or the reason why the pod has no node.
        self.status = status
        #: The result of PostFilter if no node was feasible.
        self.post_filter = post_filter

    @property
    def node_name(self) -> str | None:
        """The chosen node."""
        node = self.evaluation.cluster.nodes[self.row] if self.row >= 0 else None
        return None if node is None else node.name


class Decider:
    """Decides for one profile on one cluster."""

    def __init__(self, framework: Framework, cluster: Cluster) -> None:
        self.framework = framework
        self.cluster = cluster
        self._kept = KeptEvaluations()
        self._by_shape: dict[tuple[PodShape, str], Evaluation] = {}
        #: Shapes that were evaluated at least once, most recent last.
        self._met: OrderedDict[tuple[PodShape, str], None] = OrderedDict()

    def evaluate(
        self, pod: PodInfo, *, nominations: Nominations | None = None, within: BoolArray | None = None
    ) -> Evaluation:
        """Filter and score all nodes, or only some rows; equal pods share the evaluation of all rows."""
        if nominations or within is not None:
            return Evaluation(self.framework, pod, self.cluster, nominations=nominations, within=within)
        known = self._by_shape.get((pod.shape, pod.node_name))
        if known is None:
            return self._find(pod)
        known.refresh(pod)
        return known

    def decide(self, pod: PodInfo, *, nominations: Nominations | None = None, start: int = 0) -> Decision:
        """Choose a node, or find a way to make room for the pod.

        Of several best nodes the first at or after row `start` is chosen. Give different values to deciders that work
        on the same cluster, so that they do not all choose the same node.
        """
        evaluation = self.evaluate(pod, nominations=nominations)
        if evaluation.failure is not None:
            return Decision(evaluation, -1, evaluation.failure, None)
        row = evaluation.best_row(start)
        if row >= 0:
            return Decision(evaluation, row, SUCCESS, None)
        if not self.cluster.by_name:
            return Decision(evaluation, -1, NO_NODES, None)
        return self.make_room(evaluation, start=start)

    def make_room(self, evaluation: Evaluation, *, start: int = 0, verdicts: NodeStatuses | None = None) -> Decision:
        """Run PostFilter after no node was feasible; the attempt ends without a node whatever the result.

        `verdicts` has the reasons if extenders have refused nodes as well as plugins.
        """
        watch = self.framework.stopwatch
        began = watch.start()
        decision = self._asked_for_room(evaluation, start, verdicts)
        status = decision.status if decision.post_filter is None else decision.post_filter.status
        watch.observe_duration(stopwatch.POST_FILTER, status.code, began)
        return decision

    def _asked_for_room(self, evaluation: Evaluation, start: int, verdicts: NodeStatuses | None) -> Decision:
        refusal = evaluation.pre_filter_status
        if refusal.ok:
            refusal = unschedulable(f"0/{len(self.cluster.by_name)} nodes are available")
        evaluation.state.start = start
        last: PostFilterResult | None = None
        for plugin in self.framework.at(ExtensionPoint.POST_FILTER):
            try:
                result: PostFilterResult = plugin.post_filter(
                    evaluation.state, evaluation.pod, self.cluster, evaluation if verdicts is None else verdicts
                )
                answer = result.status.by(plugin.name)
            except Exception as error:  # noqa: BLE001 - plugins are other people's code
                return Decision(evaluation, -1, statuses.fault(error, plugin=plugin.name), None)
            if answer.ok or answer.code is Code.UNRESOLVABLE:
                last = result
                break
            if answer.code is not Code.UNSCHEDULABLE:
                return Decision(evaluation, -1, answer, None)
            if last is None or result.nominated_node is not None:
                last = result
        return Decision(evaluation, -1, refusal, last)

    def _find(self, pod: PodInfo) -> Evaluation:
        key = pod.shape, pod.node_name
        if key not in self._met:
            # Most shapes that occur once do not occur again, so the first evaluation is not kept.
            self._met[key] = None
            if len(self._met) > _SHAPES:
                self._met.popitem(last=False)
            return Evaluation(self.framework, pod, self.cluster)
        parts = self.framework.signature(pod)
        if parts is None:
            return Evaluation(self.framework, pod, self.cluster)
        signature = Signature(parts)
        found = self._kept.get(signature)
        if found is None:
            found = Evaluation(self.framework, pod, self.cluster)
            limit = KEPT_CELLS // (_COLUMNS * max(self.cluster.size, 1))
            crowded = self._kept.put(signature, found, limit=limit)
        else:
            crowded = len(self._by_shape) > _SHAPES
            found.refresh(pod)
        if crowded:
            self._by_shape.clear()  # otherwise it would keep dropped evaluations alive
        self._by_shape[key] = found
        return found


class Signature:
    """A signature that computes its expensive hash once."""

    __slots__ = ("_hash", "parts")

    def __init__(self, parts: Hashable) -> None:
        self.parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and self.parts == other.parts


class KeptEvaluations:
    """Evaluations by signature, evicted in least-recently-used order."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[Signature, Evaluation] = OrderedDict()

    def get(self, signature: Signature) -> Evaluation | None:
        """The evaluation for a signature; marks it as used."""
        found = self._kept.get(signature)
        if found is not None:
            self._kept.move_to_end(signature)
        return found

    def put(self, signature: Signature, evaluation: Evaluation, *, limit: int) -> bool:
        """Keep an evaluation; returns whether another one was evicted."""
        self._kept[signature] = evaluation
        crowded = len(self._kept) > max(limit, FEWEST_KEPT)
        if crowded:
            self._kept.popitem(last=False)
        return crowded
