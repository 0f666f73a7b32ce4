"""Every plugin's vector form equals its scalar form, and an evaluation that kept up equals a fresh one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.columns.pod_interner import PodInterner, read_node
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import SUCCESS
from rota.scheduler.plugin_registry import builtin
from rota.testing import clusters
from rota.testing.clusters import Document, build

pytestmark = pytest.mark.slow

REGISTRY = builtin.registry()
SPECS = specs_of(REGISTRY)
CONFIGURATIONS: list[list[Document]] = [
    [],
    [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 2}],
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 0, "score": 7}, {"utilization": 70, "score": 0}]
                    },
                },
                "ignoredResourceGroups": ["example.com"],
            },
        },
        {
            "name": "NodeResourcesBalancedAllocation",
            "args": {"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": "ephemeral-storage"}]},
        },
        {
            "name": "NodeAffinity",
            "args": {
                "addedAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 7,
                            "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                        }
                    ]
                }
            },
        },
        {
            "name": "PodTopologySpread",
            "args": {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": clusters.ZONE, "whenUnsatisfiable": "ScheduleAnyway"},
                    {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"},
                ],
            },
        },
        {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}},
    ],
    [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
]


def frameworks() -> list[Framework]:
    built = []
    for plugin_config in CONFIGURATIONS:
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": plugin_config}],
        }
        built.append(Framework(resolution.resolve(resolution.read(document), SPECS).first, REGISTRY))
    return built


FRAMEWORKS = frameworks()
SERVICE = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
any_framework = st.sampled_from(FRAMEWORKS)
a_situation = clusters.situations()
a_pod = clusters.pods("incoming")
Situation = tuple[list[Document], list[Document]]


@clusters.LAW
@given(any_framework, a_situation, a_pod)
def test_filters_agree_in_both_forms(framework: Framework, situation: Situation, incoming: Document) -> None:
    interner = PodInterner()
    cluster = build(*situation, interner)
    cluster.catalog.put("Service", SERVICE)
    evaluation = Evaluation(framework, interner.pod(incoming), cluster)
    state, pod = evaluation.state, evaluation.pod
    if not evaluation.pre_filter_status.ok:
        return
    odd_rows = np.arange(1, cluster.size, 2)
    for plugin in framework.at(ExtensionPoint.FILTER):
        if plugin.name in state.skip_filter or not hasattr(plugin, "filter_nodes"):
            continue
        codes = plugin.filter_nodes(state, pod, cluster, cluster.rows)
        some = plugin.filter_nodes(state, pod, cluster, odd_rows)
        for node in cluster.node_infos():
            code = 0 if codes is None else int(codes[node.row])
            assert (plugin.explain(state, pod, code) if code else SUCCESS) == plugin.filter(state, pod, node)
        for position, row in enumerate(odd_rows):
            assert (0 if some is None else some[position]) == (0 if codes is None else codes[row])


@clusters.LAW
@given(any_framework, a_situation, a_pod)
def test_scores_agree_in_both_forms(framework: Framework, situation: Situation, incoming: Document) -> None:
    interner = PodInterner()
    cluster = build(*situation, interner)
    cluster.catalog.put("Service", SERVICE)
    evaluation = Evaluation(framework, interner.pod(incoming), cluster)
    state, pod = evaluation.state, evaluation.pod
    rows = np.flatnonzero(evaluation.feasible)
    for plugin in framework.at(ExtensionPoint.SCORE):
        if not len(rows) or plugin.name in state.skip_score or not hasattr(plugin, "score_nodes"):
            continue
        everywhere = plugin.score_nodes(state, pod, cluster, cluster.rows)
        here = plugin.score_nodes(state, pod, cluster, rows)
        one_by_one = [plugin.score(state, pod, cluster.nodes[row]) for row in rows]
        assert everywhere[rows].tolist() == here.tolist() == one_by_one


def told(evaluation: Evaluation) -> dict[str, Any]:
    """Everything that an evaluation says, by node name."""
    return {
        node.name: (
            evaluation.status_of(node.row),
            bool(evaluation.unresolvable()[node.row]),
            int(evaluation.totals[node.row]),
            evaluation.scores_of(node.row) if evaluation.feasible[node.row] else None,
        )
        for node in evaluation.cluster.node_infos()
    }


@clusters.LAW
@given(any_framework, a_situation, st.lists(a_pod, min_size=1, max_size=3), st.sampled_from([0, 1, 12]), st.data())
def test_an_evaluation_that_kept_up_equals_a_fresh_one(
    framework: Framework, situation: Situation, templates: list[Document], few: int, data: st.DataObject
) -> None:
    # What counts as a few rows, so that small clusters take the way of large ones too.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rota.scheduler.framework.plugin_results.FEW_ROWS", few)
        patch.setattr("rota.scheduler.framework.evaluation.FEW_ROWS", few)
        keep_up(framework, situation, templates, data)


def keep_up(framework: Framework, situation: Situation, templates: list[Document], data: st.DataObject) -> None:
    interner = PodInterner()
    cluster = build(*situation, interner)
    decider = Decider(framework, cluster)
    for step in range(data.draw(st.integers(2, 10))):
        template = data.draw(st.sampled_from(templates))
        pod = interner.pod({**template, "metadata": {**template["metadata"], "uid": f"step{step}"}})
        evaluation = decider.evaluate(pod)
        assert told(evaluation) == told(Evaluation(framework, pod, cluster))
        names = sorted(cluster.by_name)
        match data.draw(st.sampled_from(["place", "place", "remove", "node", "drop", "service"])):
            case "place" if evaluation.best_row() >= 0:
                cluster.add_pod(pod, evaluation.cluster.nodes[evaluation.best_row()].name)  # type: ignore[union-attr]
            case "remove" if cluster.pods:
                cluster.remove_pod(data.draw(st.sampled_from(sorted(cluster.pods))))
            case "node":
                cluster.set_node(read_node(data.draw(clusters.nodes(data.draw(st.sampled_from([*names, "n9"]))))))
            case "drop" if len(names) > 1:
                cluster.remove_node(data.draw(st.sampled_from(names)))
            case "service":
                cluster.catalog.put("Service", SERVICE)
            case _:
                cluster.add_pod(interner.pod(data.draw(clusters.pods(f"other{step}", on=names))))


@clusters.LAW
@given(any_framework, a_situation, a_pod, st.randoms(use_true_random=False))
def test_a_decision_does_not_depend_on_the_order_of_nodes_and_pods(
    framework: Framework, situation: Situation, incoming: Document, order: Any
) -> None:
    interner = PodInterner()
    nodes, pods = situation
    shuffled_nodes, shuffled_pods = list(nodes), list(pods)
    order.shuffle(shuffled_nodes)
    order.shuffle(shuffled_pods)
    first = Decider(framework, build(nodes, pods, interner)).decide(interner.pod(incoming))
    second = Decider(framework, build(shuffled_nodes, shuffled_pods, interner)).decide(interner.pod(incoming))
    assert told(first.evaluation) == told(second.evaluation)
    if first.row >= 0:
        best = {first.evaluation.cluster.nodes[row].name for row in first.evaluation.best_rows().tolist()}
        in_order = [node["metadata"]["name"] for node in shuffled_nodes if node["metadata"]["name"] in best]
        assert second.node_name == in_order[0]


@clusters.LAW
@given(a_situation, st.lists(a_pod, min_size=1, max_size=4), st.integers(0, 7))
def test_no_decision_puts_a_node_over_its_capacity(situation: Situation, templates: list[Document], start: int) -> None:
    interner = PodInterner()
    nodes, _ = situation
    cluster = build(nodes, [], interner)
    decider = Decider(FRAMEWORKS[0], cluster)
    for number in range(12):
        template = templates[number % len(templates)]
        pod = interner.pod({**template, "metadata": {**template["metadata"], "uid": f"pod{number}"}})
        decision = decider.decide(pod, start=start)
        if decision.node_name is not None:
            cluster.add_pod(pod, decision.node_name)
    for node in cluster.node_infos():
        assert len(node.pods) <= node.allowed_pods
        assert all(amount <= node.allocatable.get(name, 0) for name, amount in node.requested.items())
        held = [port for pod in node.pods.values() for port in pod.shape.host_ports]
        clashes = [(a, b) for i, a in enumerate(held) for b in held[i + 1 :] if a.conflicts(b)]
        assert all(any(set(clash) <= set(pod.shape.host_ports) for pod in node.pods.values()) for clash in clashes)
