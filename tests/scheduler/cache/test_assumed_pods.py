"""Pods that the scheduler has placed before the API server knows: every order in which news of them can come."""

from typing import Any

import pytest

from rota.columns.pod_interner import read_node
from rota.columns.pods import PodInfo
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.testing.clusters import make_node, make_pod


class Cached:
    """A cache with two nodes; pods are spoken of by name."""

    def __init__(self, *nodes: str) -> None:
        self.cache = SchedulerCache()
        for name in nodes or ("n1", "n2"):
            self.cache.set_node(read_node(make_node(name)))

    def pod(self, name: str = "a", **fields: Any) -> PodInfo:
        return self.cache.interner.pod(make_pod(name, **fields))

    def assume(self, name: str = "a", node: str = "n1", **fields: Any) -> bool:
        return self.cache.assume(self.pod(name, **fields), node)

    def see(self, name: str = "a", **fields: Any) -> PodInfo | None:
        return self.cache.add_or_update_pod(self.pod(name, **fields))

    def cpu(self, node: str) -> int:
        info = self.cache.cluster.by_name[node]
        assert self.cache.cluster.requested[0, info.row] == info.requested.get("cpu", 0)
        return info.requested.get("cpu", 0)

    def on(self, node: str) -> list[str]:
        return [pod.name for pod in self.cache.cluster.by_name[node].pods.values()]


def test_an_assumed_pod_counts_at_once() -> None:
    cached = Cached()
    assert cached.assume()
    assert cached.cpu("n1") == 100
    assert cached.cache.is_assumed("uid-a")
    assert dict(cached.cache.assumed) == {"uid-a": False}


def test_a_node_that_others_have_filled_lacks_what_an_assumed_pod_asks_for() -> None:
    cached = Cached()
    cached.assume(cpu="3")
    assert cached.cache.insufficient(cached.pod(cpu="3"), "n1") == ""
    cached.see("rival", on="n1", cpu="3")
    assert cached.cache.insufficient(cached.pod(cpu="3"), "n1") == "cpu"
    assert cached.cache.insufficient(cached.pod(cpu="3"), "n2") == ""
    assert cached.cache.insufficient(cached.pod(cpu="3"), "unknown") == ""


def test_an_assumed_pod_that_is_forgotten_counts_no_longer() -> None:
    cached = Cached()
    cached.assume()
    forgotten = cached.cache.forget("uid-a")
    assert forgotten is not None
    assert forgotten.node_name == "n1"
    assert (cached.cpu("n1"), cached.on("n1")) == (0, [])
    assert cached.cache.forget("uid-a") is None


def test_a_pod_cannot_be_assumed_twice_nor_after_it_was_seen() -> None:
    cached = Cached()
    cached.assume()
    assert not cached.assume(node="n2")
    cached.see("b", on="n2")
    assert not cached.assume("b", "n1")
    assert (cached.on("n1"), cached.on("n2")) == (["a"], ["b"])


def test_a_pod_seen_where_it_was_assumed_is_confirmed_and_counts_once() -> None:
    cached = Cached()
    cached.assume()
    cached.cache.finish_binding("uid-a")
    assert dict(cached.cache.assumed) == {"uid-a": True}
    cached.see(on="n1")
    assert not cached.cache.is_assumed("uid-a")
    assert (cached.cpu("n1"), cached.on("n1")) == (100, ["a"])


def test_confirmation_leaves_cached_evaluations_of_the_node_valid() -> None:
    cached = Cached()
    cached.assume(labels={"app": "web"})
    generation = cached.cache.cluster.change_log.generation
    cached.see(labels={"app": "web"}, on="n1")
    assert cached.cache.cluster.change_log.generation == generation
    cached.see(labels={"app": "db"}, on="n1")
    assert cached.cache.cluster.change_log.generation > generation


def test_a_confirmed_pod_lets_go_of_the_document_that_it_waited_with() -> None:
    cached = Cached()
    cached.cache.assume(cached.cache.interner.pod(make_pod("a"), keep=True), "n1")
    assert cached.cache.cluster.pods["uid-a"].manifest is not None
    cached.see(on="n1")
    assert cached.cache.cluster.pods["uid-a"].manifest is None
    assert cached.cache.cluster.by_name["n1"].pods["uid-a"].manifest is None


def test_a_pod_seen_elsewhere_than_assumed_is_where_the_api_server_says() -> None:
    cached = Cached()
    cached.assume(node="n1")
    former = cached.see(on="n2")
    assert former is not None
    assert former.node_name == "n1"
    assert (cached.cpu("n1"), cached.cpu("n2")) == (0, 100)
    assert cached.cache.forget("uid-a") is None
    assert cached.cpu("n2") == 100


def test_a_binding_that_fails_after_the_pod_was_seen_bound_takes_nothing_back() -> None:
    cached = Cached()
    cached.assume()
    cached.see(on="n1")
    assert cached.cache.forget("uid-a") is None
    assert cached.cpu("n1") == 100


def test_an_update_of_an_assumed_pod_that_has_no_node_yet_keeps_it_where_it_is_assumed() -> None:
    cached = Cached()
    cached.assume(labels={"app": "old"})
    cached.see(labels={"app": "new"})
    assert cached.cache.is_assumed("uid-a")
    assert cached.cache.cluster.pods["uid-a"].labels == {"app": "new"}
    assert (cached.cpu("n1"), cached.on("n1")) == (100, ["a"])


def test_an_update_without_a_node_of_a_pod_that_was_not_assumed_does_not_count() -> None:
    cached = Cached()
    assert cached.see() is None
    assert cached.on("n1") == []
    assert cached.cache.remove_pod("uid-a") is None


def test_an_update_before_the_addition_adds_the_pod() -> None:
    cached = Cached()
    assert cached.see(on="n1", labels={"version": "2"}) is None
    assert cached.on("n1") == ["a"]


def test_an_update_moves_what_the_pod_takes() -> None:
    cached = Cached()
    cached.see(on="n1", cpu="100m")
    former = cached.see(on="n1", cpu="300m")
    assert former is not None
    assert former.shape.requests["cpu"] == 100
    assert cached.cpu("n1") == 300


def test_a_deletion_before_the_addition_changes_nothing() -> None:
    cached = Cached()
    assert cached.cache.remove_pod("uid-a") is None
    cached.cache.finish_binding("uid-a")
    assert not cached.cache.is_assumed("uid-a")


def test_a_deleted_assumed_pod_counts_no_longer_and_its_late_answers_change_nothing() -> None:
    cached = Cached()
    cached.assume()
    assert cached.cache.remove_pod("uid-a") is not None
    cached.cache.finish_binding("uid-a")
    assert cached.cache.forget("uid-a") is None
    assert (cached.cpu("n1"), cached.on("n1")) == (0, [])


def test_removing_a_seen_pod_returns_it_as_it_was() -> None:
    cached = Cached()
    cached.see(on="n1")
    lost = cached.cache.remove_pod("uid-a")
    assert lost is not None
    assert lost.node_name == "n1"
    assert cached.cpu("n1") == 0


# --- nodes that come and go -----------------------------------------------------------------------------------------


def test_pods_of_a_removed_node_come_back_with_it() -> None:
    cached = Cached()
    cached.see("seen", on="n1")
    cached.assume("assumed", "n1")
    assert cached.cache.remove_node("n1") is not None
    assert cached.cache.is_assumed("uid-assumed")
    assert {pod.name for pod in cached.cache.pods()} == {"seen", "assumed"}
    cached.cache.set_node(read_node(make_node("n1")))
    assert sorted(cached.on("n1")) == ["assumed", "seen"]
    assert cached.cpu("n1") == 200


def test_pods_that_leave_while_their_node_is_gone_do_not_come_back() -> None:
    cached = Cached()
    cached.see("a", on="n1")
    cached.assume("b", "n1")
    cached.see("c", on="n1")
    cached.cache.remove_node("n1")
    cached.cache.remove_pod("uid-a")
    cached.cache.forget("uid-b")
    cached.see("c", on="n2")
    cached.cache.set_node(read_node(make_node("n1")))
    assert (cached.on("n1"), cached.on("n2")) == ([], ["c"])


def test_a_pod_assumed_on_a_node_that_is_gone_can_be_confirmed_before_the_node_is_back() -> None:
    cached = Cached()
    cached.assume("a", "n1")
    cached.cache.remove_node("n1")
    cached.see("a", on="n1")
    assert not cached.cache.is_assumed("uid-a")
    cached.cache.set_node(read_node(make_node("n1")))
    assert cached.on("n1") == ["a"]


def test_pods_on_an_unknown_node_count_once_the_node_is_added() -> None:
    cached = Cached("n1")
    cached.see("a", on="imaginary")
    assert "imaginary" not in cached.cache.cluster.by_name
    change = cached.cache.set_node(read_node(make_node("imaginary")))
    assert change is not None
    assert change.old is None
    assert cached.on("imaginary") == ["a"]


def test_removing_an_unknown_node_is_no_news() -> None:
    assert Cached().cache.remove_node("unknown") is None


def test_a_heartbeat_is_no_change_and_a_change_has_the_node_before_and_after() -> None:
    cached = Cached()
    document = make_node("n1")
    document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert cached.cache.set_node(read_node(document)) is None
    document["metadata"]["labels"]["disk"] = "ssd"
    change = cached.cache.set_node(read_node(document))
    assert change is not None
    assert change.old is not None
    assert change.new is not None
    assert ("disk" in change.old.labels, "disk" in change.new.labels) == (False, True)
    cached.cache.set_node(read_node(make_node("n1")))
    assert "disk" in change.new.labels


@pytest.mark.parametrize("kind", ["Service", "PersistentVolume"])
def test_objects_around_are_kept_by_kind(kind: str) -> None:
    cache = SchedulerCache()
    cache.put(kind, {"metadata": {"name": "x", "namespace": "default"}})
    assert cache.cluster.catalog.get(kind, namespace="default", name="x") is not None
    cache.remove(kind, namespace="default", name="x")
    assert cache.cluster.catalog.get(kind, namespace="default", name="x") is None
