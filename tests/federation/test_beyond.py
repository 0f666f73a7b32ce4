"""What goes beyond upstream: off unless it is asked for, and right where it is."""

from collections.abc import Sequence
from typing import Any

import pytest

from rota.federation.clusters import Cluster
from rota.federation.estimation import capacity_sources
from rota.federation.gates import Gates
from rota.federation.interpreters import detailed
from rota.federation.placement import triggers
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Outcome, Scheduler
from rota.federation.works import manifests, ordinals

EVERY_FIELD = Gates(spread_by_every_field=True)


def cluster(name: str, *, zone: str = "", provider: str = "", **amounts: str) -> Cluster:
    capacity = {"cpu": "100", "memory": "100Gi", "pods": "110", **amounts}
    return Cluster(
        {
            "metadata": {"name": name, "labels": {"rack": name[0]}},
            "spec": {"zones": [zone] if zone else [], "provider": provider},
            "status": {
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}],
                "resourceSummary": {"allocatable": capacity, "allocated": {}},
            },
        }
    )


def schedule(clusters: Sequence[Cluster], placement: dict[str, Any], gates: Gates, **spec: Any) -> Outcome:
    given = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "n", "uid": "u"},
        "replicas": 4,
        "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
        "placement": placement,
        **spec,
    }
    return Scheduler(Fleet(clusters), gates).schedule({"metadata": {"name": "web-deployment"}, "spec": given})


def spread(**groups: Any) -> dict[str, Any]:
    return {
        "spreadConstraints": [
            {**groups, "minGroups": 2, "maxGroups": 2},
            {"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2},
        ]
    }


@pytest.mark.parametrize(
    ("constraint", "group"),
    [
        ({"spreadByField": "zone"}, lambda one: one.zones[0]),
        ({"spreadByField": "provider"}, lambda one: one.provider),
        ({"spreadByLabel": "rack"}, lambda one: one.labels["rack"]),
    ],
)
def test_replicas_are_spread_over_zones_providers_and_labels_if_that_is_asked_for(
    constraint: dict[str, str], group: Any
) -> None:
    # the first two in the order of names are of one group
    clusters = [
        cluster("a1", zone="z1", provider="p1"),
        cluster("a2", zone="z1", provider="p1"),
        cluster("b1", zone="z2", provider="p2"),
    ]
    outcome = schedule(clusters, spread(**constraint), EVERY_FIELD)
    chosen = [one for one in clusters if one.name in {target["name"] for target in outcome.clusters}]
    assert sorted(map(group, chosen)) == sorted({group(one) for one in clusters})
    if "spreadByField" in constraint:
        upstream = schedule(clusters, spread(**constraint), Gates())
        assert [target["name"] for target in upstream.clusters] == ["a1", "a2"]


def test_too_few_groups_are_an_error_that_names_the_field() -> None:
    clusters = [cluster("a1", zone="z1"), cluster("a2", zone="z1")]
    outcome = schedule(clusters, spread(spreadByField="zone"), EVERY_FIELD)
    assert not outcome.scheduled
    assert "feasible zone is less than" in outcome.message


SOURCE: dict[str, Any] = {
    "metadata": {"name": "addresses"},
    "spec": {
        "objects": {"apiVersion": "net.example/v1", "kind": "Pool", "labelSelector": {"matchLabels": {"net": "blue"}}},
        "totalPath": ".spec.size",
        "freePath": ".status.free",
        "workloads": {"labelSelector": {"matchLabels": {"net": "blue"}}},
    },
}
ADDRESSES = "capacity.federation.rota.dev/addresses"


def pool(size: Any, free: Any, net: str = "blue") -> dict[str, Any]:
    return {"metadata": {"name": "p", "labels": {"net": net}}, "spec": {"size": size}, "status": {"free": free}}


def test_free_addresses_are_read_from_the_pools_that_a_source_selects() -> None:
    assert capacity_sources.amounts(SOURCE, [pool(10, 4), pool("20", ["a", "b"]), pool(99, 99, "red")]) == (30, 6)
    assert capacity_sources.amounts(SOURCE, [pool("?", None), {"metadata": {}}]) == (0, 0)
    used = {**SOURCE, "spec": {**SOURCE["spec"], "freePath": None, "usedPath": ".status.free"}}
    assert capacity_sources.amounts(used, [pool(10, 4)]) == (10, 6)
    template = {"metadata": {}, "spec": {"template": {"metadata": {"labels": {"net": "blue"}}}}}
    assert capacity_sources.requested([SOURCE], template) == {ADDRESSES: "1"}
    assert capacity_sources.requested([SOURCE], {"metadata": {"labels": {"net": "red"}}}) == {}


def test_estimation_and_filters_heed_addresses() -> None:
    clusters = [cluster("a", **{ADDRESSES: "3"}), cluster("b", **{ADDRESSES: "9"}), cluster("c")]
    needed = {"resourceRequest": {"cpu": "1", ADDRESSES: "1"}}
    dynamic = {
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        }
    }
    divided = schedule(clusters, dynamic, Gates(), replicas=12, replicaRequirements=needed)
    assert {one["name"]: one["replicas"] for one in divided.clusters} == {"a": 3, "b": 9}
    assert not schedule(clusters, dynamic, Gates(), replicas=13, replicaRequirements=needed).scheduled
    duplicated = schedule(clusters, {}, Gates(), replicas=4, replicaRequirements=needed)
    assert [one["name"] for one in duplicated.clusters] == ["b"]
    refused = schedule(clusters, {}, Gates(), replicas=10, replicaRequirements=needed)
    assert ADDRESSES in refused.message


def stateful(block: str | None, replicas: int = 4) -> dict[str, Any]:
    annotations = {} if block is None else {ordinals.BLOCK: block}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "n", "uid": "u", "generation": 2, "annotations": annotations},
        "spec": {"replicas": replicas},
    }


def rendered(resource: dict[str, Any], **annotations: str) -> manifests.Rendered:
    strategy = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    binding = {
        "metadata": {"name": "db-statefulset", "namespace": "n", "annotations": annotations},
        "spec": {
            "replicas": 4,
            "placement": {"replicaScheduling": strategy},
            "clusters": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 3}],
        },
    }
    return manifests.render(resource, binding, [cluster("a"), cluster("b")], manifests.Policies())


def starts(found: manifests.Rendered) -> list[int | None]:
    return [
        (work["spec"]["workload"]["manifests"][0]["spec"].get("ordinals") or {}).get("start") for work in found.works
    ]


def test_divided_stateful_sets_have_disjoint_ordinals_that_stay() -> None:
    assert starts(rendered(stateful("100"))) == [0, 100]
    # a cluster keeps its block, whatever others do
    assert starts(rendered(stateful("100"), **{ordinals.BLOCKS: '{"b":0,"gone":1}'})) == [200, 0]
    assert starts(rendered(stateful(None))) == [None, None]


@pytest.mark.parametrize(("block", "why"), [("2", "do not fit"), ("many", "write a number"), ("0", "write a number")])
def test_blocks_that_cannot_be_used_are_named(block: str, why: str) -> None:
    found = rendered(stateful(block))
    assert any(why in problem for problem in found.errors)


def test_a_stateful_set_reports_every_ordinal_and_merges_revisions_and_conditions() -> None:
    member = {
        **stateful("100"),
        "metadata": {
            "name": "db",
            "namespace": "n",
            "uid": "s",
            "generation": 1,
            "annotations": {"resourcetemplate.karmada.io/generation": "2"},
        },
        "status": {"replicas": 1, "readyReplicas": 1, "currentRevision": "r1", "updateRevision": "r2"},
    }
    owned = {"ownerReferences": [{"uid": "s", "controller": True}]}
    pods: list[dict[str, Any]] = [
        {
            "metadata": {"name": "db-101", **owned, "labels": {"controller-revision-hash": "r2"}},
            "spec": {"nodeName": "w1"},
            "status": {
                "phase": "Running",
                "podIP": "10.0.0.7",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        {"metadata": {"name": "db-100", **owned}, "status": {"phase": "Pending"}},
        {"metadata": {"name": "db-9", "ownerReferences": [{"uid": "other", "controller": True}]}},
    ]
    status = detailed.stateful_set_status(member, pods)
    assert status is not None
    assert status["ordinals"] == [
        {"ordinal": 100, "pod": "db-100", "phase": "Pending", "ready": False},
        {
            "ordinal": 101,
            "pod": "db-101",
            "phase": "Running",
            "ready": True,
            "podIP": "10.0.0.7",
            "nodeName": "w1",
            "revision": "r2",
        },
    ]

    def item(name: str, revision: str, good: str) -> dict[str, Any]:
        own = {
            **status,
            "observedGeneration": 1,
            "updateRevision": revision,
            "conditions": [{"type": "Available", "status": good, "reason": "x", "message": "m"}],
        }
        return {"clusterName": name, "status": own}

    equal = detailed.of_stateful_set(stateful("100"), [item("a", "r2", "True"), item("b", "r2", "False")], "now")
    assert (equal["replicas"], equal["readyReplicas"], equal["updateRevision"]) == (2, 2, "r2")
    assert equal["observedGeneration"] == 2
    assert [(one["status"], one["message"]) for one in equal["conditions"]] == [("False", "b: m")]
    mixed = detailed.of_stateful_set(stateful("100"), [item("a", "r1", "True"), item("b", "r2", "True")], "now")
    assert "updateRevision" not in mixed


def test_pods_and_claims_keep_their_statuses() -> None:
    one = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    assert detailed.of_pod({}, [{"clusterName": "a", "status": one}], "now") == one
    both = detailed.of_pod(
        {},
        [
            {"clusterName": "a", "status": one},
            {"clusterName": "b", "status": {**one, "podIP": "10.0.0.2", "phase": "Pending"}},
        ],
        "now",
    )
    assert both is not None
    assert (both["phase"], both["podIPs"]) == ("Pending", [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}])
    claim = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    assert detailed.of_claim({}, [{"clusterName": "a", "status": claim}], "now") == claim


def test_a_divided_workload_takes_up_a_new_cluster_once_if_its_policy_says_so() -> None:
    strategy = {"replicaSchedulingType": "Divided"}
    binding: dict[str, Any] = {
        "metadata": {"annotations": {triggers.NEW_CLUSTERS: "rebalance"}},
        "spec": {"placement": {"replicaScheduling": strategy}},
        "status": {"lastScheduledTime": "2026-01-01T00:00:10Z"},
    }
    created = {"old": "2026-01-01T00:00:00Z", "new": "2026-01-01T00:00:20Z"}
    assert triggers.new_clusters(binding, created) == ["new"]
    assert triggers.new_clusters({**binding, "metadata": {}}, created) == []
    asked = {**binding, "spec": {**binding["spec"], "rescheduleTriggeredAt": "2026-01-01T00:00:21Z"}}
    assert triggers.new_clusters(asked, created) == []
    later = {**binding, "status": {"lastScheduledTime": "2026-01-01T00:00:30Z"}}
    assert triggers.new_clusters(later, created) == []
