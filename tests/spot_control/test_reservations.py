"""Places that are kept until their successors have come."""

from typing import Any

from rota.api import times
from rota.spot_control import reservations
from rota.spot_control.reservations import PlaceReservations

START = 1_700_000_000.0


def pod(name: str, *, on: str, made: float = 0.0, owner: str = "o") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": times.format_time(START + made),
            "ownerReferences": [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}],
        },
        "spec": {"nodeName": on},
    }


def settle(
    place_reservations: PlaceReservations, pods: list[dict[str, Any]], *, at: float, gone: str = "", unusable: str = ""
) -> list[float]:
    come = place_reservations.settle(
        now=START + at,
        there=lambda one: one["metadata"]["name"] not in gone.split(),
        usable=lambda node: node != unusable,
        of_owner=lambda _: pods,
        leaving={"s1"},
    )
    return [one.waited_s for one in come]


def test_a_place_is_kept_while_the_old_pod_is_there_and_until_the_new_one_has_a_node() -> None:
    place_reservations, old = PlaceReservations(), pod("old", on="s1")
    place_reservations.add(old, "d1")
    assert settle(place_reservations, [old], at=1) == []
    assert settle(place_reservations, [old], at=2, gone="old") == []
    waiting = pod("new", on="", made=3)
    assert settle(place_reservations, [waiting], at=4, gone="old") == []
    assert place_reservations.node("old") == "d1"
    assert settle(place_reservations, [pod("new", on="d2", made=3)], at=5, gone="old") == [3.0]
    assert len(place_reservations) == 0


def test_one_successor_frees_one_place_and_those_from_before_none() -> None:
    place_reservations = PlaceReservations()
    for name in ("a", "b"):
        place_reservations.add(pod(name, on="s1"), "d1")
    siblings = [pod("before", on="d3", made=1), pod("new", on="d1", made=6), pod("doomed", on="s1", made=7)]
    settle(place_reservations, siblings, at=5, gone="a b")
    assert len(place_reservations) == 1
    settle(place_reservations, siblings, at=6, gone="a b")
    assert len(place_reservations) == 1


def test_a_successor_that_arrived_during_a_restart_frees_its_reservation() -> None:
    place_reservations, old = PlaceReservations(), pod("old", on="s1")
    place_reservations.add(old, "d1")
    old["metadata"] |= {"deletionTimestamp": times.format_time(START + 35), "deletionGracePeriodSeconds": 30}
    since = reservations.going_since(old)
    assert since == START + 5
    place_reservations.left("old", since)
    assert settle(place_reservations, [pod("new", on="d2", made=6)], at=20, gone="old") == [15.0]
    assert "old" not in place_reservations


def test_a_place_on_a_node_that_goes_is_none() -> None:
    place_reservations = PlaceReservations()
    place_reservations.add(pod("a", on="s1"), "s2")
    settle(place_reservations, [], at=1, unusable="s2")
    assert "a" not in place_reservations


def test_an_evicted_pod_without_its_reservation_gets_another() -> None:
    place_reservations, old = PlaceReservations(), pod("a", on="s1")
    place_reservations.add(old, "s2")
    settle(place_reservations, [], at=1, gone="a")
    settle(place_reservations, [], at=2, gone="a", unusable="s2")
    assert (place_reservations.unassigned(), list(place_reservations)) == ([old], [])
    place_reservations.add(old, "d1")
    assert (place_reservations.unassigned(), place_reservations.node("a")) == ([], "d1")
    assert settle(place_reservations, [pod("new", on="d1", made=3)], at=4, gone="a") == [3.0]


def test_waiting_for_a_successor_is_bounded() -> None:
    place_reservations = PlaceReservations()
    place_reservations.add(pod("a", on="s1"), "d1")
    settle(place_reservations, [], at=1, gone="a")
    settle(place_reservations, [], at=100, gone="a")
    assert "a" in place_reservations
    settle(place_reservations, [], at=122, gone="a")
    assert "a" not in place_reservations
