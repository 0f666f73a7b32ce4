"""Pods that hold places for others."""

from typing import Any

from rota.api import resources
from rota.spot import evacuation, reservations


def pod(**spec: Any) -> dict[str, Any]:
    containers = [
        {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "2"}}},
        {"name": "b", "resources": {"requests": {"cpu": "1"}}},
    ]
    return {"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {"containers": containers, **spec}}


def held(**spec: Any) -> dict[str, Any]:
    made = reservations.manifest(pod(**spec), node="d1", owner="o", namespace="kube-system", lasts_s=90.2)
    made["metadata"] |= {"uid": "r", "creationTimestamp": "2030-01-01T00:00:00Z"}
    return made


def test_a_place_asks_for_what_the_successor_will_ask_for() -> None:
    made = held(overhead={"cpu": "100m"})
    assert resources.pod_requests(made) == {"cpu": 1600, "memory": 2**30, "example.com/gpu": 2}
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"example.com/gpu": "2"}


def test_a_place_is_bound_runs_nothing_and_ends_by_itself() -> None:
    spec = held()["spec"]
    assert (spec["nodeName"], spec["activeDeadlineSeconds"]) == ("d1", 91)
    assert (spec["terminationGracePeriodSeconds"], spec["containers"][0]["imagePullPolicy"]) == (0, "Never")


def test_a_place_is_as_important_as_its_pod_but_never_so_that_kubelets_make_room_for_it() -> None:
    assert held(priorityClassName="high", priority=1000)["spec"]["priorityClassName"] == "high"
    assert "priorityClassName" not in held(priorityClassName="system-node-critical", priority=2_000_001_000)["spec"]


def test_a_place_tells_what_it_is_for() -> None:
    read = reservations.read(held())
    assert (read.leaver, read.pod, read.owner, read.node, read.over) == ("u", "shop/web", "o", "d1", False)
    assert reservations.read({**held(), "status": {"phase": "Failed"}}).over
    gone = reservations.stand_in(held())
    assert gone["metadata"]["name"] == "web"
    assert "nodeName" not in gone["spec"]


def test_a_reservation_is_never_a_victim() -> None:
    assert not evacuation.must_leave(held())
    assert evacuation.must_leave(pod())
