"""The rules for calling plugins: forms are mixed, faults stay with their plugin, nothing is placed on a guess."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from rota.columns.arrays import BoolArray, CodeArray, IntArray, Rows
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider, Decision
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, PreFilterResult, points_of
from rota.scheduler.framework.registry import Enabled, Handle, NoArgs, ProfileSpec, Registry
from rota.scheduler.framework.runtime import Framework, UnboundError
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status, unresolvable, unschedulable
from rota.scheduler.plugin_registry import builtin
from rota.testing.clusters import build, make_node, make_pod

TOO_ODD = unschedulable("odd number")
NOT_HERE = unresolvable("not here")


class Base:
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass


def number_of(node: NodeInfo) -> int:
    return int(node.name.removeprefix("n"))


class OddScalar(Base):
    name: ClassVar[str] = "Odd"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        return TOO_ODD if number_of(node) % 2 else SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return number_of(node)

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: Mapping[str, int]) -> Mapping[str, int]:
        highest = max(scores.values())
        return {name: 100 * score // (highest or 1) for name, score in scores.items()}


class OddVector(Base):
    name: ClassVar[str] = "Odd"

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
        return self._numbers(cluster, rows) % 2

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return TOO_ODD

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        return self._numbers(cluster, rows)

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> int:
        return int(scores.max(initial=0))

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        return 100 * scores // (bounds or 1)

    def _numbers(self, cluster: Cluster, rows: Rows) -> IntArray:
        every = np.array([number_of(node) if node else 0 for node in cluster.nodes], dtype=np.int64)
        return every[rows]


class Picky(Base):
    """Fails, or misbehaves, at one chosen point."""

    name: ClassVar[str] = "Picky"
    at: ClassVar[str] = ""
    outcome: ClassVar[Any] = None

    def _meet(self, point: str, otherwise: Any) -> Any:
        if point != self.at:
            return otherwise
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        answer: PreFilterResult = self._meet("pre_filter", PreFilterResult())
        return answer

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        answer: Status = self._meet("filter", SUCCESS)
        return answer

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status:
        answer: Status = self._meet("pre_score", SUCCESS)
        return answer

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        score: int = self._meet("score", 1)
        return score


def picky(point: str, outcome: Any) -> type[Picky]:
    return type("PickyHere", (Picky,), {"at": point, "outcome": outcome})


def framework_of(*plugins: Any, weight: int = 1) -> Framework:
    points = {
        point: tuple(Enabled(plugin.name, weight) for plugin in plugins if point in points_of(plugin))
        for point in ExtensionPoint
    }
    return Framework(ProfileSpec(points=points), Registry(plugins))


def decide(framework: Framework, *, nodes: int = 4, **spec: Any) -> Decision:
    interner = PodInterner()
    cluster = build([make_node(f"n{number}") for number in range(nodes)], [], interner)
    return Decider(framework, cluster).decide(interner.pod(make_pod("p", **spec)))


@pytest.mark.parametrize("plugin", [OddScalar, OddVector])
def test_a_plugin_may_have_either_form(plugin: Any) -> None:
    decision = decide(framework_of(plugin, weight=3))
    assert decision.node_name == "n2"
    assert decision.evaluation.status_of(1) == TOO_ODD.by("Odd")
    assert decision.evaluation.scores_of(0) == {"Odd": 0}
    assert decision.evaluation.scores_of(2) == {"Odd": 300}


def test_both_forms_are_mixed_in_one_profile() -> None:
    vector = type("Other", (OddVector,), {"name": "Other"})
    fit = builtin.registry()["NodeResourcesFit"]
    decision = decide(framework_of(OddScalar, fit, vector))
    assert decision.node_name == "n2"
    assert decision.evaluation.scores_of(2) == {"Odd": 100, "NodeResourcesFit": 97, "Other": 100}


@pytest.mark.parametrize("point", ["pre_filter", "filter", "pre_score", "score"])
def test_a_plugin_that_raises_gives_an_error_under_its_name_and_nothing_is_placed(point: str) -> None:
    decision = decide(framework_of(OddVector, picky(point, RuntimeError("disk on fire"))))
    assert decision.node_name is None
    assert (decision.status.code, decision.status.plugin) == (Code.ERROR, "Picky")
    assert decision.status.reasons == ("RuntimeError: disk on fire",)
    assert not decision.evaluation.feasible.any()


def test_a_vector_filter_that_raises_gives_an_error_under_its_name() -> None:
    class Broken(OddVector):
        def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
            raise ValueError("no columns")

    decision = decide(framework_of(Broken))
    assert (decision.status.code, decision.status.plugin) == (Code.ERROR, "Odd")


def test_an_answer_that_has_no_business_at_a_point_is_an_error() -> None:
    decision = decide(framework_of(picky("filter", Status(Code.WAIT, ("later",)))))
    assert (decision.status.code, decision.status.plugin) == (Code.ERROR, "Picky")


@pytest.mark.parametrize("score", [-1, 101])
def test_a_score_out_of_range_is_an_error(score: int) -> None:
    decision = decide(framework_of(picky("score", score)))
    assert (decision.status.code, decision.status.plugin) == (Code.ERROR, "Picky")
    assert str(score) in decision.status.reasons[0]


@pytest.mark.parametrize("outcome", [RuntimeError("oops"), None])
def test_post_filter_that_fails_is_an_error(outcome: Any) -> None:
    class Saviour(Picky):
        name: ClassVar[str] = "Saviour"
        at: ClassVar[str] = "post_filter"

        def post_filter(self, *args: Any) -> Any:
            return self._meet("post_filter", outcome)

    Saviour.outcome = outcome
    decision = decide(framework_of(picky_filter(unschedulable("full")), Saviour))
    assert (decision.status.code, decision.status.plugin) == (Code.ERROR, "Saviour")


def test_a_plugin_that_answers_nothing_agrees() -> None:
    class Silent(Base):
        name: ClassVar[str] = "Silent"

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
            return None

        def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> None:
            return None

    assert decide(framework_of(Silent)).node_name == "n0"


def picky_filter(answer: Status) -> Any:
    class Refuses(Base):
        name: ClassVar[str] = "Refuses"

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
            return answer

    return Refuses


def renamed(plugin: Any, name: str) -> Any:
    return type(name, (plugin,), {"name": name})


def test_pre_filter_that_is_unresolvable_ends_the_attempt_at_once() -> None:
    second = renamed(picky("pre_filter", RuntimeError("must not run")), "Second")
    decision = decide(framework_of(picky("pre_filter", PreFilterResult(NOT_HERE)), second))
    assert decision.evaluation.pre_filter_status == NOT_HERE.by("Picky")
    assert decision.status == NOT_HERE.by("Picky")


def test_pre_filter_that_is_unschedulable_lets_the_others_run_first() -> None:
    second = renamed(picky("pre_filter", PreFilterResult(NOT_HERE)), "Second")
    decision = decide(framework_of(picky("pre_filter", PreFilterResult(TOO_ODD)), second))
    assert decision.status == NOT_HERE.by("Second")
    alone = decide(framework_of(picky("pre_filter", PreFilterResult(TOO_ODD))))
    assert alone.status == TOO_ODD.by("Picky")


def test_node_names_of_several_plugins_are_intersected() -> None:
    first = picky("pre_filter", PreFilterResult(node_names=frozenset({"n0", "n1"})))
    second = renamed(picky("pre_filter", PreFilterResult(node_names=frozenset({"n1", "n2"}))), "Second")
    decision = decide(framework_of(first, second))
    assert decision.node_name == "n1"
    assert decision.evaluation.status_of(0).plugin == "PreFilter"
    third = renamed(picky("pre_filter", PreFilterResult(node_names=frozenset({"n3"}))), "Third")
    refused = decide(framework_of(first, third))
    assert refused.status.reasons == ("node(s) didn't satisfy plugin(s) [Picky Third] simultaneously",)


def test_a_sieve_spares_the_scalar_filter_most_nodes() -> None:
    asked: list[str] = []

    class Sieved(Base):
        name: ClassVar[str] = "Sieved"

        def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
            candidates = np.zeros(cluster.size, dtype=np.bool_)
            candidates[2] = True
            return PreFilterResult(candidates=candidates, refusal=NOT_HERE)

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
            asked.append(node.name)
            return SUCCESS

    decision = decide(framework_of(Sieved))
    assert decision.node_name == "n2"
    assert asked == ["n2"]
    assert decision.evaluation.status_of(0) == NOT_HERE.by("Sieved")


def test_of_equal_nodes_the_first_at_or_after_start_is_taken() -> None:
    interner = PodInterner()
    cluster = build([make_node(f"n{number}") for number in range(4)], [], interner)
    decider = Decider(framework_of(builtin.registry()["NodeName"]), cluster)
    pod = interner.pod(make_pod("p"))
    assert [decider.decide(pod, start=start).node_name for start in (0, 2, 3, 4)] == ["n0", "n2", "n3", "n0"]


def test_no_nodes_is_a_refusal() -> None:
    assert decide(framework_of(OddVector), nodes=0).status.code is Code.UNRESOLVABLE


def test_nominated_pods_of_the_same_or_a_higher_priority_hold_their_place() -> None:
    interner = PodInterner()
    cluster = build([make_node("a", cpu="2"), make_node("b", cpu="1")], [], interner)
    registry = builtin.registry()
    decider = Decider(Framework(resolution.default(specs_of(registry)).first, registry), cluster)
    pod = interner.pod(make_pod("p", cpu="1", priority=10))
    assert decider.decide(pod).node_name == "a"
    for priority, chosen in ((9, "a"), (10, "b"), (11, "b")):
        coming = interner.pod(make_pod("coming", cpu="2", priority=priority))
        decision = decider.decide(pod, nominations={"a": [coming]})
        assert decision.node_name == chosen
        expected = ("NodeResourcesFit", Code.UNSCHEDULABLE) if chosen == "b" else ("", Code.SUCCESS)
        assert (decision.evaluation.status_of(0).plugin, decision.evaluation.status_of(0).code) == expected


def test_a_plugin_without_a_signature_is_asked_every_time() -> None:
    asked = 0

    class Fickle(Base):
        name: ClassVar[str] = "Fickle"

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
            nonlocal asked
            asked += 1
            return SUCCESS

    interner = PodInterner()
    cluster = build([make_node("n0")], [], interner)
    decider = Decider(framework_of(Fickle), cluster)
    for number in range(3):
        decider.decide(interner.pod(make_pod(f"p{number}")))
    assert asked == 3


def test_a_plugin_is_registered_once_and_must_take_part_somewhere() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        Registry([OddScalar, OddVector])
    with pytest.raises(ValueError, match="no method of any extension point"):
        Registry([type("Idle", (Base,), {"name": "Idle"})])
    with pytest.raises(LookupError, match="no plugin named 'Absent'"):
        Registry([OddScalar])["Absent"]


def test_a_framework_without_a_binder_says_so() -> None:
    with pytest.raises(UnboundError, match="build it with a binder"):
        _ = framework_of(OddScalar).binder


def test_cycle_state_clones_what_changes_and_shares_the_rest() -> None:
    class Count:
        def __init__(self, number: int) -> None:
            self.number = number

        def clone(self) -> "Count":
            return Count(self.number)

    state = CycleState()
    state.write("counted", Count(1))
    state.write("shared", shared := object())
    copy = state.clone()
    copy.read("counted", Count).number = 2
    assert state.read("counted", Count).number == 1
    assert copy.read("shared", object) is shared
    state.delete("shared")
    assert state.find("shared", object) is None
    with pytest.raises(LookupError, match="PreFilter or PreScore"):
        state.read("shared", object)


def test_a_refreshed_evaluation_still_holds_the_places_of_nominated_pods() -> None:
    interner = PodInterner()
    cluster = build([make_node("a", cpu="4"), make_node("b", cpu="1")], [], interner)
    registry = builtin.registry()
    framework = Framework(resolution.default(specs_of(registry)).first, registry)
    pod = interner.pod(make_pod("p", cpu="1", priority=10))
    coming = interner.pod(make_pod("coming", cpu="3", priority=10))
    evaluation = Evaluation(framework, pod, cluster, nominations={"a": [coming]})
    assert evaluation.feasible.tolist() == [True, True]
    cluster.add_pod(interner.pod(make_pod("other", cpu="1", on="a")))
    evaluation.refresh(pod)
    assert evaluation.feasible.tolist() == [False, True]
    assert evaluation.status_of(0).plugin == "NodeResourcesFit"


def test_a_refreshed_evaluation_stays_within_the_rows_that_it_was_made_for() -> None:
    interner = PodInterner()
    cluster = build([make_node("a"), make_node("b")], [], interner)
    framework = framework_of(builtin.registry()["NodeName"])
    pod = interner.pod(make_pod("p"))
    evaluation = Evaluation(framework, pod, cluster, within=np.array([True, False]))
    cluster.set_node(read_node(make_node("b", labels={"new": "label"})))
    evaluation.refresh(pod)
    assert evaluation.feasible.tolist() == [True, False]
    cluster.set_node(read_node(make_node("c")))
    evaluation.refresh(pod)
    assert evaluation.feasible[: cluster.size].tolist() == [True, False, False]
