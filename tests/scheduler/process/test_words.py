"""What is written on pods and in events, and what cannot be read."""

import json
from typing import Any

import pytest

from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.columns.vocabulary import Vocabulary, read_node
from rota.scheduler import builtin, failures, loading, reading
from rota.scheduler.cycle import Cycle
from rota.scheduler.failures import Note
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import Code, Status
from rota.testing.clusters import make_node, make_pod


def refusal_of(pod: dict[str, Any], *nodes: dict[str, Any]) -> failures.Refusal:
    cluster, vocabulary = Cluster(), Vocabulary()
    for node in nodes:
        cluster.set_node(read_node(node))
    loaded = loading.default(builtin.registry())
    cycle = Cycle(Framework(loaded.configuration.first, loaded.registry), cluster)
    return cycle.refuse(cycle.evaluate(vocabulary.pod(pod)))


def test_reasons_are_counted_over_nodes_and_sorted_as_text() -> None:
    full, small = make_node("full", pods="0"), make_node("small", cpu="50m", memory="1Mi")
    cordoned = make_node("closed")
    cordoned["spec"] = {"unschedulable": True}
    refusal = refusal_of(make_pod("web"), full, small, cordoned)
    counted = "1 Insufficient cpu, 1 Insufficient memory, 1 Too many pods, 1 node(s) were unschedulable"
    assert refusal.message.startswith(f"0/3 nodes are available: {counted}. preemption: 0/3 nodes are available: ")
    assert refusal.rejectors == {"NodeResourcesFit", "NodeUnschedulable"}
    assert (refusal.reason, refusal.error) == ("Unschedulable", False)


def test_nodes_outside_of_a_pods_own_choice_name_the_plugin_that_left_them_out() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    refusal = refusal_of(make_pod("web", affinity=affinity), make_node("a", cpu="50m"), make_node("b"), make_node("c"))
    counted = "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert refusal.message.startswith(f"0/3 nodes are available: {counted}.")
    assert refusal.rejectors == {"NodeResourcesFit", "NodeAffinity"}


def test_what_waits_only_for_something_outside_is_told_apart() -> None:
    refusal = failures.of_status(Status(Code.PENDING, ("claims are being allocated",), "Claims"))
    assert refusal.rejectors == refusal.pending == {"Claims"}
    assert not refusal.error


def test_long_messages_end_in_dots() -> None:
    assert failures.shortened("x" * 1024) == "x" * 1024
    assert failures.shortened("x" * 2000) == "x" * 1020 + " ..."


def test_notes_add_up() -> None:
    first = Note(condition=("Unschedulable", "no"), nominated="n1")
    assert Note(nominated="").over(first) == Note(condition=("Unschedulable", "no"), nominated="")
    assert Note(condition=("SchedulerError", "broken")).over(first).nominated == "n1"
    patch = Note(nominated="").patch("uid-1", 0.0)
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
    found = reading.pods(Vocabulary())(raw)
    assert isinstance(found, reading.Unreadable)
    assert found.problem.startswith(path)
    assert found.reference["metadata"]["name"] == "odd"


@pytest.mark.parametrize(("phase", "ended"), [("Succeeded", True), ("Failed", True), ("Running", False)])
def test_pods_that_have_ended_are_left_out(phase: str, ended: bool) -> None:
    pod = {**make_pod("web", on="n1"), "status": {"phase": phase}}
    raw = json.dumps(pod, separators=(",", ":")).encode()
    found = reading.pods(Vocabulary())(raw)
    assert (found is reading.ENDED) is ended
    assert isinstance(found, PodInfo) is not ended


def test_a_text_that_looks_like_a_phase_ends_nobody() -> None:
    pod = make_pod("web")
    pod["metadata"]["annotations"] = {"note": '{"phase":"Failed"}'}
    found = reading.pods(Vocabulary())(json.dumps(pod, separators=(",", ":")).encode())
    assert isinstance(found, PodInfo)
