"""Scenarios of Karmada's own end-to-end tests, and the problems that it leaves open, with real members."""

from typing import Any

import pytest
from tests.federation.live import live_place as live

from rota.api import errors
from rota.client.verbs import Object
from rota.federation import kinds
from rota.testing.federations import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DEPLOYMENT = ("apps/v1", "Deployment")
CONFIG_MAP = ("v1", "ConfigMap")
STATEFUL_SETS = ("apps", "v1", "statefulsets")
WORKLOADS = ("workload.example.io", "v1alpha1", "workloads")
WORKLOAD = ("workload.example.io/v1alpha1", "Workload")
DYNAMIC = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "workloads.workload.example.io"},
    "spec": {
        "group": "workload.example.io",
        "names": {"kind": "Workload", "plural": "workloads", "singular": "workload", "listKind": "WorkloadList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
SCRIPTS = {
    "replicaResource": "function GetReplicas(obj) return obj.spec.size end",
    "replicaRevision": "function ReviseReplica(obj, count) obj.spec.size = count return obj end",
    "retention": "function Retain(desired, observed) desired.spec.local_ = observed.spec.local_ return desired end",
    "statusReflection": "function ReflectStatus(observed) return {done = observed.status.done} end",
    "statusAggregation": """
        function AggregateStatus(desired, items)
          desired.status = {done = 0}
          for i = 1, #items do desired.status.done = desired.status.done + (items[i].status.done or 0) end
          return desired
        end""",
    "healthInterpretation": "function InterpretHealth(observed) return observed.status.done == observed.spec.size end",
    "dependencyInterpretation": """
        function GetDependencies(desired)
          return {{apiVersion = "v1", kind = "ConfigMap", name = desired.spec.uses,
            namespace = desired.metadata.namespace}}
        end""",
    "componentResource": """
        function GetComponents(desired)
          if desired.spec.parts == nil then return nil end
          return desired.spec.parts
        end""",
}


def customization(*members: str) -> dict[str, Any]:
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "workloads"},
        "spec": {
            "target": {"apiVersion": WORKLOAD[0], "kind": WORKLOAD[1]},
            "customizations": {member: {"luaScript": SCRIPTS[member]} for member in members},
        },
    }


def workload(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": WORKLOAD[0],
        "kind": WORKLOAD[1],
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


async def defined(fed: live.Place) -> None:
    """Have the control plane and all members serve Workload."""
    try:
        await fed.submit(
            DEFINITION,
            live.policy("", "apiextensions.k8s.io/v1", "CustomResourceDefinition", name="definitions"),
        )
    except errors.AlreadyExists:
        return

    def serves(cluster: Object | None) -> bool:
        enabled = ((cluster or {}).get("status") or {}).get("apiEnablements") or ()
        return any(one["groupVersion"] == WORKLOAD[0] for one in enabled)

    for name in fed.members:
        await until(fed.control, kinds.CLUSTERS, name, serves)


async def test_scripts_decide_on_a_kind_of_the_user(fed: live.Place) -> None:
    pytest.importorskip("lupa")
    await defined(fed)
    namespace = await fed.namespace("scripts")
    await fed.submit(customization(*(member for member in SCRIPTS if member != "componentResource")))
    await fed.submit(
        live.config_map("needed", namespace),
        live.policy(namespace, *WORKLOAD, divided=True, propagateDeps=True, placement=live.only("m1", "m2")),
        workload("web", namespace, size=4, uses="needed"),
    )
    await fed.binding("web-workload", namespace, live.targets({"m1": 2, "m2": 2}))
    for name in ("m1", "m2"):
        member = fed.members[name]
        await until(
            member, WORKLOADS, "web", lambda obj: obj is not None and obj["spec"]["size"] == 2, namespace=namespace
        )
        await until(member, live.CONFIG_MAPS, "needed", live.there, namespace=namespace)
        await member.patch(WORKLOADS, "web", {"spec": {"local_": name}}, namespace=namespace)
        await member.patch(WORKLOADS, "web", {"status": {"done": 2}}, namespace=namespace, subresource="status")
    await until(
        fed.control,
        WORKLOADS,
        "web",
        lambda obj: ((obj or {}).get("status") or {}).get("done") == 4,
        namespace=namespace,
    )
    binding = await fed.binding(
        "web-workload",
        namespace,
        lambda one: [item["health"] for item in one["status"]["aggregatedStatus"]] == ["Healthy", "Healthy"],
    )
    assert binding["status"]["aggregatedStatus"][0]["status"] == {"done": 2}
    # what a member decided itself survives a change of the template
    await fed.control.patch(WORKLOADS, "web", {"spec": {"size": 6}}, namespace=namespace)
    kept = await until(
        fed.members["m1"],
        WORKLOADS,
        "web",
        lambda obj: obj is not None and obj["spec"]["size"] == 3,
        namespace=namespace,
    )
    assert kept is not None
    assert kept["spec"]["local_"] == "m1"
    await fed.control.delete(kinds.CUSTOMIZATIONS, "workloads")


async def test_workloads_with_several_templates_land_in_one_cluster_as_a_whole(fed: live.Place) -> None:
    pytest.importorskip("lupa")
    await defined(fed)
    namespace = await fed.namespace("components")
    await fed.submit(customization("componentResource"))
    needed = {"resourceRequest": {"cpu": "10m"}}
    parts = [
        {"name": "leader", "replicas": 1, "replicaRequirements": needed},
        {"name": "worker", "replicas": 2, "replicaRequirements": needed},
    ]
    together = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
    await fed.submit(
        live.policy(
            namespace,
            *WORKLOAD,
            placement={**together, "replicaScheduling": {**DYNAMIC, "replicaDivisionPreference": "Aggregated"}},
        ),
        workload("job", namespace, parts=parts),
    )
    binding = await fed.binding(
        "job-workload",
        namespace,
        lambda one: one is not None and any(target.get("components") for target in one["spec"].get("clusters") or ()),
    )
    (target,) = binding["spec"]["clusters"]
    assert target["components"] == [{"name": "leader", "replicas": 1}, {"name": "worker", "replicas": 2}]
    await until(fed.members[target["name"]], WORKLOADS, "job", live.there, namespace=namespace)
    await fed.control.delete(kinds.CUSTOMIZATIONS, "workloads")


async def test_affine_workloads_share_clusters_and_others_avoid_each_other(fed: live.Place) -> None:
    namespace = await fed.namespace("affinity")

    def grouped(name: str, group: str) -> dict[str, Any]:
        made = live.deployment(name, namespace, 1)
        made["metadata"]["labels"][group] = "x"
        return made

    one = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
    for name, term, group in (("near", "affinity", "near-to"), ("far", "antiAffinity", "far-from")):
        placement = {**one, "workloadAffinity": {term: {"groupByLabelKey": group}}}
        for number in (1, 2):
            policy = live.policy(
                namespace, *DEPLOYMENT, name=f"{name}{number}", selected=f"{name}{number}", placement=placement
            )
            await fed.submit(policy, grouped(f"{name}{number}", group))
            await fed.binding(
                f"{name}{number}-deployment",
                namespace,
                lambda found: bool(((found or {}).get("spec") or {}).get("clusters")),
            )
    placed = {
        binding["spec"]["resource"]["name"]: binding["spec"]["clusters"][0]["name"]
        for binding in (await fed.control.list(kinds.BINDINGS, namespace=namespace)).items
    }
    assert placed["near1"] == placed["near2"]
    assert placed["far1"] != placed["far2"]


async def test_terms_are_walked_when_a_label_goes_and_overflow_takes_what_does_not_fit(fed: live.Place) -> None:
    namespace = await fed.namespace("terms")

    def term(name: str, *clusters: str, **more: Any) -> dict[str, Any]:
        return {"affinityName": name, "clusterNames": list(clusters), **more}

    labelled = {"affinityName": "first", "labelSelector": {"matchLabels": {"tier": "silver"}}}
    await fed.submit(
        live.config_map("facts", namespace),
        live.policy(namespace, *CONFIG_MAP, placement={"clusterAffinities": [labelled, term("second", "m1")]}),
    )
    await fed.binding("facts-configmap", namespace, live.targets({"m3": None}))
    await fed.control.patch(kinds.CLUSTERS, "m3", {"metadata": {"labels": {"tier": "bronze"}}})
    moved = await fed.binding("facts-configmap", namespace, live.targets({"m1": None}))
    await fed.control.patch(kinds.CLUSTERS, "m3", {"metadata": {"labels": {"tier": "silver"}}})
    assert moved["status"]["schedulerObservingAffinityName"] in ("first", "second")
    await until(fed.members["m1"], live.CONFIG_MAPS, "facts", live.there, namespace=namespace)
    await until(fed.members["m3"], live.CONFIG_MAPS, "facts", live.absent, namespace=namespace)


async def test_addresses_bound_what_a_cluster_gets_and_the_rest_overflows(fed: live.Place) -> None:
    namespace = await fed.namespace("addresses")
    for name, free in (("m1", "2"), ("m2", "5")):
        await fed.members[name].create(
            live.CONFIG_MAPS,
            {**live.config_map("pool", "default", size="10", free=free)}
            | {"metadata": {"name": "pool", "namespace": "default", "labels": {"pool": "blue"}}},
        )
    selector = {"matchLabels": {"app": "addressed"}}
    await fed.submit(
        {
            "apiVersion": "federation.rota.dev/v1alpha1",
            "kind": "CapacitySource",
            "metadata": {"name": "blue"},
            "spec": {
                "objects": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "labelSelector": {"matchLabels": {"pool": "blue"}},
                },
                "totalPath": ".data.size",
                "freePath": ".data.free",
                "workloads": {"labelSelector": selector},
            },
        }
    )
    resource = "capacity.federation.rota.dev/blue"

    def has(total: str, used: str) -> Any:
        def holds(cluster: Object | None) -> bool:
            summary = (cluster or {}).get("status", {}).get("resourceSummary") or {}
            return (summary.get("allocatable", {}).get(resource), summary.get("allocated", {}).get(resource)) == (
                total,
                used,
            )

        return holds

    for name, used in (("m1", "8"), ("m2", "5")):
        await until(fed.control, kinds.CLUSTERS, name, has("10", used))
    await until(fed.control, kinds.CLUSTERS, "m3", has("0", "0"))
    overflowing = {
        "clusterAffinities": [
            {
                "affinityName": "main",
                "clusterNames": ["m1"],
                "overflowAffinities": [{"affinityName": "over", "clusterNames": ["m2", "m3"]}],
            }
        ],
        "replicaScheduling": DYNAMIC,
    }
    await fed.submit(
        live.policy(namespace, *DEPLOYMENT, placement=overflowing), live.deployment("addressed", namespace, 2)
    )
    await fed.binding("addressed-deployment", namespace, live.targets({"m1": 2}))
    # its replicas have taken the last addresses
    await fed.members["m1"].patch(live.CONFIG_MAPS, "pool", {"data": {"free": "0"}}, namespace="default")
    await until(fed.control, kinds.CLUSTERS, "m1", has("10", "10"))
    await fed.control.patch(live.DEPLOYMENTS, "addressed", {"spec": {"replicas": 4}}, namespace=namespace)
    await fed.binding("addressed-deployment", namespace, live.targets({"m1": 2, "m2": 2}))
    # what overflowed is taken back first
    await fed.control.patch(live.DEPLOYMENTS, "addressed", {"spec": {"replicas": 3}}, namespace=namespace)
    await fed.binding("addressed-deployment", namespace, live.targets({"m1": 2, "m2": 1}))
    await fed.control.delete(kinds.CAPACITY_SOURCES, "blue")
    await until(fed.control, kinds.CLUSTERS, "m1", lambda one: not has("10", "10")(one))


async def test_only_a_tolerated_cluster_of_those_with_taints_is_used(fed: live.Place) -> None:
    namespace = await fed.namespace("taints")
    for name, value in (("m2", "a"), ("m3", "b")):
        taints = [{"key": "reserved", "value": value, "effect": "NoSchedule"}]
        await fed.control.patch(kinds.CLUSTERS, name, {"spec": {"taints": taints}})
    tolerated = [{"key": "reserved", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]
    try:
        await fed.submit(
            live.config_map("facts", namespace),
            live.policy(namespace, *CONFIG_MAP, placement={**live.only("m2", "m3"), "clusterTolerations": tolerated}),
        )
        await fed.binding("facts-configmap", namespace, live.targets({"m3": None}))
    finally:
        for name in ("m2", "m3"):
            await fed.control.patch(kinds.CLUSTERS, name, {"spec": {"taints": None}})


async def test_names_come_before_labels_before_kinds_and_explicit_priorities_before_all(fed: live.Place) -> None:
    namespace = await fed.namespace("priorities")
    by_kind = live.policy(namespace, *CONFIG_MAP, name="by-kind", placement=live.only("m1"))
    by_name = live.policy(namespace, *CONFIG_MAP, name="by-name", selected="facts", placement=live.only("m2"))
    await fed.submit(by_kind, by_name, live.config_map("facts", namespace), live.config_map("other", namespace))
    await fed.binding("facts-configmap", namespace, live.targets({"m2": None}))
    await fed.binding("other-configmap", namespace, live.targets({"m1": None}))
    urgent = live.policy(namespace, *CONFIG_MAP, name="urgent", placement=live.only("m3"), priority=1)
    await fed.submit(urgent, live.config_map("late", namespace))
    await fed.binding("late-configmap", namespace, live.targets({"m3": None}))


async def test_a_policy_that_may_preempt_takes_over_and_a_cluster_wide_one_does_not_take_from_it(
    fed: live.Place,
) -> None:
    namespace = await fed.namespace("preemption")
    await fed.submit(
        live.policy(namespace, *CONFIG_MAP, name="first", placement=live.only("m1")),
        live.config_map("facts", namespace),
    )
    await fed.binding("facts-configmap", namespace, live.targets({"m1": None}))
    await fed.submit(
        live.policy(
            namespace,
            *CONFIG_MAP,
            name="second",
            selected="facts",
            placement=live.only("m2"),
            priority=10,
            preemption="Always",
        )
    )
    await fed.binding("facts-configmap", namespace, live.targets({"m2": None}))
    wide = live.policy("", *CONFIG_MAP, name="wide", placement=live.only("m3"), priority=20, preemption="Always")
    wide["spec"]["resourceSelectors"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": name} for name in ("facts", "other")
    ]
    await fed.submit(wide)
    # what no policy had is taken by the cluster-wide one, which proves that it was looked at
    await fed.control.delete(kinds.POLICIES, "first", namespace=namespace)
    await fed.submit(live.config_map("other", namespace))
    await fed.binding("other-configmap", namespace, live.targets({"m3": None}))
    binding = await fed.control.get(kinds.BINDINGS, "facts-configmap", namespace=namespace)
    assert live.targets({"m2": None})(binding)
    await fed.control.delete(kinds.CLUSTER_POLICIES, "wide")


async def test_a_stateful_set_has_disjoint_ordinals_and_reports_each_of_them(fed: live.Place) -> None:
    namespace = await fed.namespace("stateful")
    template = live.deployment("db", namespace, 3)
    del template["spec"]["replicas"]
    await fed.submit(
        live.policy(namespace, "apps/v1", "StatefulSet", divided=True, placement=live.only("m1", "m2")),
        {
            **template,
            "kind": "StatefulSet",
            "metadata": {**template["metadata"], "annotations": {"federation.rota.dev/ordinal-block": "100"}},
            "spec": {**template["spec"], "replicas": 3, "serviceName": "db", "podManagementPolicy": "Parallel"},
        },
    )

    def complete(binding: Object | None) -> bool:
        items = ((binding or {}).get("status") or {}).get("aggregatedStatus") or ()
        found = [one for item in items for one in (item.get("status") or {}).get("ordinals") or ()]
        return len(found) == 3 and all(one["ready"] for one in found)

    binding = await fed.binding("db-statefulset", namespace, complete)
    by_cluster = {
        item["clusterName"]: [one["ordinal"] for one in item["status"]["ordinals"]]
        for item in binding["status"]["aggregatedStatus"]
    }
    shares = {one["name"]: one["replicas"] for one in binding["spec"]["clusters"]}
    assert by_cluster == {"m1": list(range(shares["m1"])), "m2": list(range(100, 100 + shares["m2"]))}
    assert all(one["podIP"] for item in binding["status"]["aggregatedStatus"] for one in item["status"]["ordinals"])
    set_ = await until(
        fed.control,
        STATEFUL_SETS,
        "db",
        lambda obj: ((obj or {}).get("status") or {}).get("readyReplicas") == 3,
        namespace=namespace,
    )
    assert set_ is not None
    assert set_["status"]["updateRevision"] == set_["status"]["currentRevision"] != ""
    # ordinals of a cluster stay when the other gets more
    await fed.control.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 5}}, namespace=namespace)
    grown = await fed.binding(
        "db-statefulset",
        namespace,
        lambda one: one is not None and sum(t["replicas"] for t in one["spec"]["clusters"]) == 5,
    )
    assert grown["metadata"]["annotations"]["federation.rota.dev/ordinal-blocks"] == '{"m1":0,"m2":1}'
    second = await until(
        fed.members["m2"],
        STATEFUL_SETS,
        "db",
        lambda obj: obj is not None and obj["spec"]["replicas"] > shares["m2"],
        namespace=namespace,
    )
    assert second is not None
    assert second["spec"]["ordinals"] == {"start": 100}
