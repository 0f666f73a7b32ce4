"""Explanations of pods on clusters made by hand: refusals, scores, evictions, and what would have to change."""

from typing import Any

import msgspec
import pytest

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.explanation import analysis
from rota.scheduler.explanation.analysis import Opinions
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.hints import explanation_report, required_changes
from rota.scheduler.hints.explanation_report import Explanation, Node
from rota.scheduler.plugin_registry import builtin
from rota.testing import clusters
from rota.testing.clusters import Document, make_node, make_pod

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def framework() -> Framework:
    registry = builtin.registry()
    return Framework(resolution.default(specs_of(registry)).first, registry)


class World:
    def __init__(self, nodes: list[Document], pods: list[Document]) -> None:
        self.interner = PodInterner()
        self.cluster: Cluster = clusters.build(nodes, pods, self.interner)
        self.framework = framework()

    def pod(self, document: Document) -> PodInfo:
        return self.interner.pod(document)

    def explain(self, document: Document, **options: Any) -> Explanation:
        return analysis.explain(self.framework, self.cluster, self.pod(document), **options)


def tainted(name: str) -> Document:
    node = make_node(name)
    node["spec"]["taints"] = [TAINT]
    return node


def cordoned(name: str) -> Document:
    node = make_node(name)
    node["spec"]["unschedulable"] = True
    return node


def by_name(explanation: Explanation) -> dict[str, Node]:
    return {node.name: node for node in explanation.nodes}


def texts(explanation: Explanation) -> list[str]:
    return [change.text for change in explanation.changes]


def test_scores_tell_plugins_and_weights_and_add_up() -> None:
    world = World([make_node("n1"), make_node("n2")], [make_pod("a", on="n1", cpu="3")])
    told = world.explain(make_pod("web", cpu="500m"))
    assert (told.outcome, told.node) == ("Schedulable", "n2")
    assert told.summary.startswith("would go to n2 with a score of ")
    assert told.changes == ()
    for node in told.nodes:
        assert node.total == sum(score.weighted for score in node.scores)
        assert all(score.weighted == score.score * score.weight for score in node.scores)
        assert [score.weighted for score in node.scores] == sorted((s.weighted for s in node.scores), reverse=True)
    weights = {score.plugin: score.weight for score in told.nodes[0].scores}
    assert weights["TaintToleration"] == 3
    assert [(node.name, node.best) for node in told.nodes] == [("n2", True), ("n1", False)]


def test_what_would_have_to_change_is_counted_over_all_nodes() -> None:
    full = [make_pod(f"p{number}", on=f"n{number}", cpu="3") for number in range(3)]
    world = World([*(make_node(f"n{number}") for number in range(3)), *(tainted(f"t{n}") for n in range(4))], full)
    told = world.explain(make_pod("web", cpu="3"))
    assert texts(told) == [
        "4 nodes excluded by taint dedicated=gpu:NoSchedule",
        "needs 2 more cpu on any of 3 nodes",
    ]
    assert [(change.nodes, change.opens) for change in told.changes] == [(4, 4), (3, 3)]
    assert (
        required_changes.sentence(told.changes, most=1)
        == "4 nodes excluded by taint dedicated=gpu:NoSchedule; and 1 more"
    )


def test_a_shortage_names_the_nearest_node_and_counts_only_nodes_that_it_opens() -> None:
    world = World(
        [make_node("near"), make_node("far"), tainted("off")],
        [make_pod("a", on="near", cpu="1500m"), make_pod("b", on="far", cpu="3500m"), make_pod("c", on="off", cpu="4")],
    )
    told = world.explain(make_pod("web", cpu="3"))
    assert texts(told) == [
        "needs 500m more cpu on near, or up to 2500m more cpu on any of 2 nodes",
        "1 node excluded by taint dedicated=gpu:NoSchedule",
    ]
    assert told.changes[0].examples == ("near", "far", "off")
    assert [refusal.plugin for refusal in by_name(told)["off"].refusals] == ["TaintToleration", "NodeResourcesFit"]


def test_several_shortages_of_one_node_are_one_change() -> None:
    world = World([make_node("n1", pods="1", memory="1Gi")], [make_pod("a", on="n1", cpu="3")])
    told = world.explain(make_pod("web", cpu="2"))
    assert texts(told) == ["needs room for one more pod and 1 more cpu on n1"]
    assert told.changes[0].opens == 1


def test_a_request_above_the_whole_node_is_reported_as_such() -> None:
    world = World([make_node("n1"), make_node("n2", cpu="6")], [])
    told = world.explain(make_pod("web", cpu="8"))
    assert texts(told) == [
        "requests 8 cpu; 2 nodes have 6 at most, even when empty: request less, or add a larger node"
    ]
    assert by_name(told)["n1"].eviction == explanation_report.Eviction(reason="evicting pods would not help")


def test_amounts_are_readable_and_missing_resources_name_the_remedy() -> None:
    world = World([make_node("n1", memory="24011054285")], [])
    requests = {"memory": "64Gi", "nvidia.com/gpu": "1"}
    told = texts(world.explain(make_pod("web", containers=[{"name": "c", "resources": {"requests": requests}}])))
    assert told == [
        "requests 1 nvidia.com/gpu; 1 node has none: add a worker that has it, or declare it there with --resources "
        "nvidia.com/gpu=AMOUNT",
        "requests 64Gi memory; 1 node has 22.4Gi at most, even when empty: request less, or add a larger node",
    ]


def test_pods_in_the_way_are_named() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [make_node("n1")]
    placed = make_pod("db-0", on="n1", labels={"app": "db"})
    own = World(nodes, [placed]).explain(make_pod("web", affinity=apart))
    assert texts(own) == [
        "1 node in the same kubernetes.io/hostname as a pod which the pod avoids by its required anti-affinity: "
        "default/db-0"
    ]
    others = World(nodes, [make_pod("lonely", on="n1", affinity=apart)]).explain(make_pod("db-1", labels={"app": "db"}))
    assert texts(others) == [
        "1 node in the same kubernetes.io/hostname as a pod which is in conflict by its own required anti-affinity: "
        "default/lonely"
    ]
    port = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
    taken = World(nodes, [make_pod("first", on="n1", containers=[{"name": "c", **port}])]).explain(
        make_pod("second", containers=[{"name": "c", **port}])
    )
    assert texts(taken) == ["host port 8080/TCP taken on 1 node: default/first"]


@pytest.mark.parametrize(
    ("node", "spec", "text"),
    [
        (cordoned("n1"), {}, "1 node cordoned"),
        (
            make_node("n1", labels={"disk": "hdd"}),
            {"nodeSelector": {"disk": "ssd"}},
            "1 node without label disk=ssd, which nodeSelector asks for",
        ),
        (
            make_node("n1"),
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
                        }
                    }
                }
            },
            "1 node outside of the pod's required node affinity",
        ),
        (
            make_node("n1"),
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "rack",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    }
                ]
            },
            "1 node without label rack, over which the pod is spread",
        ),
        (
            make_node("n1"),
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": clusters.HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
                        ]
                    }
                }
            },
            "1 node with no pod that the required affinity asks for in the same kubernetes.io/hostname",
        ),
    ],
)
def test_every_usual_obstacle_has_words_of_its_own(node: Document, spec: dict[str, Any], text: str) -> None:
    assert texts(World([node], []).explain(make_pod("web", **spec))) == [text]


def test_taken_host_ports_and_broken_spreads_are_named() -> None:
    ports = [{"name": "c", "image": "app", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    world = World([make_node("n1")], [make_pod("a", on="n1", containers=ports)])
    assert texts(world.explain(make_pod("web", containers=ports))) == ["host port 80/TCP taken on 1 node: default/a"]
    spread = {
        "maxSkew": 1,
        "topologyKey": clusters.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    nodes = [make_node("n1", labels={clusters.ZONE: "a"}), make_node("n2", labels={clusters.ZONE: "b"}, pods="0")]
    world = World(nodes, [make_pod("a", on="n1", labels={"app": "web"})])
    told = world.explain(make_pod("web", labels={"app": "web"}, topologySpreadConstraints=[spread]))
    assert "1 node would break the spread over topology.kubernetes.io/zone (maxSkew 1)" in texts(told)
    assert "needs room for one more pod on n2" in texts(told)


def test_every_node_has_its_victims_or_why_evictions_do_not_help() -> None:
    world = World(
        [make_node("full"), make_node("same"), make_node("small", cpu="1"), make_node("half")],
        [
            make_pod("low", on="full", cpu="3", priority=1),
            make_pod("peer", on="same", cpu="3", priority=10),
            make_pod("lower", on="half", cpu="1", priority=0),
            make_pod("mate", on="half", cpu="2500m", priority=10),
        ],
    )
    told = world.explain(make_pod("web", cpu="2", priority=10))
    assert told.outcome == "Unschedulable"
    assert (told.nominated, [victim.name for victim in told.victims]) == ("full", ["low"])
    assert "evicting default/low would make room on full" in told.summary
    evictions = {name: node.eviction for name, node in by_name(told).items()}
    assert evictions["full"] == explanation_report.Eviction(
        victims=(explanation_report.Victim(namespace="default", name="low", priority=1),), budgets_broken=0
    )
    assert evictions["same"] == explanation_report.Eviction(reason="no pod of lower priority there")
    assert evictions["small"] == explanation_report.Eviction(reason="evicting pods would not help")
    assert evictions["half"] == explanation_report.Eviction(reason="not even then: Insufficient cpu")
    gentle = world.explain(make_pod("web", cpu="2", priority=10, preemptionPolicy="Never"))
    assert by_name(gentle)["full"].eviction == explanation_report.Eviction(reason="the pod's preemptionPolicy is Never")
    assert gentle.no_room == "preemption: not eligible due to preemptionPolicy=Never."


def test_one_node_can_be_asked_about_alone_also_where_others_would_do() -> None:
    world = World([make_node("free"), make_node("full")], [make_pod("low", on="full", cpu="4")])
    told = world.explain(make_pod("web", cpu="1", priority=5), node_name="full")
    assert [node.name for node in told.nodes] == ["full"]
    assert (told.outcome, told.node) == ("Schedulable", "free")
    assert texts(told) == ["needs 1 more cpu on full"]
    assert told.nodes[0].eviction is not None
    assert [victim.name for victim in told.nodes[0].eviction.victims] == ["low"]


def test_a_pod_that_has_a_node_is_explained_as_if_it_had_none_and_stays_there() -> None:
    document = make_pod("web", on="n1", cpu="3")
    world = World([make_node("n1"), make_node("n2", cpu="8")], [document])
    pod = world.cluster.pods["uid-web"]
    told = analysis.explain(world.framework, world.cluster, pod)
    assert (told.current_node, told.node) == ("n1", "n2")
    assert by_name(told)["n1"].feasible
    assert world.cluster.pods["uid-web"] is pod
    assert world.cluster.by_name["n1"].pods == {"uid-web": pod}


def test_a_gated_pod_is_held_and_still_explained() -> None:
    world = World([make_node("n1")], [])
    told = world.explain(make_pod("web", schedulingGates=[{"name": "quota"}]))
    assert told.outcome == "Held"
    assert told.summary.startswith("is held back by SchedulingGates: ")
    assert told.node == "n1"


def test_a_refusal_by_prefilter_is_reported() -> None:
    world = World([make_node("n1")], [])
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}]
    told = world.explain(make_pod("web", volumes=volumes))
    assert told.outcome == "Unschedulable"
    assert 'persistentvolumeclaim "nowhere" not found' in told.summary
    assert by_name(told)["n1"].refusals[0].plugin == "VolumeRestrictions"


def test_extenders_have_their_say() -> None:
    world = World([make_node("n1"), make_node("n2"), make_node("n3")], [])
    refusal = Status(Code.UNSCHEDULABLE, ("rack 7 is down",), "Extender")
    told = world.explain(make_pod("web"), opinions=Opinions(refusals={"n1": refusal}, ratings={"n3": 70}))
    assert told.node == "n3"
    assert by_name(told)["n1"].refusals == (
        explanation_report.Refusal(plugin="Extender", code="Unschedulable", reasons=("rack 7 is down",)),
    )
    assert explanation_report.Score(plugin="Extender", score=70, weighted=70) in by_name(told)["n3"].scores
    everything = dict.fromkeys(("n1", "n2", "n3"), refusal)
    told = world.explain(make_pod("web"), opinions=Opinions(refusals=everything))
    assert (told.outcome, told.node) == ("Unschedulable", "")
    assert texts(told) == ["3 nodes refused by Extender: rack 7 is down"]


def test_an_explanation_survives_the_wire() -> None:
    world = World([make_node("n1"), tainted("t1")], [make_pod("low", on="n1", cpu="4")])
    for document in (make_pod("web", cpu="2", priority=3), make_pod("small", cpu="0")):
        told = world.explain(document)
        wire = explanation_report.to_wire(told)
        assert (wire["apiVersion"], wire["kind"]) == ("rota.dev/v1alpha1", "Explanation")
        again = msgspec.json.decode(msgspec.json.encode(wire))
        assert explanation_report.from_wire(again) == told


def test_a_cluster_without_nodes_has_nothing_to_change() -> None:
    told = World([], []).explain(make_pod("web"))
    assert (told.outcome, told.summary, told.changes) == ("Unschedulable", "has no node: the cluster has none", ())


def test_only_so_many_nodes_are_looked_at_in_detail_and_the_best_of_them() -> None:
    world = World([make_node(f"n{number}", cpu=str(number + 1)) for number in range(9)], [])
    told = world.explain(make_pod("web", cpu="1"), most=2)
    assert told.nodes[0].name == told.node
    assert (len(told.nodes), told.omitted) == (2, 7)
    refused = world.explain(make_pod("web", cpu="9500m", nodeSelector={"kubernetes.io/hostname": "n3"}), most=1)
    assert [node.name for node in refused.nodes] == ["n3"]  # the others lack the label, too
    assert refused.summary.count(" and ") == 0


def test_long_lists_of_names_are_cut_short() -> None:
    world = World([make_node(f"n{number}") for number in range(5)], [])
    assert world.explain(make_pod("web")).summary.startswith("would go to one of n0, n1, n2 and 2 more with a score of")
