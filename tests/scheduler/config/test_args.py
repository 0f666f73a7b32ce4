"""Plugin arguments: kube-scheduler's defaults, and its rules with the field that breaks them."""

from typing import Any

import pytest

from rota.scheduler.config import args, documents
from rota.scheduler.config.args import UPSTREAM, Checked
from rota.scheduler.config.faults import ConfigurationError


def read(plugin: str, data: dict[str, Any]) -> Any:
    return documents.convert(data, UPSTREAM[plugin])


def fault_paths(plugin: str, data: dict[str, Any]) -> list[str]:
    value = read(plugin, data)
    assert isinstance(value, Checked)
    return [fault.path for fault in value.faults()]


def test_defaults_are_those_of_kube_scheduler() -> None:
    assert read("DefaultPreemption", {}).min_candidate_nodes_percentage == 10
    assert read("DefaultPreemption", {}).min_candidate_nodes_absolute == 100
    assert read("InterPodAffinity", {}).hard_pod_affinity_weight == 1
    assert read("PodTopologySpread", {}).defaulting_type == "System"
    assert read("VolumeBinding", {}).bind_timeout_seconds == 600
    assert [(p.utilization, p.score) for p in read("VolumeBinding", {}).shape] == [(0, 10), (100, 0)]
    assert read("DynamicResources", {}).filter_timeout.total_seconds() == 10
    assert read("DynamicResources", {}).binding_timeout.total_seconds() == 600
    strategy = read("NodeResourcesFit", {}).scoring_strategy
    assert strategy.type == "LeastAllocated"
    assert [(r.name, r.weight) for r in strategy.resources] == [("cpu", 1), ("memory", 1)]
    balanced = read("NodeResourcesBalancedAllocation", {}).resources
    assert [(r.name, r.weight) for r in balanced] == [("cpu", 1), ("memory", 1)]


@pytest.mark.parametrize("plugin", UPSTREAM)
def test_defaults_have_no_faults(plugin: str) -> None:
    assert fault_paths(plugin, {}) == []


def test_a_resource_weight_of_zero_means_one() -> None:
    strategy = read("NodeResourcesFit", {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 0}]}})
    assert strategy.scoring_strategy.resources[0].weight == 1


def test_a_strategy_without_resources_gets_the_usual_two() -> None:
    strategy = read("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}).scoring_strategy
    assert strategy.resources == args.DEFAULT_RESOURCES


def ratio(*points: tuple[int, int]) -> dict[str, Any]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return {"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}}


SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"


@pytest.mark.parametrize(
    ("plugin", "data", "paths"),
    [
        ("DefaultPreemption", {"minCandidateNodesPercentage": 101}, ["minCandidateNodesPercentage"]),
        ("DefaultPreemption", {"minCandidateNodesPercentage": -1}, ["minCandidateNodesPercentage"]),
        ("DefaultPreemption", {"minCandidateNodesAbsolute": -1}, ["minCandidateNodesAbsolute"]),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"],
        ),
        ("InterPodAffinity", {"hardPodAffinityWeight": -1}, ["hardPodAffinityWeight"]),
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, ["hardPodAffinityWeight"]),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, ["bindTimeoutSeconds"]),
        ("VolumeBinding", {"shape": [{"utilization": 1, "score": 11}]}, ["shape[0].score"]),
        ("DynamicResources", {"filterTimeout": "-1s"}, ["filterTimeout"]),
        ("DynamicResources", {"bindingTimeout": "999ms"}, ["bindingTimeout"]),
        ("NodeResourcesFit", {"scoringStrategy": {}}, ["scoringStrategy.type"]),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "Random"}}, ["scoringStrategy.type"]),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 101}]}},
            ["scoringStrategy.resources[0].weight"],
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            ["scoringStrategy.requestedToCapacityRatio"],
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "LeastAllocated", "requestedToCapacityRatio": {"shape": []}}},
            ["scoringStrategy.requestedToCapacityRatio"],
        ),
        ("NodeResourcesFit", ratio(), [SHAPE]),
        ("NodeResourcesFit", ratio((0, 0), (100, 10)), []),
        ("NodeResourcesFit", ratio((0, 0), (0, 10)), [f"{SHAPE}[1].utilization"]),
        ("NodeResourcesFit", ratio((50, 0), (20, 10), (10, 1)), [f"{SHAPE}[1].utilization"]),
        (
            "NodeResourcesFit",
            ratio((-1, 0), (101, -1)),
            [f"{SHAPE}[0].utilization", f"{SHAPE}[1].utilization", f"{SHAPE}[1].score"],
        ),
        ("NodeResourcesFit", {"ignoredResources": ["ok.example/x", "not ok"]}, ["ignoredResources[1]"]),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["example.com", "a.b/c"]}, ["ignoredResourceGroups[1]"]),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}]},
            ["resources[0].weight", "resources[1].name"],
        ),
    ],
)
def test_values_out_of_bounds_are_named(plugin: str, data: dict[str, Any], paths: list[str]) -> None:
    assert fault_paths(plugin, data) == paths


ZONE = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        ({"defaultingType": "List", "defaultConstraints": [ZONE]}, []),
        ({"defaultingType": "List"}, []),
        ({"defaultConstraints": [ZONE]}, ["defaultingType"]),
        ({"defaultingType": "Sometimes"}, ["defaultingType"]),
        ({"defaultingType": "List", "defaultConstraints": [ZONE, ZONE]}, ["defaultConstraints[1]"]),
        (
            {"defaultingType": "List", "defaultConstraints": [{**ZONE, "maxSkew": 0, "topologyKey": ""}]},
            ["defaultConstraints[0].maxSkew", "defaultConstraints[0].topologyKey"],
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [{**ZONE, "whenUnsatisfiable": "Shrug"}]},
            ["defaultConstraints[0].whenUnsatisfiable"],
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [{**ZONE, "labelSelector": {}}]},
            ["defaultConstraints[0].labelSelector"],
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [{**ZONE, "nodeTaintsPolicy": "Maybe"}]},
            ["defaultConstraints[0].nodeTaintsPolicy"],
        ),
        (
            {"defaultingType": "List", "defaultConstraints": [{**ZONE, "topologyKey": "spaces in it"}]},
            ["defaultConstraints[0].topologyKey"],
        ),
    ],
)
def test_default_spread_constraints_are_checked(data: dict[str, Any], paths: list[str]) -> None:
    assert fault_paths("PodTopologySpread", data) == paths


def required(**requirement: object) -> dict[str, Any]:
    term = {"matchExpressions": [requirement]}
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


FIRST = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"


AFFINITIES: list[tuple[dict[str, Any], list[str]]] = [
    (required(key="disk", operator="In", values=["ssd"]), []),
    (required(key="disk", operator="Exists"), []),
    (required(key="disk", operator="Like", values=["ssd"]), [f"{FIRST}.operator"]),
    (required(key="disk", operator="In"), [f"{FIRST}.values"]),
    (required(key="disk", operator="Exists", values=["x"]), [f"{FIRST}.values"]),
    (required(key="size", operator="Gt", values=["1", "2"]), [f"{FIRST}.values"]),
    (required(key="size", operator="Gt", values=["big"]), [f"{FIRST}.values[0]"]),
    (required(key="-disk", operator="Exists"), [f"{FIRST}.key"]),
    (required(key="disk", operator="In", values=["not ok"]), [f"{FIRST}.values[0][disk]"]),
]


@pytest.mark.parametrize(("data", "paths"), AFFINITIES)
def test_added_affinity_is_checked(data: dict[str, Any], paths: list[str]) -> None:
    assert fault_paths("NodeAffinity", data) == paths


def test_a_field_requirement_takes_one_value() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}
    preferred = [{"weight": 5, "preference": term}, {"weight": 0, "preference": term}]
    data = {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    path = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].values"
    assert fault_paths("NodeAffinity", data) == [path]


def test_an_unknown_field_deep_in_the_added_affinity_is_refused_with_its_path() -> None:
    with pytest.raises(
        ConfigurationError, match=r"nodeSelectorTerms\[0\]\.matchExpressions\[0\]\.vales: unknown field"
    ):
        read("NodeAffinity", required(key="disk", operator="In", vales=["ssd"]))
