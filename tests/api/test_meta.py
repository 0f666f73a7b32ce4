"""Owners, conditions and the like on plain objects."""

from rota.api import meta

POD = {
    "metadata": {
        "name": "web-0",
        "namespace": "default",
        "uid": "u1",
        "labels": {"app": "web"},
        "ownerReferences": [{"name": "other"}, {"name": "web", "controller": True}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t0", "reason": "Up"}]},
}


def test_the_usual_fields_are_read_and_absent_ones_are_empty() -> None:
    assert (meta.name(POD), meta.namespace(POD), meta.uid(POD)) == ("web-0", "default", "u1")
    assert meta.qualified_name(POD) == "default/web-0"
    assert meta.labels(POD) == {"app": "web"}
    assert (meta.name({}), meta.labels({}), meta.annotations({}), meta.finalizers({})) == ("", {}, {}, ())
    assert meta.qualified_name({"metadata": {"name": "n1"}}) == "n1"
    assert not meta.is_deleting(POD)
    assert meta.is_deleting({"metadata": {"deletionTimestamp": "t"}})


def test_the_controller_is_the_owner_that_says_so() -> None:
    controller = meta.controller_of(POD)
    assert controller is not None
    assert controller["name"] == "web"
    assert meta.controller_of({}) is None


def test_an_owner_refers_to_itself_as_controller() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "uid": "u"}}
    reference = meta.controller_reference(owner)
    assert reference == {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u",
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    assert meta.controller_of({"metadata": {"ownerReferences": [reference]}}) == reference


def test_the_transition_time_moves_only_with_the_status() -> None:
    same = meta.with_condition(meta.conditions(POD), {"type": "Ready", "status": "True", "message": "m"}, now="t1")
    assert same == [{"type": "Ready", "status": "True", "lastTransitionTime": "t0", "reason": "Up", "message": "m"}]
    changed = meta.with_condition(same, {"type": "Ready", "status": "False"}, now="t1")
    assert changed[0]["lastTransitionTime"] == "t1"
    assert meta.is_condition_true(POD, "Ready"), "the argument is left alone"


def test_conditions_are_added_found_and_removed() -> None:
    added = meta.with_condition((), {"type": "A", "status": "True"}, now="t1")
    assert added == [{"type": "A", "status": "True", "lastTransitionTime": "t1"}]
    assert meta.condition({"status": {"conditions": added}}, "A") == added[0]
    assert not meta.is_condition_true({}, "A")
    assert meta.without_condition(added, "A") == []
