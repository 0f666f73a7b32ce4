"""The comparer finds every way in which a cache can be wrong; the account and the dump show what it holds."""

from typing import Any

import pytest

from rota.columns.pod_interner import read_node
from rota.scheduler.cache import dumper, node_account
from rota.scheduler.cache.comparer import Difference, Truth, compare
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.testing.clusters import Document, make_node, make_pod

PROFILES = ("default-scheduler",)


class World:
    """An API server's objects, and a cache that was told of them."""

    def __init__(self) -> None:
        self.nodes = {name: make_node(name) for name in ("n1", "n2")}
        self.pods = {
            "placed": make_pod("placed", on="n1", labels={"app": "web"}),
            "wanting": make_pod("wanting"),
            "assumed": make_pod("assumed"),
            "foreign": make_pod("foreign", schedulerName="other"),
        }
        self.services: dict[str, Document] = {"s": {"metadata": {"name": "s", "namespace": "default"}, "spec": {}}}
        self.waiting = {"uid-wanting"}
        self.cache = SchedulerCache()
        for node in self.nodes.values():
            self.cache.set_node(read_node(node))
        self.cache.add_or_update_pod(self.cache.interner.pod(self.pods["placed"]))
        self.cache.assume(self.cache.interner.pod(self.pods["assumed"]), "n2")
        self.cache.put("Service", self.services["s"])

    def differences(self) -> list[tuple[str, str, str]]:
        truth = Truth(nodes=self.nodes.values(), pods=self.pods.values(), others={"Service": self.services.values()})
        found = compare(self.cache, truth, waiting=self.waiting, profiles=PROFILES)
        return [(each.kind, each.object, each.problem) for each in found]


def test_a_cache_with_all_events_equals_the_api() -> None:
    assert World().differences() == []


def test_objects_that_cannot_be_read_are_left_out() -> None:
    world = World()
    world.pods["broken"] = {"metadata": {"name": "broken"}, "spec": {"containers": "none"}}
    world.nodes["broken"] = {"metadata": {"name": 7}}
    assert world.differences() == []


def test_nodes_that_one_side_does_not_know_are_found() -> None:
    world = World()
    world.nodes["n3"] = make_node("n3")
    del world.nodes["n2"]
    assert [each for each in world.differences() if each[0] == "Node"] == [
        ("Node", "n2", "is in the cache and does not exist"),
        ("Node", "n3", "is not in the cache"),
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"spec": {"unschedulable": True}}, "unschedulable in the cache: False, is: True"),
        (
            {"status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "11"}}},
            "allowed_pods in the cache: 10, is: 11",
        ),
    ],
)
def test_a_missed_node_update_is_found(change: Document, problem: str) -> None:
    world = World()
    world.nodes["n1"] |= change
    assert world.differences() == [("Node", "n1", problem)]


def test_a_pod_that_the_cache_lacks_is_found_with_its_requests() -> None:
    world = World()
    world.pods["new"] = make_pod("new", on="n1", cpu="50m")
    found = world.differences()
    assert ("Pod", "default/new", "is on n1 and not in the cache") in found
    assert ("Node", "n1", "requested cpu: counted 100, should be 150") in found
    assert ("Node", "n1", "pods: counted 1, should be 2") in found


def test_a_pod_that_is_gone_is_found() -> None:
    world = World()
    del world.pods["placed"]
    del world.pods["assumed"]
    found = world.differences()
    assert ("Pod", "default/placed", "is in the cache on n1 and does not exist") in found
    assert ("Pod", "default/assumed", "is assumed on n2 and does not exist") in found


def test_a_pod_on_another_node_than_the_cache_believes_is_found() -> None:
    world = World()
    world.pods["placed"] = make_pod("placed", on="n2", labels={"app": "web"})
    assert ("Pod", "default/placed", "is on n2 and in the cache on n1") in world.differences()


def test_a_pod_that_has_no_node_though_the_cache_believes_so_is_found() -> None:
    world = World()
    world.pods["placed"] = make_pod("placed", labels={"app": "web"})
    world.waiting.add("uid-placed")
    assert ("Pod", "default/placed", "is on no node and in the cache on n1") in world.differences()


def test_a_pod_whose_confirmation_was_missed_is_found() -> None:
    world = World()
    world.pods["assumed"] = make_pod("assumed", on="n2")
    assert world.differences() == [("Pod", "default/assumed", "is on n2 and in the cache only assumed there")]


def test_a_missed_pod_update_is_found() -> None:
    world = World()
    world.pods["placed"] = make_pod("placed", on="n1", labels={"app": "db"})
    assert world.differences() == [("Pod", "default/placed", "has changed since the cache heard of it")]


def test_a_pod_that_is_missing_from_the_queue_is_found() -> None:
    world = World()
    world.waiting.clear()
    assert world.differences() == [("Pod", "default/wanting", "wants a node and is not in the queue")]


def test_a_pod_that_waits_in_vain_is_found() -> None:
    world = World()
    world.waiting |= {"uid-placed", "uid-gone"}
    assert world.differences() == [
        ("Pod", "uid-gone", "is in the queue and wants no node, or does not exist"),
        ("Pod", "uid-placed", "is in the queue and wants no node, or does not exist"),
    ]


def test_figures_that_were_corrupted_are_found() -> None:
    world = World()
    row = world.cache.cluster.by_name["n1"].row
    world.cache.cluster.requested[1, row] += 5
    memory = 200 << 20
    assert world.differences() == [("Node", "n1", f"requested memory: counted {memory + 5}, should be {memory}")]


def test_objects_around_are_compared() -> None:
    world = World()
    world.services["s"] = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"a": "b"}}}
    world.services["t"] = {"metadata": {"name": "t", "namespace": "default"}}
    world.cache.put("Service", {"metadata": {"name": "u", "namespace": "default"}})
    assert world.differences() == [
        ("Service", "default/s", "has changed since the cache heard of it"),
        ("Service", "default/t", "is not in the cache"),
        ("Service", "default/u", "is in the cache and does not exist"),
    ]


def test_what_two_comparisons_have_in_common_is_a_fault() -> None:
    first = [Difference("Pod", "default/a", "is on n1 and not in the cache")]
    assert set(first) & {Difference("Pod", "default/a", "is on n1 and not in the cache")} == set(first)


# --- account and dump -----------------------------------------------------------------------------------------------


def account(cache: SchedulerCache, node: str) -> node_account.NodeAccount:
    return node_account.account(cache.cluster.by_name[node], cache.assumed)


def test_requested_is_bound_and_assumed_and_allocatable_is_all_there_is() -> None:
    world = World()
    world.cache.assume(world.cache.interner.pod(make_pod("more", cpu="250m")), "n1")
    drawn_up = account(world.cache, "n1")
    assert drawn_up.allocatable["cpu"] == 4000
    assert (drawn_up.bound["cpu"], drawn_up.assumed["cpu"], drawn_up.requested["cpu"]) == (100, 250, 350)
    assert (drawn_up.free["cpu"], drawn_up.free["pods"]) == (3650, 8)
    info = world.cache.cluster.by_name["n1"]
    assert drawn_up.requested["cpu"] == info.requested["cpu"] == world.cache.cluster.requested[0, info.row]


def test_an_oversold_node_owes() -> None:
    world = World()
    world.cache.add_or_update_pod(world.cache.interner.pod(make_pod("huge", on="n1", cpu="5")))
    assert account(world.cache, "n1").free["cpu"] == -1100


def test_what_a_node_does_not_offer_can_be_owed_too() -> None:
    world = World()
    container = {"name": "c", "resources": {"requests": {"example.com/gpu": "2"}}}
    world.cache.add_or_update_pod(world.cache.interner.pod(make_pod("gpu", on="n1", containers=[container])))
    assert account(world.cache, "n1").free["example.com/gpu"] == -2


def test_a_dump_shows_nodes_with_their_accounts_and_pods_without_a_node() -> None:
    world = World()
    world.cache.finish_binding("uid-assumed")
    world.cache.add_or_update_pod(world.cache.interner.pod(make_pod("stray", on="nowhere")))
    dumped: dict[str, Any] = dumper.dump(world.cache)
    first, second = dumped["nodes"]
    assert (first["name"], first["requested"]["cpu"], [each["pod"] for each in first["pods"]]) == (
        "n1",
        100,
        ["default/placed"],
    )
    assert second["assumed"]["cpu"] == 100
    assert dumped["podsWithoutNode"] == [{"pod": "default/stray", "uid": "uid-stray", "node": "nowhere"}]
    assert dumped["assumed"] == {"uid-assumed": "bound, not seen"}
