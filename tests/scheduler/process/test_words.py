"""What is written on pods and in events, and what cannot be read."""

import json
from typing import Any

import pytest

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.scheduler.cycle.scheduling_cycle import SchedulingCycle
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.ingest import decoder
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.status import fit_errors
from rota.scheduler.status.fit_errors import PodStatusPatch
from rota.testing.clusters import make_node, make_pod


def refusal_of(pod: dict[str, Any], *nodes: dict[str, Any]) -> fit_errors.FitError:
    cluster, interner = Cluster(), PodInterner()
    for node in nodes:
        cluster.set_node(read_node(node))
    loaded = third_party.default(builtin.registry())
    cycle = SchedulingCycle(Framework(loaded.configuration.first, loaded.registry), cluster)
    return cycle.refuse(cycle.evaluate(interner.pod(pod)))


def test_reasons_are_counted_over_nodes_and_sorted_as_text() -> None:
    full, small = make_node("full", pods="0"), make_node("small", cpu="50m", memory="1Mi")
    cordoned = make_node("closed")
    cordoned["spec"] = {"unschedulable": True}
    refusal = refusal_of(make_pod("web"), full, small, cordoned)
    counted = "1 Insufficient cpu, 1 Insufficient memory, 1 Too many pods, 1 node(s) were unschedulable"
    assert refusal.message.startswith(f"0/3 nodes are available: {counted}. preemption: 0/3 nodes are available: ")
    assert refusal.unschedulable_plugins == {"NodeResourcesFit", "NodeUnschedulable"}
    assert (refusal.reason, refusal.error) == ("Unschedulable", False)


def test_nodes_outside_of_a_pods_own_choice_name_the_plugin_that_left_them_out() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    refusal = refusal_of(make_pod("web", affinity=affinity), make_node("a", cpu="50m"), make_node("b"), make_node("c"))
    counted = "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert refusal.message.startswith(f"0/3 nodes are available: {counted}.")
    assert refusal.unschedulable_plugins == {"NodeResourcesFit", "NodeAffinity"}


def test_pending_plugins_are_kept_apart() -> None:
    refusal = fit_errors.of_status(Status(Code.PENDING, ("claims are being allocated",), "Claims"))
    assert refusal.unschedulable_plugins == refusal.pending == {"Claims"}
    assert not refusal.error


def test_long_messages_end_in_dots() -> None:
    assert fit_errors.shortened("x" * 1024) == "x" * 1024
    assert fit_errors.shortened("x" * 2000) == "x" * 1020 + " ..."


def test_notes_add_up() -> None:
    first = PodStatusPatch(condition=("Unschedulable", "no"), nominated="n1")
    assert PodStatusPatch(nominated="").over(first) == PodStatusPatch(condition=("Unschedulable", "no"), nominated="")
    assert PodStatusPatch(condition=("SchedulerError", "broken")).over(first).nominated == "n1"
    patch = PodStatusPatch(nominated="").patch("uid-1", 0.0)
    assert patch == {"metadata": {"uid": "uid-1"}, "status": {"nominatedNodeName": None}}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]}, "pod.spec"),
        ({"containers": "none"}, "pod.spec.containers"),
        ({"containers": [], "priority": "high"}, "pod.spec.priority"),
        ({"containers": [], "nodeSelector": {"disk": 5}}, "pod.spec.nodeSelector.disk"),
    ],
)
def test_a_pod_that_cannot_be_read_is_a_value_with_the_path_of_its_fault(spec: dict[str, Any], path: str) -> None:
    raw = json.dumps({"metadata": {"name": "odd", "namespace": "a", "uid": "u"}, "spec": spec}).encode()
    found = decoder.pods(PodInterner())(raw)
    assert isinstance(found, decoder.Unreadable)
    assert found.problem.startswith(path)
    assert found.reference["metadata"]["name"] == "odd"


@pytest.mark.parametrize(("phase", "ended"), [("Succeeded", True), ("Failed", True), ("Running", False)])
def test_pods_that_have_ended_are_left_out(phase: str, ended: bool) -> None:
    pod = {**make_pod("web", on="n1"), "status": {"phase": phase}}
    raw = json.dumps(pod, separators=(",", ":")).encode()
    found = decoder.pods(PodInterner())(raw)
    assert (found is decoder.ENDED) is ended
    assert isinstance(found, PodInfo) is not ended


def test_a_text_that_looks_like_a_phase_ends_no_pod() -> None:
    pod = make_pod("web")
    pod["metadata"]["annotations"] = {"note": '{"phase":"Failed"}'}
    found = decoder.pods(PodInterner())(json.dumps(pod, separators=(",", ":")).encode())
    assert isinstance(found, PodInfo)
