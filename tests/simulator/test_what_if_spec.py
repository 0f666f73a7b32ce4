"""Questions as WhatIf objects: every field changes the answer, and what a client may write is limited."""

from typing import Any

import pytest

from rota.api import schemas
from rota.kit.errors import UserError
from rota.scheduler.plugin_registry import builtin, third_party
from rota.simulator import clusters, traces, what_if, what_if_spec
from rota.simulator.traces import Trace

STOCK = third_party.default(builtin.registry())
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
FIT = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
PACKING = {
    **CONFIGURATION,
    "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": FIT}}]}],
}


def cluster() -> Trace:
    """Two nodes with four cores in a pool, with a pod of one core and a controller on the first."""
    resident = clusters.pod("cpu=1", name="web")
    resident["spec"]["nodeName"] = "web-0"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": True}
    resident["metadata"]["ownerReferences"] = [owner]
    found = [*({"kind": "Node", **node} for node in clusters.nodes(["web:2xcpu=4"])), resident]
    return traces.from_objects(((str(number), each) for number, each in enumerate(found)), "made")


def ask(**spec: Any) -> dict[str, Any]:
    status = what_if_spec.status(what_if.answer(what_if_spec.question(spec, cluster(), STOCK)))
    cleaned, unknown = schemas.clean({"spec": spec, "status": status}, "rota_v1alpha1.WhatIf")
    assert not unknown, "the model has every field of an answer"
    assert cleaned["status"] == status
    return status


def deployment(cpu: str, replicas: int) -> dict[str, Any]:
    template = {"spec": clusters.pod(f"cpu={cpu}")["spec"]}
    return {"kind": "Deployment", "metadata": {"name": "new"}, "spec": {"replicas": replicas, "template": template}}


def test_new_pods_fit_or_wait_with_a_reason() -> None:
    answer = ask(pods=[deployment("3", 3)])
    assert answer["fits"] is False
    assert [each["pod"] for each in answer["placed"]] == ["default/new-0", "default/new-1"]
    assert "Insufficient cpu" in answer["waits"][0]["why"]
    assert answer["allocated"][0] == {"resource": "cpu", "before": 125, "after": 875}


def test_a_count_is_by_requests_or_by_a_manifest() -> None:
    assert ask(count={"requests": {"cpu": "2"}})["count"]["number"] == 3
    assert ask(count={"pod": clusters.pod("cpu=3")})["count"]["number"] == 2
    assert ask(count={"requests": {"cpu": "2"}, "most": 1})["count"] == {"number": 1, "atLeast": True}


def test_pools_grow_and_nodes_are_added() -> None:
    larger = ask(scalePools=[{"matchLabels": {"pool": "web"}, "times": 2}], count={"requests": {"cpu": "4"}})
    assert (larger["nodes"], larger["count"]["number"]) == (4, 3)
    added = ask(addNodes=[{"number": 3, "allocatable": {"cpu": "8"}}], count={"requests": {"cpu": "8"}})
    assert (added["nodes"], added["count"]["number"]) == (5, 3)


def test_pods_of_drained_nodes_move() -> None:
    answer = ask(drain=["web-0"])
    assert answer["moves"] == [{"pod": "default/web", "cause": "drained", "from": "web-0", "to": "web-1"}]
    assert answer["nodes"] == 1


def test_another_configuration_decides() -> None:
    new = clusters.pod("cpu=1", name="new")
    assert ask(pods=[new])["placed"][0]["to"] == "web-1"
    assert ask(pods=[new], configuration=PACKING)["placed"][0]["to"] == "web-0"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"pods": [deployment("1", 10_001)]}, r"spec.pods\[0\].spec.replicas: these are too many pods"),
        ({"pods": [{"kind": "Service"}]}, r"spec.pods\[0\]: Service has no pods"),
        ({"pods": [{"kind": "Pod", "spec": {"containers": 3}}]}, r"spec.pods\[0\]"),
        ({"addNodes": [{"number": 10_001, "allocatable": {"cpu": "1"}}]}, r"number: must be from 1 to 10000"),
        ({"addNodes": [{"number": 1}]}, r"spec.addNodes\[0\].allocatable: is required"),
        ({"scalePools": [{"matchLabels": {"pool": "web"}, "times": 1_000_000}]}, r"spec.scalePools\[0\].times"),
        ({"scalePools": [{"matchLabels": {"pool": "db"}, "times": 2}]}, "no node of made has the label pool=db"),
        ({"count": {}}, "spec.count: give either requests or pod"),
        ({"count": {"requests": {"cpu": "1"}, "most": 100_001}}, "spec.count.most: must be from 1 to 100000"),
        ({"drain": ["web-9"]}, 'there is no node "web-9" to drain'),
        ({"configuration": {"kind": "Pod"}}, "spec.configuration.apiVersion"),
    ],
)  # fmt: skip
def test_a_faulty_question_is_refused_by_field(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        ask(**spec)


def test_a_configuration_of_a_client_imports_nothing() -> None:
    plugins = {"score": {"enabled": [{"name": "antigravity:Fly"}]}}
    with pytest.raises(UserError, match="would be imported by the server"):
        ask(configuration={**CONFIGURATION, "profiles": [{"plugins": plugins}]})
