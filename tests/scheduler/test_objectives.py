"""Objectives in their units, the ways to combine them, and explanations of the choice."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.config import resolution
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.explanation import analysis, decision_report
from rota.scheduler.framework import objectives
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.objectives import Term
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugin_registry import builtin
from rota.scheduler.plugins.power_models import PowerModel
from rota.testing import clusters
from rota.testing.clusters import Document, make_node, make_pod

MEBI = 2**20
ML110_G4 = (86, 89.4, 92.6, 96, 99.5, 102, 106, 108, 112, 114, 117)


def framework(enabled: dict[str, dict[str, Any]], *, only: bool = True) -> Framework:
    """A profile in which these plugins score, with their arguments."""
    scoring = [name for name in enabled if name != "ObjectiveCombiner"]
    plugins: dict[str, Any] = {
        "score": {"enabled": [{"name": name} for name in scoring], "disabled": [{"name": "*"}] if only else []},
        "preScore": {"disabled": [{"name": "*"}]} if only else {},
    }
    if "ObjectiveCombiner" in enabled:
        plugins["preScore"] = {**plugins["preScore"], "enabled": [{"name": "ObjectiveCombiner"}]}
    if "LoadAware" in enabled:
        plugins["preFilter"] = plugins["filter"] = {"enabled": [{"name": "LoadAware"}]}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": plugins,
                "pluginConfig": [{"name": name, "args": args} for name, args in enabled.items() if args],
            }
        ],
    }
    registry = builtin.registry()
    return Framework(resolution.resolve(resolution.read(document), specs_of(registry)).first, registry)


def sized(name: str, cpu: int = 10, memory: str = "10Gi", labels: dict[str, str] | None = None) -> Document:
    return make_node(name, labels=labels or {}, cpu=str(cpu), memory=memory, pods="100")


def asking(name: str, cpu: str = "1", memory: str = "1Gi", node: str = "") -> Document:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    made = make_pod(name, containers=containers)
    if node:
        made["spec"]["nodeName"] = node
    return made


class World:
    def __init__(self, made: Framework, nodes: list[Document], pods: list[Document] | None = None) -> None:
        self.framework = made
        self.interner = PodInterner()
        self.cluster: Cluster = clusters.build(nodes, pods or [], self.interner)
        self.decider = Decider(made, self.cluster)

    def pod(self, document: Document) -> PodInfo:
        return self.interner.pod(document)

    def costs(self, plugin: str, document: Document) -> list[float]:
        evaluation = Evaluation(self.framework, self.pod(document), self.cluster)
        assert evaluation.failure is None
        return [evaluation.costs_of(row)[plugin][0] for row in range(self.cluster.size)]

    def choose(self, document: Document) -> str | None:
        decision = self.decider.decide(self.pod(document))
        assert decision.evaluation.failure is None
        return decision.node_name


# --- objectives by hand -----------------------------------------------------------------------------------------------


def test_watts_of_the_models() -> None:
    used, capacity = np.array([0.0, 500.0, 1000.0]), np.full(3, 1000.0)
    linear = PowerModel(idle=100, full=200)
    assert linear.awake(used, capacity).tolist() == [100, 150, 200]
    table = PowerModel(model="table", watts=ML110_G4)
    assert table.awake(np.array([0.0, 50.0, 1000.0]), capacity).tolist() == pytest.approx([86, 87.7, 117])
    fan = PowerModel(model="fan", idle=100, full=200)
    assert fan.awake(used, capacity)[1] == pytest.approx(100 + 100 * (1 - 0.5**1.4))
    peaks = PowerModel(model="exponential", k0=400, k1=-20, k2=0.1)
    assert [fault.path for fault in peaks.faults()] == ["k1"]
    assert PowerModel(model="exponential", k0=100, k1=2, k2=0.02).awake(used, capacity)[2] == pytest.approx(
        100 + 2 * np.e**2
    )
    sockets = PowerModel(model="sockets", idle=20, full=165, cores_per_socket=24)
    assert sockets.awake(np.array([0.0, 1.0, 24_001.0]), np.full(3, 48_000.0)).tolist() == [40, 185, 330]


def test_the_first_pod_wakes_a_node() -> None:
    power = {"models": [{"idle": 100, "full": 200, "sleepWatts": 5, "wakeJoules": 7200}]}
    world = World(framework({"PowerObjective": power}), [sized("empty"), sized("used")], [asking("p", node="used")])
    # A tenth of the node: 10 W; the other has to be woken: 110 - 5 and 7200 J over an hour.
    assert world.costs("PowerObjective", asking("new")) == pytest.approx([107.0, 10.0])
    assert world.choose(asking("new")) == "used"


def test_nodes_have_the_power_model_of_their_label() -> None:
    power = {"models": [{"idle": 100, "full": 200}, {"name": "big", "idle": 300, "full": 700}]}
    nodes = [sized("a"), sized("b", labels={"rota.dev/power-model": "big"})]
    pods = [asking("p", node="a"), asking("q", node="b")]
    assert World(framework({"PowerObjective": power}), nodes, pods).costs(
        "PowerObjective", asking("n")
    ) == pytest.approx([10.0, 40.0])


def test_emissions_follow_the_intensity_of_the_zone() -> None:
    carbon = {
        "models": [{"idle": 100, "full": 200}],
        "intensities": [{"gramsPerKwh": 500}, {"zone": "north", "gramsPerKwh": 20}],
    }
    nodes = [sized("a"), sized("b", labels={"topology.kubernetes.io/zone": "north"})]
    world = World(framework({"CarbonObjective": carbon}), nodes)
    assert world.costs("CarbonObjective", asking("n")) == pytest.approx([55.0, 2.2])


def test_utilisation_and_balance() -> None:
    nodes = [sized("a"), sized("b", memory="20Gi")]
    pods = [asking("p", "4", "1Gi", node="a")]
    world = World(framework({"UtilizationObjective": {}, "BalanceObjective": {}}), nodes, pods)
    new = asking("n", "1", "2Gi")
    assert world.costs("UtilizationObjective", new) == pytest.approx([1 - (0.5 + 0.3) / 2, 1 - (0.1 + 0.1) / 2])
    assert world.costs("BalanceObjective", new) == pytest.approx([0.2, 0.0])


def test_fragmentation_counts_what_typical_pods_cannot_use() -> None:
    typical = {"typicalPods": [{"requests": {"cpu": "4"}, "weight": 3}, {"requests": {"cpu": "2"}}]}
    nodes = [sized("a"), sized("b")]
    pods = [asking("p", "5", node="a"), asking("q", "7", node="b")]
    world = World(framework({"FragmentationObjective": typical}), nodes, pods)
    # a: 5 free, both fit; 3 after the pod, where the first does not: 0.75 * 3 of 10 cores.
    # b: 3 free, the first does not fit: 2.25; 1 after the pod, where neither does: 1.
    assert world.costs("FragmentationObjective", asking("n", "2")) == pytest.approx([0.225, -0.125])


def test_prices_of_shares_and_interruptions() -> None:
    price = {"interruptionCost": 2.0, "spot": [{"label": "spot", "value": "yes", "interruptionsPerHour": 0.1}]}
    nodes = [
        sized("a", labels={"rota.dev/price": "4"}),
        sized("b", labels={"rota.dev/price": "2", "spot": "yes"}),
        sized("unknown"),
    ]
    world = World(framework({"PriceObjective": price}), nodes)
    assert world.costs("PriceObjective", asking("n", "1", "2Gi")) == pytest.approx([0.8, 0.4 + 0.2, 0.6])


# --- combinations -----------------------------------------------------------------------------------------------------

TERMS = [Term(), Term()]
#: Two extremes, a point on a concave front, a point in between that is dominated.
CONCAVE = np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.6], [0.7, 0.7]])
CONVEX = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.3], [0.5, 0.5]])


def test_the_weighted_sum_never_chooses_a_concave_point_and_chebyshev_does() -> None:
    assert objectives.weighted_sum(CONCAVE, TERMS).argmin() in (0, 1)
    assert objectives.chebyshev(CONCAVE, TERMS).argmin() == 2
    assert objectives.chebyshev(CONCAVE, [Term(10.0), Term(1.0)]).argmin() == 0


def test_the_knee_is_the_point_farthest_below_the_line_between_the_extremes() -> None:
    assert objectives.pareto_knee(CONVEX, TERMS).argmin() == 2
    assert objectives.non_dominated(CONVEX).tolist() == [True, True, True, False]


def test_limits_come_before_costs() -> None:
    terms = [Term(), Term(limit=0.4)]
    costs = np.array([[0.0, 0.9], [0.8, 0.4], [0.5, 0.3]])
    assert objectives.epsilon_constraint(costs, terms).argmin() == 2
    beyond = np.array([[0.0, 0.9], [0.9, 0.5]])
    assert objectives.epsilon_constraint(beyond, terms).argmin() == 1


def test_an_order_with_tolerance_asks_the_next_objective_among_the_nearly_best() -> None:
    costs = np.array([[0.10, 0.9], [0.14, 0.2], [0.30, 0.0]])
    assert objectives.lexicographic(costs, [Term(tolerance=0.05), Term()]).argmin() == 1
    assert objectives.lexicographic(costs, TERMS).argmin() == 0
    assert np.argsort(objectives.lexicographic(costs, [Term(tolerance=0.05), Term()])).tolist() == [1, 0, 2]


COSTS = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.integers(0, 20).map(lambda n: n / 20)
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(COSTS)
def test_the_front_is_what_no_other_node_dominates(costs: np.ndarray) -> None:
    expected = [not any((other <= own).all() and (other < own).any() for other in costs) for own in costs]
    assert objectives.non_dominated(costs).tolist() == expected


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(COSTS, st.lists(st.floats(0.1, 5), min_size=4, max_size=4))
def test_no_method_chooses_a_dominated_node(costs: np.ndarray, weights: list[float]) -> None:
    terms = [Term(weights[at]) for at in range(costs.shape[1])]
    front = objectives.non_dominated(costs)
    for method in (objectives.weighted_sum, objectives.chebyshev, objectives.pareto_knee):
        assert front[method(costs, terms).argmin()]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(COSTS, st.integers(0, 29))
def test_a_further_node_does_not_reverse_two_others(costs: np.ndarray, dropped: int) -> None:
    terms = [Term(limit=0.5 if at == 0 else None) for at in range(costs.shape[1])]
    left = np.delete(costs, dropped % len(costs), axis=0)
    for method in (objectives.weighted_sum, objectives.chebyshev, objectives.epsilon_constraint):
        whole = np.delete(method(costs, terms), dropped % len(costs))
        assert np.allclose(whole, method(left, terms))


# --- in the scheduler -------------------------------------------------------------------------------------------------

METHODS = ("WeightedSum", "EpsilonConstraint", "Lexicographic", "Chebyshev", "ParetoKnee")


def combining(method: str, *, only: bool = True) -> Framework:
    named: list[dict[str, Any]] = [{"plugin": "PowerObjective"}, {"plugin": "BalanceObjective", "weight": 2}]
    if method == "EpsilonConstraint":
        named[1]["limit"] = 0.3
    if method == "Lexicographic":
        named[0]["tolerance"] = 20
    enabled: dict[str, dict[str, Any]] = {
        "PowerObjective": {"models": [{"idle": 100, "full": 200}], "greatestWatts": 200},
        "BalanceObjective": {},
        "ObjectiveCombiner": {"method": method, "objectives": named},
    }
    return framework(enabled, only=only)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6), st.booleans()), min_size=1, max_size=15))
def test_a_kept_evaluation_equals_a_fresh_one(method: str, wanted: list[tuple[int, int, bool]]) -> None:
    nodes = [sized(f"n{at}", cpu=4 + 3 * at, memory=f"{20 - 4 * at}Gi") for at in range(4)]
    world = World(combining(method, only=False), nodes)
    for number, (cpu, memory, stays) in enumerate(wanted):
        document = asking(f"p{number}", str(cpu), f"{memory}Gi")
        decision = world.decider.decide(world.pod(document))
        for _ in range(2):
            decision = world.decider.decide(world.pod(document))
            fresh = Evaluation(world.framework, world.pod(document), world.cluster)
            assert decision.evaluation.totals.tolist() == fresh.totals.tolist()
            assert decision.row == fresh.best_row()
        if decision.node_name is not None and stays:
            world.cluster.add_pod(world.pod(document), decision.node_name)


ROW_PLUGINS: dict[str, dict[str, Any]] = {
    "PowerObjective": {
        "models": [
            {"idle": 97.3, "full": 211.7, "sleepWatts": 3.1, "wakeJoules": 1000},
            {"name": "table", "model": "table", "watts": list(ML110_G4)},
            {"name": "fan", "model": "fan", "idle": 70, "full": 193.1},
            {"name": "peaks", "model": "exponential", "k0": 80, "k1": 3.3, "k2": 0.037},
            {"name": "sockets", "model": "sockets", "idle": 20, "full": 165, "coresPerSocket": 3},
        ]
    },
    "UtilizationObjective": {"resources": ["cpu", "memory", "example.com/card"]},
    "BalanceObjective": {},
    "FragmentationObjective": {},
}


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.integers(0, 64),
            st.integers(0, 9),
            st.sampled_from(["", "table", "fan", "peaks", "sockets", "other"]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 9000),
    st.integers(0, 2**35),
    st.sampled_from(["Chebyshev", "WeightedSum"]),
)
def test_the_scalar_forms_give_the_same_numbers(
    nodes: list[tuple[int, int, int, str]], cpu: int, memory: int, method: str
) -> None:
    combiner = {
        "method": method,
        "objectives": [{"plugin": name, "weight": 0.7 + at} for at, name in enumerate(ROW_PLUGINS)],
    }
    made = framework({**ROW_PLUGINS, "ObjectiveCombiner": combiner})
    documents = [
        sized(f"n{at}", cores, f"{memory_gi}Gi", {"rota.dev/power-model": model})
        for at, (cores, memory_gi, _, model) in enumerate(nodes)
    ]
    world = World(made, documents)
    for at, (cores, memory_gi, pods, _) in enumerate(nodes):
        for number in range(pods):
            there = asking(f"p{at}-{number}", f"{cores * 83}m", f"{memory_gi * 91}Mi", f"n{at}")
            world.cluster.add_pod(world.pod(there), f"n{at}")
    pod, state = world.pod(asking("new", f"{cpu}m", str(memory))), CycleState()
    rows = np.array([node.row for node in world.cluster.node_infos()])
    raw = []
    for name in ROW_PLUGINS:
        plugin: Any = made.plugins[name]
        vector = plugin.score_nodes(state, pod, world.cluster, rows)
        assert vector.tolist() == [plugin.score(state, pod, node) for node in world.cluster.node_infos()]
        normalized = plugin.normalize(state, pod, vector, ())
        assert normalized.tolist() == [plugin.normalize_one(score) for score in vector.tolist()]
        raw.append(vector / plugin.per_unit)
    costs, others = np.stack(raw, axis=1), np.arange(len(rows))
    expected = made.combiner.combined(costs, others).tolist()
    assert [made.combiner.combined_row(each, at) for at, each in enumerate(costs.tolist())] == expected


def test_limits_keep_a_node_out_that_saves_power() -> None:
    nodes = [sized("awake", memory="40Gi"), sized("asleep")]
    pods = [asking("p", "6", "1Gi", node="awake")]
    assert World(framework({"PowerObjective": {}}), nodes, pods).choose(asking("n")) == "awake"
    # On the awake node cpu and memory would be 0.65 apart.
    assert World(combining("EpsilonConstraint"), nodes, pods).choose(asking("n")) == "asleep"


def test_other_scores_break_ties() -> None:
    nodes = [sized("a"), sized("b")]
    nodes[1]["status"]["images"] = [{"names": ["big:1"], "sizeBytes": 2000 * MEBI}]
    document = asking("n")
    document["spec"]["containers"][0]["image"] = "big:1"
    assert World(combining("Chebyshev", only=False), nodes).choose(document) == "b"


def test_without_a_combiner_objectives_are_scores_like_others() -> None:
    world = World(
        framework({"PowerObjective": {"greatestWatts": 200}}), [sized("a"), sized("b")], [asking("p", node="b")]
    )
    evaluation = Evaluation(world.framework, world.pod(asking("n")), world.cluster)
    # 100 + 15 W of 200 to wake a; 15 W for a tenth of b.
    assert [evaluation.scores_of(row)["PowerObjective"] for row in (0, 1)] == [42, 92]
    assert evaluation.totals.tolist() == [42, 92]


def test_an_explanation_shows_costs_the_front_and_the_reason() -> None:
    nodes = [sized("a"), sized("b"), sized("c", cpu=2)]
    pods = [asking("p", "3", "1Gi", node="b")]
    world = World(combining("Chebyshev"), nodes, pods)
    told = analysis.explain(world.framework, world.cluster, world.pod(asking("n")))
    by_name = {node.name: node for node in told.nodes}
    assert [node.name for node in told.nodes if node.best] == ["b"]
    costs = {score.plugin: f"{score.cost:.3g} {score.unit}" for score in by_name["b"].scores}
    assert costs == {"PowerObjective": "10 W", "BalanceObjective": "0.2 share apart"}
    assert by_name["a"].on_front
    assert not by_name["c"].on_front
    assert told.combination == (
        "Chebyshev of 2 objectives chose b: PowerObjective 10 W, BalanceObjective 0.2 share apart (least 0); "
        "2 of 3 nodes are on the front"
    )
    assert told.summary == "would go to b, chosen by objectives"
    decision = world.decider.decide(world.pod(asking("n")))
    assert decision_report.summary(decision_report.explain(decision)) == "would go to b, chosen by objectives"


def test_no_feasible_node_is_no_combination() -> None:
    world = World(combining("ParetoKnee"), [sized("a")])
    told = analysis.explain(world.framework, world.cluster, world.pod(asking("n", "50")))
    assert told.outcome == "Unschedulable"
    assert told.combination == ""


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        ({"method": "Chebyshev", "objectives": []}, "name one to ten objectives"),
        ({"method": "Chebyshev", "objectives": [{"plugin": "PowerObjective", "limit": 3}]}, "EpsilonConstraint"),
        ({"method": "Chebyshev", "objectives": [{"plugin": "PowerObjective", "tolerance": 3}]}, "Lexicographic"),
        ({"method": "Chebyshev", "objectives": [{"plugin": "PowerObjective", "weight": 0}]}, "must be positive"),
        ({"method": "Chebyshev", "objectives": [{"plugin": "PriceObjective"}]}, "must be enabled at score"),
        ({"method": "Best", "objectives": [{"plugin": "PowerObjective"}]}, "Invalid enum value"),
    ],
)
def test_combinations_that_cannot_be_are_refused(args: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        framework({"PowerObjective": {}, "ObjectiveCombiner": args})


@pytest.mark.parametrize(
    ("plugin", "args", "fault"),
    [
        ("PowerObjective", {"models": [{"name": "big"}]}, "one model without a name"),
        ("PowerObjective", {"models": [{}, {"name": "big"}, {"name": "big"}]}, "another model has this name"),
        ("PowerObjective", {"models": [{"idle": 3, "full": 2}]}, "idle: must be from 0 to full"),
        ("PowerObjective", {"models": [{"model": "table"}]}, "two values or more"),
        ("CarbonObjective", {"intensities": [{"zone": "a"}]}, "one intensity without a zone"),
        ("FragmentationObjective", {"typicalPods": []}, "at least one typical pod"),
        ("FragmentationObjective", {"typicalPods": [{"requests": {"cpu": "many"}}]}, "requests.cpu"),
        ("PriceObjective", {"greatestPrice": 0}, "must be positive"),
        ("UtilizationObjective", {"resources": []}, "at least one resource"),
    ],
)
def test_arguments_that_cannot_be_are_refused(plugin: str, args: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        framework({plugin: args})
