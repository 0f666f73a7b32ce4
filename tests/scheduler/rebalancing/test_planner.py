"""Which pods are moved when a cluster has drifted, and which are not."""

import random
from collections import Counter
from typing import Any

import pytest

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry import builtin
from rota.scheduler.preemption import victims
from rota.scheduler.rebalancing import planner
from rota.scheduler.rebalancing.drift_measures import DriftMeasures
from rota.scheduler.rebalancing.rebalance_plan import (
    USUAL,
    DriftMeasurement,
    Plan,
    PodFacts,
    Settings,
    SettingsError,
    Strategy,
    Usage,
)
from rota.testing.clusters import HOSTNAME, ZONE, Document, build, make_node, make_pod
from rota.testing.schedulers import configured

REGISTRY = builtin.registry()
FRAMEWORKS = {"default-scheduler": Framework(resolution.default(specs_of(REGISTRY)).first, REGISTRY)}
PACKING = """
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
  plugins:
    score: {disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]}
"""


def owned(name: str, on: str, owner: str = "web", **fields: Any) -> Document:
    pod = make_pod(name, on=on, labels={"app": owner}, **fields)
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}", "controller": True}
    ]
    return pod


def tainted(name: str) -> Document:
    node = make_node(name)
    node["spec"]["taints"] = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    return node


def budget(app: str, allowed: int, name: str = "") -> Document:
    return {
        "metadata": {"name": name or app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def planned(
    nodes: list[Document],
    pods: list[Document],
    *strategies: Strategy,
    budgets: tuple[Document, ...] = (),
    facts: dict[str, PodFacts] | None = None,
    usage: Usage | None = None,
    waiting: tuple[Document, ...] = (),
    **settings: Any,
) -> Plan:
    interner = PodInterner()
    cluster = build(nodes, pods, interner)
    for one in budgets:
        cluster.catalog.put("PodDisruptionBudget", one)
    known = {uid: PodFacts() for uid in cluster.pods} | (facts or {})
    chosen = Settings(strategies=strategies or USUAL, **settings)
    coming = [interner.pod(one) for one in waiting]
    return planner.plan(cluster, FRAMEWORKS, known, settings=chosen, usage=usage, waiting=coming)


def moved(plan: Plan) -> dict[str, str]:
    return {move.name: move.target for move in plan.moves}


def test_a_pod_that_does_not_tolerate_its_node_any_more_goes() -> None:
    plan = planned([tainted("a"), make_node("b")], [owned("p", "a")])
    assert moved(plan) == {"p": "b"}
    [move] = plan.moves
    assert (move.strategy, move.why) == (Strategy.TAINTS, "it does not tolerate a taint of a")
    assert (plan.before.violations, plan.after.violations) == (1, 0)


def test_a_pod_whose_affinity_excludes_its_node_goes() -> None:
    nodes = [make_node("a", labels={"disk": "hdd"}), make_node("b", labels={"disk": "ssd"})]
    assert moved(planned(nodes, [owned("p", "a", nodeSelector={"disk": "ssd"})])) == {"p": "b"}


def test_pods_that_cannot_stand_each_other_are_parted() -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
    plan = planned([make_node("a"), make_node("b")], [owned(f"p{n}", "a", affinity=apart) for n in range(2)])
    # one is enough: after that the other is where it should be
    assert len(plan.moves) == 1
    assert plan.after.violations == 0


def test_skew_beyond_a_constraint_is_taken_back_with_as_few_moves_as_it_takes() -> None:
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    nodes = [make_node(name, labels={ZONE: name}) for name in "ab"]
    pods = [owned(f"p{number}", "a", topologySpreadConstraints=spread) for number in range(4)]
    plan = planned(nodes, pods, Strategy.SPREAD)
    assert len(plan.moves) == 2
    assert plan.after.violations == 0


def test_duplicates_go_apart() -> None:
    plan = planned([make_node("a"), make_node("b")], [owned("p0", "a"), owned("p1", "a")], Strategy.DUPLICATES)
    assert len(plan.moves) == 1
    assert (plan.before.duplicates, plan.after.duplicates) == (1, 0)


def test_full_nodes_give_to_empty_ones_until_they_are_full_no_more() -> None:
    pods = [owned(f"p{number}", "a", owner=f"o{number}", cpu="900m") for number in range(4)]
    plan = planned([make_node("a"), make_node("b")], pods, Strategy.BALANCE)
    assert len(plan.moves) == 1
    assert plan.after.shares["a"] <= 0.7
    assert plan.after.unevenness < plan.before.unevenness
    assert "a is 90% full, above 70%" in plan.moves[0].why


def test_without_an_empty_node_full_ones_stay() -> None:
    pods = [owned(f"p{node}{number}", node, cpu="900m") for node in "ab" for number in range(4)]
    assert not planned([make_node("a"), make_node("b")], pods, Strategy.BALANCE).moves


def test_what_is_measured_counts_where_it_is_known() -> None:
    pods = [owned(f"p{number}", "a", owner=f"o{number}", cpu="100m") for number in range(2)]
    nodes = [make_node("a"), make_node("b")]
    assert not planned(nodes, pods, Strategy.BALANCE).moves
    usage = Usage(
        nodes={"a": {"cpu": 3800, "memory": 0}, "b": {"cpu": 100, "memory": 0}},
        pods={"uid-p0": {"cpu": 1900, "memory": 0}, "uid-p1": {"cpu": 1900, "memory": 0}},
    )
    assert len(planned(nodes, pods, Strategy.BALANCE, usage=usage).moves) == 1


def test_nearly_empty_nodes_are_emptied_where_the_profile_likes_full_ones() -> None:
    nodes = [make_node("a"), make_node("b")]
    pods = [owned("p", "a", owner="o", cpu="200m"), *[owned(f"q{n}", "b", owner=f"q{n}", cpu="1") for n in range(2)]]
    # the default profile likes empty nodes, and would bring the pod back
    plan = planned(nodes, pods, Strategy.COMPACT)
    assert not plan.moves
    assert plan.stays["default/p"] == "the scheduler would put it back where it is"
    loaded = configured(PACKING)
    frameworks = {"default-scheduler": Framework(loaded.configuration.first, loaded.registry)}
    cluster = build(nodes, pods, PodInterner())
    facts = {uid: PodFacts() for uid in cluster.pods}
    plan = planner.plan(cluster, frameworks, facts, settings=Settings(strategies=(Strategy.COMPACT,)))
    assert moved(plan) == {"p": "b"}
    assert (plan.before.nodes_in_use, plan.after.nodes_in_use) == (2, 1)


def test_a_pod_that_crashes_where_it_is_tries_another_node() -> None:
    facts = {"uid-p": PodFacts(running=False, crashing=True, restarts=30, age_s=10)}
    nodes = [make_node("a", cpu="2"), make_node("b", cpu="8")]
    assert moved(planned(nodes, [owned("p", "a")], Strategy.CRASHES, facts=facts)) == {"p": "b"}


@pytest.mark.parametrize("strategy", [Strategy.CRASHES, Strategy.LIFETIME, Strategy.DUPLICATES])
def test_a_pod_whose_node_is_gone_stays_and_harms_no_plan(strategy: Strategy) -> None:
    lost = PodFacts(crashing=True, restarts=30, age_s=30 * 86400)
    pods = [owned("p", "gone"), owned("q", "gone")]
    plan = planned([make_node("a")], pods, strategy, facts={"uid-p": lost, "uid-q": lost})
    assert moved(plan) == {}
    assert set(plan.stays.values()) <= {"its node is gone"}


@pytest.mark.parametrize(
    ("facts", "fields", "why"),
    [
        (PodFacts(owner_kind=""), {}, "nothing would replace it"),
        (PodFacts(owner_kind="DaemonSet"), {}, "runs on every node"),
        (PodFacts(mirror=True), {}, "belongs to its machine"),
        (PodFacts(local_storage=True), {}, "would lose what is in its local volumes"),
        (PodFacts(owner_kind="Job", ends=True), {}, "would begin its work anew"),
        (PodFacts(age_s=10), {}, "started 10s ago; pods stay for the first 300s (youngestSeconds)"),
        (PodFacts(running=False), {}, "does not run"),
        (PodFacts(objection="its annotation says no"), {}, "its annotation says no"),
        (PodFacts(), {"priority": 2_000_001_000}, "is too important to be interrupted"),
        (PodFacts(), {"schedulerName": "other"}, "another scheduler places it (other)"),
    ],
)
def test_pods_that_stay_have_a_reason(facts: PodFacts, fields: dict[str, Any], why: str) -> None:
    plan = planned([tainted("a"), make_node("b")], [owned("p", "a", **fields)], facts={"uid-p": facts})
    assert not plan.moves
    assert plan.stays in ({"default/p": why}, {})
    if "schedulerName" not in fields:
        assert plan.stays


def test_resources_for_a_waiting_pod_are_not_used_by_a_move() -> None:
    nodes, pods = [tainted("a"), make_node("b", cpu="1")], [owned("p", "a", cpu="600m")]
    assert moved(planned(nodes, pods)) == {"p": "b"}
    plan = planned(nodes, pods, waiting=(make_pod("q", cpu="600m"),))
    assert plan.stays == {"default/p": "there is no other place for it"}
    gated = make_pod("q", cpu="600m", schedulingGates=[{"name": "example.com/later"}])
    assert moved(planned(nodes, pods, waiting=(gated,))) == {"p": "b"}


def test_budgets_are_drawn_on_as_the_api_server_will() -> None:
    pods = [owned(f"p{number}", "a") for number in range(4)]
    plan = planned([tainted("a"), make_node("b")], pods, budgets=(budget("web", 2),))
    assert len(plan.moves) == 2
    assert set(plan.stays.values()) == {"its disruption budget allows no more"}
    two = (budget("web", 2), budget("web", 2, name="again"))
    assert not planned([tainted("a"), make_node("b")], pods, budgets=two).moves


def test_limits_per_node_and_in_all_are_kept() -> None:
    pods = [owned(f"p{number}", "a") for number in range(8)]
    assert len(planned([tainted("a"), make_node("b")], pods, most_per_node=3).moves) == 3
    assert len(planned([tainted("a"), make_node("b")], pods, most_at_once=2).moves) == 2
    assert len(planned([tainted("a"), make_node("b")], pods, most_per_namespace=1).moves) == 1


def test_balancing_and_compacting_at_once_is_refused() -> None:
    with pytest.raises(SettingsError, match="choose one"):
        Settings(strategies=(Strategy.BALANCE, Strategy.COMPACT))


# --- many drifted clusters --------------------------------------------------------------------------------------------


def drifted(rng: random.Random) -> tuple[Cluster, dict[str, PodFacts]]:
    """A cluster that nobody would have made: pods anywhere, rules broken, nodes full and empty."""
    nodes = []
    for number in range(rng.randint(2, 6)):
        node = make_node(f"n{number}", labels={ZONE: rng.choice("ab"), "disk": rng.choice(["ssd", "hdd"])})
        if rng.random() < 0.2:
            node["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
        nodes.append(node)
    pods, owners = [], ["web", "db", "cache"]
    for number in range(rng.randint(1, 24)):
        owner = rng.choice(owners)
        fields: dict[str, Any] = {"cpu": rng.choice(["100m", "500m", "1"])}
        if rng.random() < 0.2:
            fields["nodeSelector"] = {"disk": "ssd"}
        if owner == "db":
            fields["affinity"] = _apart(owner)
        if owner == "web":
            fields["topologySpreadConstraints"] = [_spread(owner)]
        if owner == "cache" and rng.random() < 0.3:
            fields["affinity"] = _together("db")
        pods.append(owned(f"p{number}", rng.choice(nodes[:3])["metadata"]["name"], owner=owner, **fields))
    cluster = build(nodes, pods, PodInterner())
    for owner in owners:
        if rng.random() < 0.5:
            cluster.catalog.put("PodDisruptionBudget", budget(owner, rng.randint(0, 3)))
    facts = {uid: PodFacts(age_s=rng.choice([10, 3600]), restarts=rng.randint(0, 5)) for uid in cluster.pods}
    return cluster, facts


def _apart(app: str) -> Document:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _together(app: str) -> Document:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spread(app: str) -> Document:
    selector = {"matchLabels": {"app": app}}
    return {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def rank(figures: DriftMeasurement) -> tuple[int, int, float]:
    return figures.violations, figures.duplicates, round(figures.unevenness, 9)


def check(seed: int) -> int:
    """Rebalance one drifted cluster until nothing moves; how many pods did."""
    cluster, facts = drifted(random.Random(seed))
    total = 0
    for _ in range(60):
        budgets = victims.budgets(cluster.catalog)
        before = dict(cluster.pods)
        plan = planner.plan(cluster, FRAMEWORKS, facts, settings=Settings())
        if not plan.moves:
            return total
        total += len(plan.moves)
        assert rank(plan.after) < rank(plan.before), seed
        drawn = Counter[int]()
        for move in plan.moves:
            for position, one in enumerate(budgets):
                drawn[position] += one.covers(before[move.uid])
            assert cluster.pods[move.uid].node_name == move.target != move.source, seed
            assert move.score_before is None or move.score_after > move.score_before, seed
        assert all(drawn[position] <= one.allowed for position, one in enumerate(budgets)), seed
        assert len({move.uid for move in plan.moves}) == len(plan.moves), seed
        for node in cluster.node_infos():
            assert len(node.pods) <= max(node.allowed_pods, sum(pod.node_name == node.name for pod in before.values()))
    raise AssertionError(f"cluster {seed} never settles")


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_misplaced_pods_are_found_in_bulk_as_one_by_one(start: int) -> None:
    for seed in range(start, start + 50):
        cluster, _ = drifted(random.Random(seed))
        deciders = {name: Decider(framework, cluster) for name, framework in FRAMEWORKS.items()}
        measures = DriftMeasures(cluster, deciders, None)
        each = {uid: measures.misplaced(pod) for uid, pod in list(cluster.pods.items())}
        assert measures.all_misplaced() == {uid: how for uid, how in each.items() if how is not None}, seed


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_every_plan_makes_a_drifted_cluster_better_and_there_is_an_end(start: int) -> None:
    assert sum(map(check, range(start, start + 10))) > 0


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 2000, 100))
def test_a_thousand_drifted_clusters_settle(start: int) -> None:
    assert sum(map(check, range(start, start + 100))) > 100
