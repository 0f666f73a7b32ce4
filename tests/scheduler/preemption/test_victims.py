"""Preemption evicts only what is less important, only what is needed, and where the least is lost."""

from typing import Any

import pytest
from hypothesis import given

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_interfaces import PostFilterResult
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.plugin_registry import builtin
from rota.scheduler.preemption import victims as preemption_victims
from rota.scheduler.preemption.victims import Candidate
from rota.testing import clusters
from rota.testing.clusters import Document, build, make_node, make_pod

REGISTRY = builtin.registry()
FRAMEWORK = Framework(resolution.default(specs_of(REGISTRY)).first, REGISTRY)


def budget(app: str, allowed: int, *, disrupted: tuple[str, ...] = ()) -> Document:
    return {
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")},
    }


def room(cluster: Cluster, pod: PodInfo, **options: Any) -> PostFilterResult:
    result = Decider(FRAMEWORK, cluster).decide(pod, **options).post_filter
    assert result is not None
    return result


def victims(result: PostFilterResult) -> list[str]:
    return [pod.name for pod in result.victims]


def old(name: str, second: int, **fields: Any) -> Document:
    document = make_pod(name, **fields)
    document["status"] = {"startTime": f"2026-01-01T00:00:{second:02}Z"}
    return document


def test_the_node_with_the_lowest_priority_victim_is_chosen() -> None:
    interner = PodInterner()
    pods = [make_pod("x", on="a", cpu="4", priority=50), make_pod("y", on="b", cpu="4", priority=10)]
    cluster = build([make_node("a"), make_node("b")], pods, interner)
    result = room(cluster, interner.pod(make_pod("p", cpu="2", priority=100)))
    assert (result.nominated_node, victims(result)) == ("b", ["y"])


def test_pods_of_the_same_priority_are_never_evicted() -> None:
    interner = PodInterner()
    cluster = build([make_node("a")], [make_pod("x", on="a", cpu="4", priority=100)], interner)
    result = room(cluster, interner.pod(make_pod("p", cpu="2", priority=100)))
    assert result.status.code is Code.UNSCHEDULABLE
    assert result.nominated_node == ""
    assert result.status.reasons == (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    )


def test_more_important_and_older_pods_are_put_back_first() -> None:
    interner = PodInterner()
    pods = [
        old("young", 9, on="a", cpu="1", priority=5),
        old("old", 1, on="a", cpu="1", priority=5),
        old("important", 5, on="a", cpu="2", priority=50),
    ]
    cluster = build([make_node("a")], pods, interner)
    result = room(cluster, interner.pod(make_pod("p", cpu="1", priority=100)))
    assert victims(result) == ["young"]


def test_a_budget_protects_its_pods_as_long_as_others_will_do() -> None:
    interner = PodInterner()
    pods = [
        make_pod("guarded", on="a", cpu="2", labels={"app": "db"}),
        make_pod("free", on="a", cpu="2", labels={"app": "web"}, priority=10),
    ]
    cluster = build([make_node("a")], pods, interner)
    cluster.catalog.put("PodDisruptionBudget", budget("db", 0))
    pod = interner.pod(make_pod("p", cpu="2", priority=100))
    assert victims(room(cluster, pod)) == ["free"]
    cluster.catalog.put("PodDisruptionBudget", budget("db", 1))
    assert victims(room(cluster, pod)) == ["guarded"]


def test_a_node_where_no_budget_is_broken_is_preferred() -> None:
    interner = PodInterner()
    pods = [
        make_pod("guarded", on="a", cpu="4", labels={"app": "db"}),
        make_pod("dear", on="b", cpu="4", labels={"app": "web"}, priority=90),
    ]
    cluster = build([make_node("a"), make_node("b")], pods, interner)
    cluster.catalog.put("PodDisruptionBudget", budget("db", 0))
    pod = interner.pod(make_pod("p", cpu="2", priority=100))
    assert room(cluster, pod).nominated_node == "b"
    cluster.catalog.put("PodDisruptionBudget", budget("db", 0, disrupted=("guarded",)))
    assert room(cluster, pod).nominated_node == "a"


def test_a_pod_that_may_not_preempt_evicts_no_pod() -> None:
    interner = PodInterner()
    cluster = build([make_node("a")], [make_pod("x", on="a", cpu="4")], interner)
    result = room(cluster, interner.pod(make_pod("p", cpu="2", priority=100, preemptionPolicy="Never")))
    assert result.status.reasons == ("preemption: not eligible due to preemptionPolicy=Never.",)
    assert result.nominated_node is None


def test_a_pod_waits_for_victims_that_are_on_their_way_out() -> None:
    interner = PodInterner()
    leaving = make_pod("x", on="a", cpu="4")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving["status"] = {"conditions": [condition]}
    cluster = build([make_node("a")], [leaving], interner)
    document = make_pod("p", cpu="2", priority=100)
    document["status"] = {"nominatedNodeName": "a"}
    result = room(cluster, interner.pod(document))
    assert result.status.reasons == ("preemption: not eligible due to a terminating pod on the nominated node.",)


def test_the_search_begins_at_start_and_ends_with_enough_candidates() -> None:
    interner = PodInterner()
    nodes = [make_node(f"n{number}") for number in range(120)]
    pods = [make_pod(f"x{number}", on=f"n{number}", cpu="4") for number in range(120)]
    cluster = build(nodes, pods, interner)
    pod = interner.pod(make_pod("p", cpu="2", priority=100))
    assert [room(cluster, pod, start=start).nominated_node for start in (0, 7)] == ["n0", "n7"]


def test_equal_pods_share_trials_and_notice_what_changed() -> None:
    interner = PodInterner()
    nodes = [make_node("a"), make_node("b")]
    pods = [make_pod("x", on="a", cpu="4"), make_pod("y", on="b", cpu="4", priority=5)]
    cluster = build(nodes, pods, interner)
    decider = Decider(FRAMEWORK, cluster)
    found = []
    for number in range(2):
        pod = interner.pod(make_pod(f"p{number}", cpu="3", priority=100))
        result = decider.decide(pod).post_filter
        assert result is not None
        assert result.nominated_node
        found.append((result.nominated_node, victims(result)))
        for victim in result.victims:
            cluster.remove_pod(victim.uid)
        cluster.add_pod(pod, result.nominated_node)
    assert found == [("a", ["x"]), ("b", ["y"])]
    last = decider.decide(interner.pod(make_pod("p9", cpu="3", priority=100))).post_filter
    assert last is not None
    assert last.status.code is Code.UNSCHEDULABLE


def outline(found: Candidate | Status) -> tuple[Any, ...]:
    if isinstance(found, Candidate):
        return tuple(victim.uid for victim in found.victims), found.violations
    return found.code, found.reasons


@pytest.mark.slow
@clusters.LAW
@given(clusters.situations(most_pods=14), clusters.pods("incoming"))
def test_victims_are_less_important_sufficient_and_the_same_by_sums(
    situation: tuple[list[Document], list[Document]], incoming: Document
) -> None:
    interner = PodInterner()
    cluster = build(*situation, interner)
    for app in ("web", "db"):
        cluster.catalog.put("PodDisruptionBudget", budget(app, 1))
    incoming["spec"]["priority"] = 50
    pod = interner.pod(incoming)
    decision = Decider(FRAMEWORK, cluster).decide(pod)
    evaluation = decision.evaluation
    result = decision.post_filter
    if result is None:
        return
    if result.status.ok:
        assert all(victim.priority < 50 and victim.node_name == result.nominated_node for victim in result.victims)
        with cluster.what_if():
            for victim in result.victims:
                cluster.remove_pod(victim.uid)
            node = cluster.by_name[result.nominated_node or ""]
            assert Evaluation(FRAMEWORK, pod, cluster).feasible[node.row]
    sole = FRAMEWORK.pod_filters(evaluation.state)
    if len(sole) == 1 and hasattr(sole[0], "reprieve"):
        limits = preemption_victims.budgets(cluster.catalog)
        for node in cluster.node_infos():
            if not FRAMEWORK.machine_filter(evaluation.state)(evaluation.state, pod, node).ok:
                continue
            exact = preemption_victims.select_victims(
                FRAMEWORK, evaluation.state.clone(), pod, node.copy(), limits=limits
            )
            quick = preemption_victims.select_by_sums(sole[0], evaluation.state, pod, node, limits=limits)
            if isinstance(exact, Status):
                exact = Status(exact.code, exact.reasons)
            assert outline(quick) == outline(exact)
