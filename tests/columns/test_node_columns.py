"""Columns that plugins declare: equal to their scalar form after any history, and computed for changed rows only."""

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.columns.test_cluster import NAMES, follow, histories

from rota.columns.cluster import Cluster
from rota.columns.node_columns import NodeColumn
from rota.columns.nodes import NodeInfo
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.testing.clusters import LAW, build, make_node, make_pod

FREE = NodeColumn(
    name="free millicores",
    of_node=lambda node: node.allocatable.get("cpu", 0),
    of_pod=lambda pod: -pod.shape.requests.get("cpu", 0),
    default=-1,
)
LABELS = NodeColumn(name="labels", of_node=lambda node: float(len(node.labels)), dtype=np.float64)
PAIR = NodeColumn(
    name="free millicores and pods",
    of_node=lambda node: (node.allocatable.get("cpu", 0), node.allowed_pods),
    of_pod=lambda pod: np.array([-pod.shape.requests.get("cpu", 0), -1]),
    width=2,
)
COLUMNS = (FREE, LABELS, PAIR)


def agrees(cluster: Cluster) -> bool:
    for declared in COLUMNS:
        column = cluster.column(declared)
        for row, node in enumerate(cluster.nodes):
            expected = declared.default if node is None else declared.of(node)
            if not np.array_equal(column[row], np.broadcast_to(expected, column[row].shape)):
                return False
    return True


@LAW
@given(histories(), histories(), st.data())
def test_both_forms_agree_after_any_history_and_inside_and_after_a_what_if(
    first: list[tuple[str, Any]], second: list[tuple[str, Any]], data: st.DataObject
) -> None:
    cluster, interner = Cluster(), PodInterner()
    follow(cluster, first, interner)
    assert agrees(cluster)
    before = {declared: cluster.column(declared).copy() for declared in COLUMNS}
    with cluster.what_if():
        for uid in list(cluster.pods):
            if data.draw(st.booleans()):
                cluster.remove_pod(uid)
        for number in range(data.draw(st.integers(0, 3))):
            cluster.add_pod(interner.pod(make_pod(f"new{number}", on=data.draw(st.sampled_from(NAMES)))))
        if data.draw(st.booleans()):
            assert agrees(cluster)
    for declared in COLUMNS:
        assert np.array_equal(cluster.column(declared), before[declared])
    assert agrees(cluster.copy())
    follow(cluster, second, interner)
    assert agrees(cluster)


def test_only_rows_that_changed_are_computed_again() -> None:
    asked: list[str] = []

    def of_node(node: NodeInfo) -> int:
        asked.append(node.name)
        return 0

    declared = NodeColumn(name="asked", of_node=of_node, of_pod=lambda pod: 1)
    fixed = NodeColumn(name="fixed", of_node=of_node)
    interner = PodInterner()
    cluster = build([make_node(f"n{number}") for number in range(200)], [], interner)
    cluster.column(declared)
    cluster.column(fixed)
    asked.clear()
    cluster.add_pod(interner.pod(make_pod("web", on="n7")))
    assert cluster.column(declared)[7] == 1
    assert asked == ["n7"]
    cluster.column(fixed)
    assert asked == ["n7"], "pods make no difference to this one"
    cluster.set_node(read_node(make_node("n9", cpu="8")))
    cluster.column(fixed)
    assert asked == ["n7", "n9"]


def test_a_function_that_raises_changes_nothing_but_the_read() -> None:
    broken = True

    def of_pod(pod: PodInfo) -> int:
        if broken:
            raise RuntimeError("no idea")
        return 1

    declared = NodeColumn(name="fragile", of_node=lambda node: 0, of_pod=of_pod)
    interner = PodInterner()
    cluster = build([make_node("n0")], [], interner)
    assert cluster.column(declared)[0] == 0
    cluster.add_pod(interner.pod(make_pod("web", on="n0")))
    with pytest.raises(RuntimeError, match="no idea"):
        cluster.column(declared)
    assert cluster.pod_count[0] == 1
    broken = False
    assert cluster.column(declared)[0] == 1


def test_a_column_is_dropped_with_its_declaration() -> None:
    cluster = build([make_node("n0")], [], PodInterner())
    declared = NodeColumn(name="short-lived", of_node=lambda node: 1)
    cluster.column(declared)
    assert len(cluster._columns) == 1
    del declared
    gc.collect()
    assert len(cluster._columns) == 0


def test_sums_over_pods_must_be_exact() -> None:
    with pytest.raises(TypeError, match="count in thousandths"):
        NodeColumn(name="heat", of_node=lambda node: 0.0, of_pod=lambda pod: 0.1, dtype=np.float64)
    wrong = NodeColumn(name="wrong", of_node=lambda node: (1, 2, 3), width=2)
    cluster = build([make_node("n0")], [], PodInterner())
    with pytest.raises(ValueError, match="needs 2 values per node"):
        cluster.column(wrong)
