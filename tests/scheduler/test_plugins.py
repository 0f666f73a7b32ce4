"""Plugins by example: worked values, defaults, and the corners that recordings do not reach."""

from typing import Any

import pytest

from rota.columns import allocation
from rota.columns.pod_interner import PodInterner, normalized_image, read_node
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider, Decision
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import Code
from rota.scheduler.plugin_registry import builtin
from rota.testing.clusters import HOSTNAME, ZONE, Document, build, make_node, make_pod

REGISTRY = builtin.registry()
SPECS = specs_of(REGISTRY)


def framework(*plugin_config: Document) -> Framework:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": list(plugin_config)}],
    }
    return Framework(resolution.resolve(resolution.read(document), SPECS).first, REGISTRY)


DEFAULT = framework()


def decide(
    nodes: list[Document], pods: list[Document], pod: Document, *, by: Framework = DEFAULT, **kinds: Document
) -> Decision:
    interner = PodInterner()
    cluster = build(nodes, pods, interner)
    for kind, document in kinds.items():
        cluster.catalog.put(kind, document)
    return Decider(by, cluster).decide(interner.pod(pod))


def scores(decision: Decision, plugin: str) -> list[int]:
    evaluation = decision.evaluation
    return [evaluation.scores_of(node.row)[plugin] for node in evaluation.cluster.node_infos()]


def big(name: str, **fields: Any) -> Document:
    return make_node(name, **{"cpu": "4", "memory": "32Gi", "pods": "110", **fields})


def requesting(cpu: str, memory: str, **fields: Any) -> Document:
    document = make_pod("p", **fields)
    document["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu, "memory": memory}
    return document


def test_scores_of_an_empty_node() -> None:
    decision = decide([big("a")], [], requesting("100m", "500Mi"))
    assert decision.evaluation.scores_of(0) == {
        "TaintToleration": 300,
        "NodeResourcesFit": 97,
        "NodeResourcesBalancedAllocation": 74,
        "ImageLocality": 0,
    }
    assert int(decision.evaluation.totals[0]) == 471


def test_scores_of_a_used_node() -> None:
    used = requesting("1500m", "4Gi", on="a")
    used["metadata"]["uid"] = "used"
    decision = decide([big("a")], [used], requesting("500m", "4Gi"))
    assert scores(decision, "NodeResourcesFit") == [62]
    assert scores(decision, "NodeResourcesBalancedAllocation") == [75]


def test_a_pod_without_requests_counts_as_a_small_one_and_has_no_balance() -> None:
    pod = make_pod("p")
    del pod["spec"]["containers"][0]["resources"]
    decision = decide([big("a")], [], pod)
    assert scores(decision, "NodeResourcesFit") == [98]
    assert "NodeResourcesBalancedAllocation" not in decision.evaluation.scores_of(0)


def test_taints_that_advise_against_nodes_are_counted() -> None:
    nodes = []
    for number in (0, 1, 3):
        node = make_node(f"n{number}")
        node["spec"]["taints"] = [{"key": f"k{each}", "effect": "PreferNoSchedule"} for each in range(number)]
        nodes.append(node)
    assert scores(decide(nodes, [], make_pod("p")), "TaintToleration") == [300, 201, 0]


def test_an_image_on_one_of_two_nodes() -> None:
    nodes = [make_node("a"), make_node("b")]
    nodes[0]["status"]["images"] = [{"names": ["app:1"], "sizeBytes": 500 * 1024 * 1024}]
    assert scores(decide(nodes, [], make_pod("p")), "ImageLocality") == [23, 0]


@pytest.mark.parametrize(
    ("name", "normalized"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("host:5000/app", "host:5000/app:latest"),
        ("a@sha256:ab", "a@sha256:ab"),
    ],
)
def test_images_without_a_tag_are_the_latest(name: str, normalized: str) -> None:
    assert normalized_image(name) == normalized


def test_soft_spreading_over_hosts() -> None:
    constraint = {
        "topologyKey": HOSTNAME,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pods = [make_pod(f"p{number}", on=on, labels={"app": "web"}) for number, on in enumerate(["b", "c", "c"])]
    incoming = make_pod("p", labels={"app": "web"}, topologySpreadConstraints=[constraint])
    decision = decide([make_node(name) for name in "abc"], pods, incoming)
    assert scores(decision, "PodTopologySpread") == [200, 66, 0]


SERVICE = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
REPLICA_SET = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
}


@pytest.mark.parametrize("source", ["Service", "ReplicaSet", None])
def test_services_and_owners_spread_pods_by_default(source: str | None) -> None:
    nodes = [make_node("a", labels={ZONE: "z1"}), make_node("b", labels={ZONE: "z2"})]
    running = make_pod("running", on="a", labels={"app": "web"})
    incoming = make_pod("p", labels={"app": "web"})
    incoming["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    ]
    kinds: dict[str, Any] = {} if source is None else {source: SERVICE if source == "Service" else REPLICA_SET}
    decision = decide(nodes, [running], incoming, **kinds)
    if source is None:
        assert "PodTopologySpread" not in decision.evaluation.scores_of(0)
    else:
        assert scores(decision, "PodTopologySpread")[0] < scores(decision, "PodTopologySpread")[1]
        assert decision.node_name == "b"


def test_a_falling_shape_truncates_towards_zero() -> None:
    assert allocation.piecewise_linear([(0, 100), (30, 0)], 10) == 67
    strategy = {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu", "weight": 1}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 10}, {"utilization": 30, "score": 0}]},
    }
    by = framework({"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}})
    assert scores(decide([make_node("a", cpu="1")], [], make_pod("p"), by=by), "NodeResourcesFit") == [67]


def test_nodes_larger_than_floats_can_count_are_scored_exactly() -> None:
    pod = requesting("100m", str(99 * 10**16 + 1))
    decision = decide([make_node("a", memory=str(10**18))], [], pod)
    # One byte more than 99 of 100 leaves less than one whole hundredth.
    assert scores(decision, "NodeResourcesFit") == [(97 + 0) // 2]


def test_everything_that_is_lacking_is_said_and_too_large_is_beyond_remedy() -> None:
    running = [requesting("3", "1Gi", on=name) for name in ("a", "b")]
    for pod, uid in zip(running, ("u1", "u2"), strict=True):
        pod["metadata"]["uid"] = uid
    nodes = [make_node("a", pods="1"), make_node("b", memory="2Gi")]
    decision = decide(nodes, running, requesting("2", "4Gi", priority=-1))
    first, second = (decision.evaluation.status_of(row) for row in (0, 1))
    assert (first.code, set(first.reasons)) == (Code.UNSCHEDULABLE, {"Too many pods", "Insufficient cpu"})
    assert (second.code, set(second.reasons)) == (
        Code.UNRESOLVABLE,
        {"Insufficient cpu", "Insufficient memory"},
    )


def test_ignored_resources_are_not_checked() -> None:
    pod = make_pod("p")
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    assert decide([make_node("a")], [], pod).node_name is None
    for args in ({"ignoredResources": ["example.com/gpu"]}, {"ignoredResourceGroups": ["example.com"]}):
        assert (
            decide([make_node("a")], [], pod, by=framework({"name": "NodeResourcesFit", "args": args})).node_name == "a"
        )


def test_terms_that_name_conflicting_nodes_end_the_attempt() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    decision = decide([make_node("a")], [], make_pod("p", affinity=affinity))
    assert decision.status.reasons == ("pod affinity terms conflict",)
    assert (decision.status.code, decision.status.plugin) == (Code.UNRESOLVABLE, "NodeAffinity")


def test_a_pod_that_names_its_node_goes_there_or_nowhere() -> None:
    pod = make_pod("p", on="b")
    decision = decide([make_node("a"), make_node("b")], [], pod)
    assert decision.node_name == "b"
    assert decision.evaluation.status_of(0).code is Code.UNRESOLVABLE


def test_the_first_pod_of_a_group_that_wants_its_own_kind_may_start_it() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [make_node("a"), make_node("b", labels={ZONE: "z"})]
    assert decide(nodes, [], make_pod("p", labels={"app": "web"}, affinity=affinity)).node_name == "b"
    assert decide(nodes, [], make_pod("p", labels={"app": "db"}, affinity=affinity)).node_name is None


def test_pods_waiting_in_line_notice_a_new_service() -> None:
    interner = PodInterner()
    nodes = [make_node("a", labels={ZONE: "z1"}), make_node("b", labels={ZONE: "z2"})]
    cluster = build(nodes, [make_pod("running", on="a", labels={"app": "web"})], interner)
    decider = Decider(DEFAULT, cluster)
    for number in range(4):
        pod = interner.pod(make_pod(f"p{number}", labels={"app": "web"}))
        assert ("PodTopologySpread" in decider.decide(pod).evaluation.scores_of(0)) is (number == 3)
        if number == 2:
            cluster.catalog.put("Service", SERVICE)


def test_scores_need_no_pre_score_where_a_profile_leaves_it_out() -> None:
    plugins: dict[str, Any] = {
        "preScore": {"disabled": [{"name": "*"}]},
        "score": {"disabled": [{"name": "*"}], "enabled": []},
    }
    names = ("TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality")
    plugins["score"]["enabled"] = [{"name": name, "weight": 1} for name in names]
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }
    by = Framework(resolution.resolve(resolution.read(document), SPECS).first, REGISTRY)
    assert decide([big("a")], [], requesting("100m", "500Mi"), by=by).evaluation.scores_of(0) == {
        "TaintToleration": 100,
        "NodeAffinity": 0,
        "NodeResourcesFit": 97,
        "NodeResourcesBalancedAllocation": 74,
        "ImageLocality": 0,
    }


def test_a_node_that_opens_late_gets_its_full_score() -> None:
    interner = PodInterner()
    closed = [make_node(f"n{number}") for number in range(4)]
    for node in closed[1:]:
        node["spec"]["unschedulable"] = True
    cluster = build(closed, [], interner)
    decider = Decider(DEFAULT, cluster)
    for number in range(3):
        decider.decide(interner.pod(make_pod(f"p{number}")))
    cluster.set_node(read_node(make_node("n2")))
    decision = decider.decide(interner.pod(make_pod("last")))
    assert decision.evaluation.scores_of(2) == decision.evaluation.scores_of(0)
    assert int(decision.evaluation.totals[2]) == int(decision.evaluation.totals[0]) > 0
