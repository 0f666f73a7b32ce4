"""A cluster that followed deltas equals one built from scratch, and takes every what-if question back."""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import selectors
from rota.columns.cluster import Cluster
from rota.columns.counts import Clause, PodQuery
from rota.columns.existing_terms import TermKind
from rota.columns.objects import MalformedObjectError
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.columns.snapshots import Snapshot
from rota.testing import clusters
from rota.testing.clusters import Document, build, make_node, make_pod

NAMES = ("n0", "n1", "n2", "n3")
QUERIES = (
    PodQuery((Clause(frozenset({"default"}), selectors.parse("app=web")),)),
    PodQuery((Clause(None, selectors.parse("tier notin (front)")),), count_terminating=False),
    PodQuery(
        (Clause(None, selectors.EVERYTHING), Clause(frozenset({"other"}), selectors.parse("app"))),
    ),
)


def picture(cluster: Cluster) -> dict[str, Any]:
    """Everything that a cluster shows, by node name instead of row."""
    columns = [cluster.pod_counts.column(query) for query in QUERIES]
    floats = cluster.floats
    shown: dict[str, Any] = {"totals": [column.total for column in columns]}
    for node in cluster.node_infos():
        row = node.row
        held = {
            (kind, term.term.topology_key, term.weight, term.term): term.rows[row]
            for kind in TermKind
            for term in cluster.terms.of(kind)
            if row in term.rows
        }
        dense = {
            (kind, term.term, term.weight): int(term.counts(cluster.capacity)[row])
            for kind in TermKind
            for term in cluster.terms.of(kind)
        }
        amounts = {
            name: (int(cluster.allocatable[index, row]), int(cluster.requested[index, row]))
            for name, index in cluster.resources.items()
        }
        shown[node.name] = {
            "amounts": {name: pair for name, pair in amounts.items() if any(pair)},
            "float amounts": {
                name: (floats.whole[index, row], floats.requested[index, row], floats.nonzero[:, row].tolist())
                for name, index in cluster.resources.items()
                if any(amounts[name])
            },
            "info": (dict(node.allocatable), {k: v for k, v in node.requested.items() if v}, dict(node.ports)),
            "nonzero": cluster.nonzero_requested[:, row].tolist(),
            "nonzero info": [node.nonzero_cpu, node.nonzero_memory],
            "pods": (sorted(node.pods), int(cluster.pod_count[row]), int(cluster.allowed_pods[row])),
            "labels": {key: cluster.labels.column(key).value_at(row) for key in (clusters.ZONE, "disk", "rack")},
            "taints": cluster.taints.value_at(row),
            "gpus": (
                list(node.gpu_free),
                cluster.gpus.free[row, : cluster.gpus.number[row]].tolist(),
                dict(node.gpu_held),
            ),
            "unschedulable": bool(cluster.unschedulable[row]),
            "images": {name: cluster.images.holders(name).get(row) for name in ("app:1", "db:2")},
            "ports": {port: dict(cluster.ports.taken(port.protocol, port.port)[row]) for port in node.ports},
            "counts": [int(column.counts[row]) for column in columns],
            "held": held,
            "dense": {key: number for key, number in dense.items() if number},
            "alive": bool(cluster.alive[row]),
        }
    return shown


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any]]:
    steps: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["node", "node", "pod", "pod", "pod", "drop node", "drop pod"]))
        if kind == "node":
            steps.append((kind, draw(clusters.nodes(draw(st.sampled_from(NAMES))))))
        elif kind == "pod":
            steps.append((kind, draw(clusters.pods(f"p{draw(st.integers(0, 5))}", on=NAMES))))
        elif kind == "drop node":
            steps.append((kind, draw(st.sampled_from(NAMES))))
        else:
            steps.append((kind, f"uid-p{draw(st.integers(0, 5))}"))
    return steps


def follow(cluster: Cluster, steps: Sequence[tuple[str, Any]], interner: PodInterner) -> None:
    for kind, what in steps:
        if kind == "node":
            cluster.set_node(read_node(what))
        elif kind == "pod":
            cluster.add_pod(interner.pod(what))
        elif kind == "drop node":
            cluster.remove_node(what)
        else:
            cluster.remove_pod(what)


def outcome(steps: Sequence[tuple[str, Any]]) -> tuple[list[Document], list[Document]]:
    """The nodes and pods that a history leaves behind."""
    nodes: dict[str, Document] = {}
    pods: dict[str, Document] = {}
    for kind, what in steps:
        if kind == "node":
            nodes[what["metadata"]["name"]] = what
        elif kind == "pod":
            pods[what["metadata"]["uid"]] = what
        else:
            (nodes if kind == "drop node" else pods).pop(what, None)
    return list(nodes.values()), list(pods.values())


@pytest.mark.slow
@clusters.LAW
@given(histories())
def test_a_cluster_that_followed_deltas_equals_one_built_from_scratch(steps: list[tuple[str, Any]]) -> None:
    interner = PodInterner()
    followed = build([], [], interner)
    picture(followed)  # makes the count columns, so that they have to follow
    follow(followed, steps, interner)
    assert picture(followed) == picture(build(*outcome(steps), interner))


@pytest.mark.slow
@clusters.LAW
@given(clusters.situations(), st.booleans())
def test_pods_that_come_all_at_once_count_as_if_they_had_come_one_by_one(
    situation: tuple[list[Document], list[Document]], before_their_nodes: bool
) -> None:
    interner = PodInterner()
    nodes, pods = situation
    one_by_one = build(nodes, pods, interner)
    at_once = build([] if before_their_nodes else nodes, [], interner)
    picture(at_once)  # makes the count columns, so that they have to follow
    by_node: dict[str, list[PodInfo]] = {}
    for pod in map(interner.pod, pods):
        by_node.setdefault(pod.node_name, []).append(pod)
    for name, there in by_node.items():
        at_once.add_pods(name, there)
    for node in nodes if before_their_nodes else ():
        at_once.set_node(read_node(node))
    assert picture(at_once) == picture(one_by_one)
    for uid in list(at_once.pods):
        at_once.remove_pod(uid)
    assert picture(at_once) == picture(build(nodes, [], interner))


@pytest.mark.slow
@clusters.LAW
@given(clusters.situations(), st.data())
def test_a_trial_leaves_no_trace(situation: tuple[list[Document], list[Document]], data: st.DataObject) -> None:
    interner = PodInterner()
    cluster = build(*situation, interner)
    before = picture(cluster)
    order = {node.name: list(node.pods) for node in cluster.node_infos()}
    with cluster.what_if():
        for number in range(data.draw(st.integers(1, 4))):
            cluster.add_pod(interner.pod(data.draw(clusters.pods(f"new{number}", on=list(cluster.by_name)))))
        for uid in data.draw(st.lists(st.sampled_from(sorted(cluster.pods)), max_size=4)):
            cluster.remove_pod(uid)
        with cluster.what_if():
            for uid in list(cluster.pods):
                cluster.remove_pod(uid)
    assert picture(cluster) == before
    assert {node.name: list(node.pods) for node in cluster.node_infos()} == order


def test_pods_wait_for_a_node_that_is_not_known_yet() -> None:
    interner = PodInterner()
    cluster = build([], [make_pod("early", on="late", cpu="2")], interner)
    assert "uid-early" in cluster.pods
    info = cluster.set_node(read_node(make_node("late")))
    assert info.requested["cpu"] == 2000


def test_rows_of_removed_nodes_are_used_again() -> None:
    interner = PodInterner()
    cluster = build([make_node("a"), make_node("b")], [make_pod("p", on="a")], interner)
    cluster.remove_node("a")
    assert cluster.set_node(read_node(make_node("c"))).row == 0
    assert cluster.size == 2
    assert int(cluster.pod_count[0]) == 0


def test_a_node_whose_object_did_not_change_is_no_change() -> None:
    cluster = build([make_node("a")], [], PodInterner())
    generation = cluster.change_log.generation
    cluster.set_node(read_node(make_node("a")))
    assert cluster.change_log.generation == generation


def test_columns_grow_with_the_cluster() -> None:
    interner = PodInterner()
    cluster = build([make_node(f"n{number}") for number in range(200)], [make_pod("p", on="n150")], interner)
    assert cluster.size == 200
    assert int(cluster.requested[0, 150]) == 100
    assert int(np.count_nonzero(cluster.alive)) == 200


def test_equal_pods_share_one_shape() -> None:
    interner = PodInterner()
    first = interner.pod(make_pod("a"))
    token = {"name": "kube-api-access-x7x2p", "projected": {"sources": []}}
    second = interner.pod(make_pod("b", volumes=[token]))
    assert first.shape is second.shape
    assert interner.pod(make_pod("c", cpu="200m")).shape is not first.shape


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("nodeSelector", {"disk": 5}, "pod.spec.nodeSelector.disk"),
        ("containers", [{"ports": [{"hostPort": "http"}]}], "pod.spec.containers[0].ports[0].hostPort"),
        ("priority", "high", "pod.spec.priority"),
        ("overhead", {"cpu": "much"}, "pod.spec"),
    ],
)
def test_a_malformed_pod_is_refused_with_the_path(field: str, value: object, path: str) -> None:
    document = make_pod("p")
    document["spec"][field] = value
    with pytest.raises(MalformedObjectError) as refusal:
        PodInterner().pod(document)
    assert refusal.value.path == path


@pytest.mark.slow
@clusters.LAW
@given(histories(), histories())
def test_a_snapshot_stands_still_until_it_catches_up(
    before: list[tuple[str, Any]], after: list[tuple[str, Any]]
) -> None:
    interner = PodInterner()
    source = build([], [], interner)
    follow(source, before, interner)
    snapshot = Snapshot(source)
    then = picture(snapshot.cluster)
    assert then == picture(source)
    follow(source, after, interner)
    with source.what_if():
        for uid in list(source.pods):
            source.remove_pod(uid)
    assert picture(snapshot.cluster) == then
    snapshot.catch_up()
    assert picture(snapshot.cluster) == picture(source)
    assert [node and node.name for node in snapshot.cluster.nodes] == [node and node.name for node in source.nodes]


def test_a_snapshot_follows_the_catalog() -> None:
    source = build([], [], PodInterner())
    snapshot = Snapshot(source)
    source.catalog.put("Service", {"metadata": {"name": "web", "namespace": "default"}})
    source.catalog.remove("Namespace", "", "other")
    assert snapshot.behind == 2
    assert snapshot.cluster.catalog.get("Service", namespace="default", name="web") is None
    snapshot.catch_up()
    assert snapshot.cluster.catalog.get("Service", namespace="default", name="web") is not None
    assert snapshot.cluster.catalog.get("Namespace", name="other") is None


def test_a_snapshot_without_references_gets_no_deltas() -> None:
    source = build([make_node("a")], [], PodInterner())
    snapshot = Snapshot(source)
    log = weakref.ref(snapshot._log)
    del snapshot
    assert log() is None
