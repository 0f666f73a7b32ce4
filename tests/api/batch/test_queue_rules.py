"""Each rule of a Queue and of the hierarchy."""

from typing import Any

import pytest

from rota.api.batch import queue_rules


def queue(
    name: str, parent: str = "root", *, annotations: dict[str, str] | None = None, **fields: Any
) -> dict[str, Any]:
    status = fields.pop("status", {})
    spec = {"weight": 1, **({"parent": parent} if parent else {}), **fields}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec, "status": status}


TREE = {
    one["metadata"]["name"]: one
    for one in (
        queue("root", ""),
        queue("default"),
        queue("a", capability={"cpu": 10}, deserved={"cpu": 8}, guarantee={"resource": {"cpu": 4}}),
        queue("a1", "a", guarantee={"resource": {"cpu": 2}}, deserved={"cpu": 4}),
        queue("busy", status={"allocated": {"cpu": "1", "pods": "1"}}),
        queue("shut", status={"state": "Closed"}),
        queue("h", annotations={"volcano.sh/hierarchy": "root/x/y", "volcano.sh/hierarchy-weights": "1/2/3"}),
    )
}
DEEP = {f"d{level}": queue(f"d{level}", f"d{level - 1}" if level else "root") for level in range(12)} | TREE


def errors(one: dict[str, Any], family: dict[str, Any] = TREE, old: dict[str, Any] | None = None) -> list[str]:
    return [str(found) for found in queue_rules.check(one, family, old)]


@pytest.mark.parametrize("name", [name for name in TREE if name != "busy"])
def test_the_queues_of_a_valid_tree_are_valid(name: str) -> None:
    assert errors(TREE[name], old=TREE[name]) == []


REFUSED = {
    "weight": (queue("x", weight=0), "spec.weight", "positive"),
    "negative weight": (queue("x", weight=-1), "spec.weight", "positive"),
    "negative capability": (queue("x", capability={"cpu": "-1"}), "spec.capability[cpu]", "greater than or equal"),
    "deserved above capability": (
        queue("x", capability={"cpu": 1}, deserved={"cpu": 2}),
        "spec.deserved[cpu]",
        "not exceed capability (1)",
    ),
    "guarantee above deserved": (
        queue("x", deserved={"cpu": 1}, guarantee={"resource": {"cpu": 2}}),
        "spec.guarantee[cpu]",
        "not exceed deserved (1)",
    ),
    "guarantee above capability": (
        queue("x", capability={"cpu": "500m"}, guarantee={"resource": {"cpu": 2}}),
        "spec.guarantee[cpu]",
        "not exceed capability (500m)",
    ),
    "own parent": (queue("x", "x"), "spec.parent", "own parent"),
    "missing parent": (queue("x", "nope"), "spec.parent", "no such queue"),
    "cycle": (queue("a", "a1"), "spec.parent", "a -> a1 -> a"),
    "parent with pods": (queue("x", "busy"), "spec.parent", "has pods"),
    "closed parent": (queue("x", "shut"), "spec.parent", "is Closed"),
    "capability above an ancestor's": (queue("x", "a1", capability={"cpu": 11}), "spec.capability[cpu]", "of a (10)"),
    "guarantees of children": (
        queue("a2", "a", guarantee={"resource": {"cpu": 3}}),
        "spec.guarantee[cpu]",
        "children of a have 5 together, more than its 4",
    ),
    "deserved of children": (queue("a2", "a", deserved={"cpu": 5}), "spec.deserved[cpu]", "9 together"),
    "less than its children": (
        queue("a", capability={"cpu": 10}, deserved={"cpu": 3}),
        "spec.deserved[cpu]",
        "children of a have 4 together",
    ),
    "weights of a path": (
        queue("x", annotations={"volcano.sh/hierarchy": "root/z", "volcano.sh/hierarchy-weights": "1"}),
        "metadata.annotations[volcano.sh/hierarchy-weights]",
        "one weight for each",
    ),
    "weight of a path": (
        queue("x", annotations={"volcano.sh/hierarchy": "root/z", "volcano.sh/hierarchy-weights": "1/-2"}),
        "metadata.annotations[volcano.sh/hierarchy-weights]",
        "positive number",
    ),
    "path above another": (
        queue("x", annotations={"volcano.sh/hierarchy": "root/x", "volcano.sh/hierarchy-weights": "1/2"}),
        "metadata.annotations[volcano.sh/hierarchy]",
        "queue h",
    ),
    "parent of the root": (queue("root", "default"), "spec.parent", "no parent"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_broken_rule_is_refused_with_its_path(case: str) -> None:
    one, path, words = REFUSED[case]
    assert any(found.startswith(f"{path}: ") and words in found for found in errors(one)), errors(one)


def test_queues_are_not_nested_without_end() -> None:
    assert any("nested at most" in one for one in errors(queue("x", "d11"), DEEP))
    assert errors(queue("x", "d5"), DEEP) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("root", "root queue can not be deleted"),
        ("default", "default queue can not be deleted"),
        ("a", "1 child queues: a1"),
        ("a1", "only queue with state Closed"),
        ("shut", ""),
    ],
)
def test_a_queue_is_deleted_when_it_is_closed_and_has_no_children(name: str, words: str) -> None:
    refusal = queue_rules.check_delete(TREE[name], TREE)
    assert (words in refusal) if words else not refusal


def test_defaults_are_upstreams() -> None:
    one: dict[str, Any] = {"metadata": {"name": "x"}}
    queue_rules.set_defaults(one)
    assert one["spec"] == {"weight": 1, "reclaimable": True, "parent": "root"}


def test_a_hierarchy_starts_at_the_root() -> None:
    one = queue("x", annotations={"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "2/8"})
    queue_rules.set_defaults(one)
    assert one["metadata"]["annotations"] == {
        "volcano.sh/hierarchy": "root/a/b",
        "volcano.sh/hierarchy-weights": "1/2/8",
    }
