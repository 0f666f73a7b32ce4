"""Moves in a federation: from where, to where, and why."""

from typing import Any

from rota.client.informers.cache import Key
from rota.web.views import moves
from rota.web.views.moves import Move, MoveTable

KEY = Key("default", "shop-deployment")


def binding(clusters: dict[str, int], **spec: Any) -> dict[str, Any]:
    placed = [{"name": name, "replicas": replicas} for name, replicas in clusters.items()]
    resource = {"kind": "Deployment", "namespace": "default", "name": "shop"}
    return {"spec": {"resource": resource, "replicas": sum(clusters.values()), "clusters": placed, **spec}}


def cluster(*, ready: bool = True, taints: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "spec": {"taints": [{"key": one, "effect": "NoExecute"} for one in taints]},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def shown(table: MoveTable) -> list[Move]:
    return [row for part in table.begin() for _, row in part["rows"]]  # type: ignore[index]


def test_a_binding_that_is_seen_first_is_no_move_and_a_changed_one_is() -> None:
    table = MoveTable()
    table.apply("clusters", Key("", "m1"), None, cluster(), 0.0)
    before, after = binding({"m1": 2, "m2": 1}), binding({"m2": 3})
    table.apply("bindings", KEY, None, before, 1.0)
    table.apply("bindings", KEY, before, {**before, "status": {"conditions": []}}, 2.0)
    assert shown(table) == []
    assert table.delta(2.0) is None
    table.apply("clusters", Key("", "m1"), cluster(), cluster(ready=False), 3.0)
    table.apply("bindings", KEY, before, after, 4.0)
    assert shown(table) == [
        Move(4.0, "Deployment", "default", "shop", (("m1", 2), ("m2", 1)), (("m2", 3),), "m1 is not ready")
    ]
    table.apply("bindings", KEY, after, None, 5.0)
    assert len(shown(table)) == 1


def test_the_reason_is_what_the_objects_say() -> None:
    there = {"m1": cluster(), "m2": cluster(taints=("maintenance",))}
    task = {"fromCluster": "m1", "reason": "ApplicationFailure", "message": "3 of 3 replicas are not healthy"}
    cases = [
        (binding({}, replicas=0), binding({"m1": 0}), "it had no cluster"),
        (binding({"m1": 1}), binding({"m1": 2}), "the number of replicas changed from 1 to 2"),
        (binding({"m1": 1}), binding({"m3": 1}, gracefulEvictionTasks=[task]), f"evicted from m1: {task['message']}"),
        (binding({"m2": 1}), binding({"m1": 1}), "m2 has the taint maintenance"),
        (binding({"m9": 1}), binding({"m1": 1}), "m9 has left the federation"),
        (binding({"m1": 1}), binding({"m3": 1}, placement={"a": 1}), "its policy changed"),
        (binding({"m1": 1}), binding({"m3": 1}, rescheduleTriggeredAt="now"), "a rebalancer asked for it"),
        (binding({"m1": 1}), binding({"m3": 1}), "the scheduler of the federation decided again"),
    ]
    assert [moves.reason(old, new, there) for old, new, _ in cases] == [why for *_, why in cases]


def test_the_cause_of_a_move_is_written_before_the_move() -> None:
    table = MoveTable()
    first = binding({"m1": 2}, placement={"policy": 1})
    scaled = binding({"m1": 2}, placement={"policy": 1}, replicas=5)
    placed = binding({"m1": 4}, placement={"policy": 1}, replicas=5)
    table.apply("bindings", KEY, None, first, 1.0)
    table.apply("bindings", KEY, first, scaled, 2.0)
    table.apply("bindings", KEY, scaled, placed, 3.0)
    table.apply("bindings", KEY, placed, binding({"m1": 4, "m2": 1}, placement={"policy": 1}), 4.0)
    assert [one.why for one in shown(table)] == [
        "the number of replicas changed from 2 to 5",
        "1 of its replicas had no cluster",
    ]


def test_only_the_first_placement_is_called_the_first() -> None:
    table = MoveTable()
    steps: list[dict[str, int]] = [{}, {"m1": 2}, {}, {"m2": 2}]
    for at, (old, new) in enumerate(zip([None, *steps], steps, strict=False)):
        was = None if old is None else binding(old, replicas=2)
        table.apply("bindings", KEY, was, binding(new, replicas=2), float(at))
    first, away, again = [one.why for one in shown(table)]
    assert first == "it was placed for the first time"
    assert away == "m1 has left the federation"
    assert again == "2 of its replicas had no cluster"


def test_an_old_eviction_is_not_the_reason_of_a_later_move() -> None:
    task = {"fromCluster": "m1", "reason": "TaintUntolerated"}
    old, new = (binding(one, gracefulEvictionTasks=[task]) for one in ({"m2": 2}, {"m3": 2}))
    assert "m1" not in moves.reason(old, new, {"m2": cluster(ready=False)})


def test_the_last_moves_are_kept() -> None:
    table = MoveTable()
    for number in range(moves.MOST + 10):
        table.apply("bindings", KEY, binding({"m1": number + 1}), binding({"m1": number + 2}), float(number))
    kept = shown(table)
    assert len(kept) == moves.MOST
    assert kept[0].at == 10.0
