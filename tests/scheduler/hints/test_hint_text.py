"""The sentence in the event of a pod that has no node."""

import pytest
from hypothesis import given

from rota.columns.pod_interner import PodInterner
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.explanation.node_tables import Obstacles
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.hints import hint_text, required_changes
from rota.scheduler.plugin_registry import builtin
from rota.testing import clusters
from rota.testing.clusters import LAW, Document, make_node, make_pod
from rota.testing.schedulers import SchedulingCluster, cluster


def brief(nodes: list[Document], placed: list[Document], wanted: Document) -> str:
    interner, registry = PodInterner(), builtin.registry()
    framework = Framework(resolution.default(specs_of(registry)).first, registry)
    decider = Decider(framework, clusters.build(nodes, placed, interner))
    return hint_text.brief(decider.evaluate(interner.pod(wanted)))


def tainted(name: str, *keys: str) -> Document:
    node = make_node(name)
    node["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"} for key in keys]
    return node


def test_shortages_and_taints_are_named() -> None:
    nodes = [make_node("n1"), make_node("n2"), tainted("t1", "gpu"), tainted("t2", "gpu", "spot")]
    placed = [make_pod("a", on="n1", cpu="3"), make_pod("b", on="n2", cpu="3"), make_pod("c", on="t1", cpu="4")]
    assert brief(nodes, placed, make_pod("web", cpu="3")) == (
        "Needs 2 more cpu on any of 2 nodes; 2 nodes excluded by taint gpu:NoSchedule; "
        "1 node excluded by taint spot:NoSchedule."
    )


def test_the_nearest_node_is_named_where_they_differ() -> None:
    placed = [make_pod("a", on="n1", cpu="3"), make_pod("b", on="n2", cpu="2")]
    assert brief([make_node("n1"), make_node("n2")], placed, make_pod("web", cpu="3")) == (
        "Needs 1 more cpu on n2, or up to 2 more cpu on any of 2 nodes."
    )


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (make_node("n1"), make_pod("web", cpu="64")),
        (make_node("n1"), make_pod("web", nodeSelector={"disk": "ssd"})),
        (make_node("n1"), make_pod("web")),
    ],
)
def test_nothing_is_said_where_there_is_nothing_to_add(node: Document, wanted: Document) -> None:
    assert brief([node], [], wanted) == ""


@pytest.mark.slow
@LAW
@given(clusters.situations(), clusters.pods("w"))
def test_a_hint_says_nothing_else_than_the_whole_story(
    situation: tuple[list[Document], list[Document]], wanted: Document
) -> None:
    hint = brief(*situation, wanted)
    if not hint:
        return
    interner, registry = PodInterner(), builtin.registry()
    framework = Framework(resolution.default(specs_of(registry)).first, registry)
    made = clusters.build(*situation, interner)
    decider = Decider(framework, made)
    obstacles = Obstacles(decider.evaluate(interner.pod(wanted)))
    refused = [(node, found) for node in made.node_infos() if (found := obstacles.of(node.row))]
    whole = {change.text for change in required_changes.needed(interner.pod(wanted), refused, made)}
    for part in hint.removesuffix(".").split("; "):
        assert f"{part[0].lower()}{part[1:]}" in whole


async def test_the_event_says_what_would_have_to_change_behind_what_kube_scheduler_says() -> None:
    async with cluster() as made:
        await _event(made)


async def _event(made: SchedulingCluster) -> None:
    await made.add_node("n1")
    async with made.scheduling():
        await made.add_pod("first", cpu="3")
        await made.bound("first")
        await made.add_pod("second", cpu="3")
        condition = await made.refused("second")
        said = await made.said("second", "FailedScheduling")
    assert said == f"{condition['message']} Needs 2 more cpu on n1."
    assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu. preemption: ")
