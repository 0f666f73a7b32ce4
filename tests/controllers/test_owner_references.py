"""The garbage collector's decisions, without a server."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api.kinds import ResourceType
from rota.client.verbs import Propagation
from rota.controllers import owner_references
from rota.controllers.owner_references import (
    FOREGROUND,
    ORPHAN,
    DeleteItem,
    DropFinalizer,
    DropOwners,
    Examine,
    Graph,
    Item,
    Owner,
    OwnerState,
    UnblockOwners,
)

KIND = ResourceType(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
PRESENT, ABSENT, WAITING = OwnerState.PRESENT, OwnerState.ABSENT, OwnerState.WAITING


def _owner(uid: str, *, blocks: bool = False, name: str = "") -> Owner:
    return Owner("v1", "ConfigMap", name or uid, uid, blocks)


def _item(uid: str, *owners: Owner, namespace: str = "default", **changes: Any) -> Item:
    given = {"resource": KIND, "namespace": namespace, "name": uid, "uid": uid, "resource_version": "1"}
    return Item(**{**given, "owners": owners, **changes})


def _plan(item: Item, *states: OwnerState, dependents: Iterable[Item] = ()) -> list[owner_references.Instruction]:
    return owner_references.plan(item, dict(zip(item.owners, states, strict=True)), dependents)


def test_an_object_with_an_owner_stays_and_loses_only_references_to_missing_owners() -> None:
    item = _item("c", _owner("a"), _owner("b"))
    assert _plan(item, PRESENT, PRESENT) == []
    assert _plan(item, PRESENT, ABSENT) == [DropOwners(frozenset({"b"}))]
    assert _plan(item, WAITING, PRESENT) == [DropOwners(frozenset({"a"}))]


def test_an_object_without_remaining_owners_is_deleted() -> None:
    item = _item("c", _owner("a"), _owner("b"))
    assert _plan(item, ABSENT, ABSENT) == [DeleteItem(Propagation.BACKGROUND)]
    assert _plan(item, ABSENT, WAITING) == [DeleteItem(Propagation.BACKGROUND)]
    assert _plan(_item("c")) == []


def test_an_unknown_owner_kind_deletes_nothing() -> None:
    item = _item("c", _owner("a"), _owner("b"))
    assert _plan(item, ABSENT, OwnerState.UNKNOWN) == []
    assert _plan(item, ABSENT, OwnerState.IMPOSSIBLE) == [DropOwners(frozenset({"a"}))]


def test_objects_being_deleted_are_left_alone() -> None:
    assert _plan(_item("c", _owner("a"), deleting=True, finalizers=("x/y",)), ABSENT) == []


def test_finalizers_that_are_there_choose_the_propagation() -> None:
    assert _plan(_item("c", _owner("a"), finalizers=(ORPHAN,)), ABSENT) == [DeleteItem(Propagation.ORPHAN)]
    assert _plan(_item("c", _owner("a"), finalizers=(FOREGROUND,)), ABSENT) == [DeleteItem(Propagation.FOREGROUND)]


def test_a_foreground_deletion_goes_down_to_the_leaves() -> None:
    middle = _item("b", _owner("a", blocks=True))
    leaf = _item("c", _owner("b", blocks=True))
    assert _plan(middle, WAITING, dependents=[leaf]) == [DeleteItem(Propagation.FOREGROUND)]
    assert _plan(leaf, WAITING) == [DeleteItem(Propagation.BACKGROUND)]


def test_an_owner_in_the_foreground_waits_only_for_those_that_block_it() -> None:
    owner = _item("a", deleting=True, finalizers=(FOREGROUND,))
    blocking, other = _item("b", _owner("a", blocks=True)), _item("c", _owner("a"))
    assert _plan(owner, dependents=[blocking, other]) == [Examine("b"), Examine("c")]
    assert _plan(owner, dependents=[other]) == [DropFinalizer(FOREGROUND)]
    assert _plan(owner) == [DropFinalizer(FOREGROUND)]


def test_a_circle_of_foreground_deletions_is_broken() -> None:
    circle = _item("b", _owner("a", blocks=True))
    above = _item("a", _owner("b", blocks=True), deleting=True, finalizers=(FOREGROUND,))
    assert _plan(circle, WAITING, dependents=[above]) == [UnblockOwners(), DeleteItem(Propagation.FOREGROUND)]


def test_the_graph_asks_to_look_at_those_whose_owner_is_not_there() -> None:
    graph = Graph()
    assert list(graph.put(_item("a"))) == []
    assert list(graph.put(_item("b", _owner("a")))) == []
    assert list(graph.put(_item("c", _owner("missing")))) == ["c"]
    assert list(graph.remove("a")) == ["b"]


def test_an_end_that_was_seen_is_remembered_and_what_is_only_out_of_sight_is_not() -> None:
    graph = Graph()
    for uid in "ab":
        list(graph.put(_item(uid)))
    list(graph.put(_item("c", _owner("a"), _owner("b"))))
    assert list(graph.remove("a")) == ["c"]
    assert list(graph.forget("b")) == ["c"]
    dependent = _item("c", _owner("a"), _owner("b"))
    assert graph.has_ended(_owner("a"), dependent)
    assert not graph.has_ended(_owner("b"), dependent)
    assert not graph.has_ended(_owner("a"), _item("d", _owner("a"), namespace=""))
    assert not graph.has_ended(_owner("a"), _item("d", _owner("a"), namespace="elsewhere"))


def test_an_owner_elsewhere_is_no_owner() -> None:
    graph = Graph()
    list(graph.put(_item("a", namespace="there")))
    assert list(graph.put(_item("b", _owner("a")))) == ["b"]
    assert list(graph.put(_item("c", _owner("a", name="other"), namespace="there"))) == ["c"]


def test_the_end_or_release_of_a_dependent_wakes_an_owner_that_waits() -> None:
    graph = Graph()
    waiting = _item("a", deleting=True, finalizers=(FOREGROUND,))
    assert list(graph.put(waiting)) == ["a"]
    assert "b" in list(graph.put(_item("b", _owner("a", blocks=True))))
    assert list(graph.put(_item("b", _owner("a")))) == ["a", "b"]
    assert list(graph.remove("b")) == ["a"]


_UIDS = st.sampled_from("abcd")


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(_UIDS, st.none() | st.sets(_UIDS)), max_size=30))
def test_the_graph_knows_exactly_the_references_that_there_are(steps: list[tuple[str, set[str] | None]]) -> None:
    graph = Graph()
    model: dict[str, Item] = {}
    for uid, owners in steps:
        if owners is None:
            list(graph.remove(uid))
            model.pop(uid, None)
        else:
            model[uid] = _item(uid, *(_owner(one) for one in sorted(owners)))
            list(graph.put(model[uid]))
    for uid in "abcd":
        assert graph.get(uid) == model.get(uid)
        expected = {one.uid for one in model.values() if any(owner.uid == uid for owner in one.owners)}
        assert {one.uid for one in graph.dependents(uid)} == expected
