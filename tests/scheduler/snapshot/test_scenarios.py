"""Situations read from JSON: whatever is in them, the answer is a decision or an error with a path."""

import copy
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.columns.objects import MalformedObjectError
from rota.columns.pod_interner import PodInterner
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.explanation import decision_report
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.ingest import related_objects
from rota.scheduler.plugin_registry import builtin
from rota.scheduler.snapshot import scenarios

REGISTRY = builtin.registry()
PROFILE = resolution.default(specs_of(REGISTRY)).first
ZONE = "topology.kubernetes.io/zone"


def node(name: str, zone: str) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone}},
        "spec": {"taints": [{"key": "soft", "value": "x", "effect": "PreferNoSchedule"}], "unschedulable": False},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": 2},
            "images": [{"names": ["app:1"], "sizeBytes": 500_000_000}],
        },
    }


def pod(name: str, on: str = "", port: int = 8080, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "app:1",
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}},
        "ports": [{"containerPort": 80, "hostPort": port, "hostIP": "127.0.0.1", "protocol": "TCP"}],
    }
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE, "namespaces": ["default"]}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
            ],
        },
        "spec": {
            "containers": [container],
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
            "affinity": {
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": term}]
                },
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1", "z2"]}]}
                        ]
                    }
                },
            },
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
            "overhead": {"cpu": "10m"},
            "priority": 5,
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }


def situation() -> dict[str, Any]:
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}]

    def selecting() -> dict[str, Any]:
        return {"selector": {"matchLabels": {"app": "web"}}}

    return {
        "id": "x",
        "nodes": [node("a", "z1"), node("b", "z2")],
        "pods": [pod("old", "a"), pod("low", "b", priority=0, volumes=volumes)],
        "namespaces": [{"metadata": {"name": "default", "labels": {"team": "x"}}}],
        "pdbs": [
            {
                "metadata": {"name": "p", "namespace": "default"},
                "spec": selecting(),
                "status": {"disruptionsAllowed": 1},
            }
        ],
        "services": [{"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}],
        "replicasets": [{"metadata": {"name": "web", "namespace": "default"}, "spec": selecting()}],
        "persistentvolumeclaims": [
            {
                "metadata": {"name": "data", "namespace": "default", "annotations": {"x": "y"}},
                "spec": {
                    "storageClassName": "slow",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "selector": {"matchLabels": {"tier": "gold"}},
                },
                "status": {"phase": "Pending"},
            }
        ],
        "persistentvolumes": [
            {
                "metadata": {"name": "v", "labels": {"tier": "gold", ZONE: "z1"}},
                "spec": {
                    "storageClassName": "slow",
                    "accessModes": ["ReadWriteOnce"],
                    "capacity": {"storage": "2Gi"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                    "csi": {"driver": "d", "volumeHandle": "h"},
                },
                "status": {"phase": "Available"},
            }
        ],
        "storageclasses": [
            {
                "metadata": {"name": "slow"},
                "provisioner": "d",
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}],
            }
        ],
        "pod": pod("new", port=9090, topologySpreadConstraints=[spread], volumes=volumes),
    }


def paths(value: object, so_far: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a document."""
    found = [so_far] if so_far else []
    entries: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        entries = list(value.items())
    elif isinstance(value, list):
        entries = list(enumerate(value))
    for key, item in entries:
        found += paths(item, (*so_far, key))
    return found


def answer(document: dict[str, Any]) -> dict[str, Any]:
    read = scenarios.read_scenario(document, PodInterner())
    decision = Decider(Framework(PROFILE, REGISTRY), read.cluster).decide(read.pod)
    return decision_report.to_document(decision_report.explain(decision))


def test_the_situation_as_it_is_has_an_answer() -> None:
    decided = answer(situation())
    assert decided["best"] == ["a"]
    assert decided["filter"]["b"]["plugin"] == "VolumeBinding"


JUNK = st.sampled_from(
    [None, True, 0, -1, 7, 10**30, 1.5, "", "x", "-3", [], ["x"], [None], {}, {"x": "y"}, {"x": None}]
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(place=st.sampled_from(paths(situation())), junk=JUNK)
def test_junk_anywhere_gives_a_decision_or_an_error_that_names_a_path(place: tuple[str | int, ...], junk: Any) -> None:
    document = copy.deepcopy(situation())
    target: Any = document
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = junk
    named = ""
    try:
        decided = answer(document)
    except MalformedObjectError as error:
        named = error.path
    else:
        # What a plugin itself refuses may be an error, but no Python exception may shine through.
        assert not re.search(r"[A-Za-z]+Error: ", decided.get("error", "")), decided
    assert not named or named.startswith(str(place[0]))


@pytest.mark.parametrize(
    ("kind", "fields", "error"),
    [
        ("Service", {"spec": {"selector": {"a": 1}}}, "x.spec.selector.a: Expected str, got int"),
        (
            "ReplicaSet",
            {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}},
            "x.spec.selector",
        ),
        ("PersistentVolume", {"spec": {"capacity": {"storage": "big"}}}, "x.spec.capacity.storage: quantities must"),
        (
            "PersistentVolumeClaim",
            {"spec": {"resources": {"requests": {"storage": -1}}}},
            "x.spec.resources.requests.s",
        ),
        ("CSINode", {"spec": {"drivers": [{}]}}, "x.spec.drivers[0].name: is required"),
        ("CSIStorageCapacity", {"capacity": "much"}, "x.capacity: quantities must"),
        ("PriorityClass", {"value": "high"}, "x.value: Expected int, got str"),
        ("Whatever", {"metadata": None}, "x.metadata: Expected object, got null"),
    ],
)
def test_objects_around_are_checked_by_kind(kind: str, fields: dict[str, Any], error: str) -> None:
    with pytest.raises(MalformedObjectError) as caught:
        related_objects.check({"metadata": {"name": "n"}, **fields}, kind, path="x")
    assert str(caught.value).startswith(error)


def test_kinds_that_no_plugin_reads_may_have_any_content() -> None:
    related_objects.check({"metadata": {"name": "n"}, "spec": 7}, "Whatever", path="x")


def test_lists_in_a_dump_may_be_nested_and_leave_kinds_out() -> None:
    nodes = {"kind": "NodeList", "items": [{key: value for key, value in node("a", "z1").items() if key != "kind"}]}
    cluster = scenarios.read_dump([("dump", {"kind": "List", "items": [nodes, pod("old", "a")]})], PodInterner())
    assert list(cluster.by_name) == ["a"]
    assert list(cluster.by_name["a"].pods) == ["uid-old"]
