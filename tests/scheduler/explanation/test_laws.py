"""What holds of every explanation: it agrees with the decision, and doing as it says helps."""

import copy
import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rota.api import amounts, quantities, resources
from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.explanation import analysis
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.hints.explanation_report import Explanation
from rota.scheduler.plugin_registry import builtin
from rota.testing import clusters
from rota.testing.clusters import LAW, Document

pytestmark = pytest.mark.slow

Situation = tuple[list[Document], list[Document]]
_NEED = re.compile(r"needs (?P<what>.+) on (?P<node>\S+)")
_MORE = re.compile(r"(?P<amount>\S+) more (?P<resource>\S+)")


class World:
    def __init__(self, nodes: list[Document], placed: list[Document]) -> None:
        self.interner = PodInterner()
        self.cluster: Cluster = clusters.build(nodes, placed, self.interner)
        registry = builtin.registry()
        self.framework = Framework(resolution.default(specs_of(registry)).first, registry)

    def pod(self, document: Document) -> PodInfo:
        return self.interner.pod(document)

    def explain(self, document: Document, node: str = "") -> Explanation:
        return analysis.explain(self.framework, self.cluster, self.pod(document), node_name=node)

    def feasible(self, document: Document) -> set[str]:
        evaluation = Decider(self.framework, self.cluster).evaluate(self.pod(document))
        return {node.name for node in self.cluster.node_infos() if evaluation.feasible[node.row]}


@LAW
@given(clusters.situations(), clusters.pods("w"))
def test_an_explanation_agrees_with_the_decision(situation: Situation, wanted: Document) -> None:
    world = World(*situation)
    told = world.explain(wanted)
    decision = Decider(world.framework, world.cluster).decide(world.pod(wanted))
    evaluation = decision.evaluation
    assume(evaluation.failure is None)
    assert {node.name for node in told.nodes if node.feasible} == world.feasible(wanted)
    best = {info.name for info in world.cluster.node_infos() if info.row in set(evaluation.best_rows().tolist())}
    assert {node.name for node in told.nodes if node.best} == best
    for node in told.nodes:
        status = evaluation.status_of(world.cluster.by_name[node.name].row)
        assert node.feasible is (not node.refusals) is status.ok
        if node.feasible:
            assert node.total == sum(score.weighted for score in node.scores)
        else:
            assert status.plugin in {refusal.plugin for refusal in node.refusals}
    room = decision.post_filter
    assert told.nominated == ((room.nominated_node or "") if room is not None and room.status.ok else "")


@LAW
@given(clusters.situations(), clusters.pods("w"))
def test_giving_a_node_what_it_is_said_to_lack_makes_it_feasible(situation: Situation, wanted: Document) -> None:
    nodes, placed = situation
    world = World(nodes, placed)
    for position, node in enumerate(nodes):
        name = node["metadata"]["name"]
        told = world.explain(wanted, name)
        if len(told.changes) != 1 or not (need := _NEED.fullmatch(told.changes[0].text)):
            continue
        assert need["node"] == name
        enlarged = copy.deepcopy(node)
        offered = enlarged["status"]["allocatable"]
        for part in need["what"].split(" and "):
            if part == "room for one more pod":
                offered["pods"] = str(quantities.value(offered.get("pods", "0")) + 1 + len(placed))
            else:
                more = _MORE.fullmatch(part)
                assert more is not None, part
                sum_of = quantities.parse(offered.get(more["resource"], "0")) + quantities.parse(more["amount"])
                offered[more["resource"]] = str(sum_of)
        better = World([*nodes[:position], enlarged, *nodes[position + 1 :]], placed)
        assert name in better.feasible(wanted), told.changes[0].text


@LAW
@given(clusters.situations(most_nodes=2, most_pods=12), clusters.pods("w"))
def test_evicting_the_named_victims_makes_the_node_feasible(situation: Situation, drawn: Document) -> None:
    nodes, placed = situation
    wanted = {**drawn, "spec": {**drawn["spec"], "priority": 100}}
    world = World(nodes, placed)
    told = world.explain(wanted)
    for node in told.nodes:
        if node.eviction is None or not node.eviction.victims:
            continue
        gone = {(victim.namespace, victim.name) for victim in node.eviction.victims}
        left = [pod for pod in placed if (pod["metadata"]["namespace"], pod["metadata"]["name"]) not in gone]
        assert node.name in World(nodes, left).feasible(wanted)
        assert all(victim.priority < world.pod(wanted).priority for victim in node.eviction.victims)


def test_amounts_are_read_as_they_are_written() -> None:
    assert quantities.parse(resources.shown("cpu", 500)) == quantities.parse("0.5")
    assert quantities.parse(resources.shown("memory", 3 << 29)) == quantities.parse("1536Mi")


@given(st.integers(1, 2**60))
@example((8 << 50) + 1)
@example(2**57 + 1)
def test_a_needed_amount_is_never_shown_as_less(amount: int) -> None:
    shown = quantities.parse(amounts.at_least("memory", amount))
    assert amount <= quantities.value(str(shown)) <= max(amount + 1, amount * 1.01)
