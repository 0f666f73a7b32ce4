"""Savepoints of a cluster against copies: what is rolled back is as it was, what is kept stays, in any nesting."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.columns.test_cluster import picture

from rota.columns.cluster import Cluster, Savepoint
from rota.columns.pod_interner import PodInterner
from rota.columns.snapshots import Snapshot
from rota.testing.clusters import build, make_node, make_pod

NODES = ("n0", "n1", "n2")
#: The last one is not there: pods that name it wait for it.
PLACES = st.sampled_from((*NODES, "elsewhere"))
PODS = st.sampled_from([f"p{number}" for number in range(8)])


def shown(cluster: Cluster) -> dict[str, Any]:
    """Everything that a cluster shows, the order of pods included."""
    order = {node.name: list(node.pods) for node in cluster.node_infos()}
    return {**picture(cluster), "order": order, "pods": dict(cluster.pods), "stray": cluster._stray}


class Savepoints(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.interner = PodInterner()
        gpus = {"nvidia.com/gpu": "2", "rota.dev/gpu-milli": "2000"}
        self.cluster = build([make_node(name, labels=None, **gpus) for name in NODES], [], self.interner)
        self.follower = Snapshot(self.cluster)
        #: Open savepoints, each with what the cluster and a book beside it were.
        self.open: list[tuple[Savepoint, Cluster, dict[str, int]]] = []
        #: Books that change together with the cluster: pods that each node was given.
        self.given: dict[str, int] = {}

    @rule(name=PODS, node=PLACES, cpu=st.sampled_from(["1", "2"]), app=st.sampled_from(["web", "db"]))
    def add(self, name: str, node: str, cpu: str, app: str) -> None:
        self.cluster.add_pod(self.interner.pod(make_pod(name, on=node, cpu=cpu, labels={"app": app})))
        before = self.given.get(node, 0)
        self.given[node] = before + 1
        self.cluster.undo_with(lambda: self.given.__setitem__(node, before))

    @rule(name=PODS, node=PLACES, wants=st.sampled_from(["nvidia.com/gpu=1", "rota.dev/gpu-milli=400"]))
    def add_with_gpu(self, name: str, node: str, wants: str) -> None:
        resource, amount = wants.split("=")
        container = {"name": "c", "resources": {"requests": {resource: amount}}}
        self.cluster.add_pod(self.interner.pod(make_pod(name, on=node, containers=[container])))

    @rule(name=PODS, device=st.integers(0, 1))
    def move_to_device(self, name: str, device: int) -> None:
        known = self.cluster.pods.get(f"uid-{name}")
        if known is not None:
            self.cluster.replace_pod(known.with_devices((device,)))

    @rule(name=PODS)
    def remove(self, name: str) -> None:
        self.cluster.remove_pod(f"uid-{name}")

    @rule(name=PODS)
    def replace(self, name: str) -> None:
        known = self.cluster.pods.get(f"uid-{name}")
        if known is not None:
            self.cluster.replace_pod(known)

    @rule()
    def mark(self) -> None:
        twin = self.cluster.copy()
        self.open.append((self.cluster.savepoint(), twin, dict(self.given)))

    @precondition(lambda self: self.open)
    @rule()
    def roll_back(self) -> None:
        mark, twin, given = self.open.pop()
        mark.roll_back()
        assert shown(self.cluster) == shown(twin)
        assert {node: count for node, count in self.given.items() if count} == {n: c for n, c in given.items() if c}

    @precondition(lambda self: self.open)
    @rule()
    def keep(self) -> None:
        mark, _, _ = self.open.pop()
        before = shown(self.cluster)
        mark.keep()
        assert shown(self.cluster) == before

    @rule()
    def ask_what_if(self) -> None:
        before = shown(self.cluster)
        with self.cluster.what_if():
            for uid in list(self.cluster.pods):
                self.cluster.remove_pod(uid)
        assert shown(self.cluster) == before

    @invariant()
    def followers_hear_of_what_is_kept(self) -> None:
        if not self.open:
            self.follower.catch_up()
            assert picture(self.follower.cluster) == picture(self.cluster)


TestSavepoints = pytest.mark.slow(Savepoints.TestCase)
TestSavepoints.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_pod_that_no_device_had_room_for_holds_none_after_a_roll_back() -> None:
    interner = PodInterner()
    cluster = build([make_node("a", labels=None, **{"nvidia.com/gpu": "2"})], [], interner)
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    for name in ("p0", "p1", "p2"):
        cluster.add_pod(interner.pod(make_pod(name, on="a", containers=[container])))
    held = dict(cluster.by_name["a"].gpu_held)
    assert held == {"uid-p0": (0,), "uid-p1": (1,)}
    with cluster.what_if():
        for uid in list(cluster.pods):
            cluster.remove_pod(uid)
    assert cluster.by_name["a"].gpu_held == held


def test_an_earlier_savepoint_does_not_end_before_a_later_one() -> None:
    cluster = build([make_node("a")], [], PodInterner())
    first, second = cluster.savepoint(), cluster.savepoint()
    with pytest.raises(RuntimeError, match="later savepoint"):
        first.roll_back()
    second.keep()
    first.roll_back()
    with pytest.raises(RuntimeError, match="has ended"):
        first.keep()
