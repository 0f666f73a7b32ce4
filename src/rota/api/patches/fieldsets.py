"""Sets of fields that a manager owns.

A field set is a frozenset of paths, so union, intersection and difference are Python's own. A path in the set owns
exactly that field, not what lies below it: owning `.spec` is the right to remove it, owning `.spec.replicas` is the
right to its value. On the wire a set is a tree (FieldsV1) in which `.` marks an inner node that is itself a member.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from typing import Final, TypeAlias

from rota.api.patches import field_paths
from rota.api.patches.errors import MalformedPatch
from rota.api.patches.field_paths import FIELD, KEY, Path, PathElement
from rota.api.patches.json_values import Json, JsonObject
from rota.api.patches.schemas import TypeSchema

FieldSet: TypeAlias = frozenset[Path]

EMPTY: FieldSet = frozenset()
_SORTED_AT_ONCE: Final = 5000


def from_wire(fields_v1: Json, schema: TypeSchema | None = None) -> FieldSet:
    """The set that a FieldsV1 tree stands for.

    With a schema, what lies inside a list or map that the schema calls atomic counts as that list or map: the schema
    may have become stricter since the tree was written.
    """
    if fields_v1 is None:
        return EMPTY
    paths: set[Path] = set()
    _collect(fields_v1, (), schema, paths)
    return frozenset(paths)


def _collect(tree: Json, prefix: Path, schema: TypeSchema | None, paths: set[Path]) -> None:
    if not isinstance(tree, dict):
        raise MalformedPatch(f"managedFields: expected an object below {field_paths.text(prefix) or 'fieldsV1'}")
    if prefix and schema is not None and _is_atomic(schema):
        return
    for wire, subtree in tree.items():
        if wire == ".":
            continue
        element = field_paths.parse(wire)
        if element is None:
            continue
        here = (*prefix, element)
        before = len(paths)
        if subtree != {}:
            _collect(subtree, here, None if schema is None else _below(schema, element), paths)
        # A node without members below it is a leaf and so itself a member.
        if len(paths) == before or "." in subtree:
            paths.add(here)


def _below(schema: TypeSchema, element: PathElement) -> TypeSchema | None:
    if element.kind == FIELD:
        return None if schema.map is None else schema.map.child(element.content)
    return None if schema.items is None else schema.items.element


def _is_atomic(schema: TypeSchema) -> bool:
    if schema.map is not None:
        return schema.map.atomic
    return schema.scalar is None and schema.items is not None and schema.items.relation == "atomic"


def to_wire(fields: FieldSet) -> JsonObject:
    """The FieldsV1 tree of a set, with its keys in the order in which Kubernetes writes them."""
    return Tree.of(fields).to_wire()


def in_order(fields: Iterable[Path]) -> list[Path]:
    """The paths in the order in which Kubernetes lists them: a node's members first, then what lies below each."""
    return sorted(fields, key=lambda path: [*((1, step) for step in path[:-1]), (0, path[-1])])


def without_subtrees(fields: FieldSet, roots: FieldSet) -> FieldSet:
    """The paths that are neither in `roots` nor below one of them."""
    if not roots:
        return fields
    return frozenset(path for path in fields if not any(path[: depth + 1] in roots for depth in range(len(path))))


def with_named_parents(fields: FieldSet, schema: TypeSchema) -> FieldSet:
    """The set plus every declared field that has a member below it.

    Appliers own leaves; a struct such as `.spec.strategy` has no owner. Removing items needs to know that the struct
    goes when all its leaves go.
    """
    parents = set()
    for path in {path[:-1] for path in fields}:
        node: TypeSchema | None = schema
        for depth, step in enumerate(path):
            if node is None:
                break
            shape, node = node, None
            if step.kind == FIELD and shape.map is not None:
                if step.content in shape.map.fields:
                    parents.add(path[: depth + 1])
                    node = shape.map.fields[step.content].type
                else:
                    node = shape.map.element
            elif step.kind == KEY and shape.items is not None:
                node = shape.items.element
    return fields | parents


class Tree:
    """A set as nested nodes, for walking it beside a value: members end here, children lead further down."""

    __slots__ = ("children", "members")

    def __init__(self) -> None:
        self.members: set[PathElement] = set()
        self.children: dict[PathElement, Tree] = {}

    @classmethod
    def of(cls, fields: Iterable[Path]) -> Tree:
        """The tree of a set."""
        root = cls()
        for path in fields:
            node = root
            for step in path[:-1]:
                below = node.children.get(step)
                if below is None:
                    below = node.children[step] = cls()
                node = below
            node.members.add(path[-1])
        return root

    def to_wire(self) -> JsonObject:
        """The tree as FieldsV1."""
        tree: JsonObject = {}
        for step in _in_order(self.members | self.children.keys()):
            below = self.children.get(step)
            node: JsonObject = {".": {}} if below is not None and step in self.members else {}
            if below is not None:
                node.update(below.to_wire())
            tree[field_paths.wire(step)] = node
        return tree


def _in_order(steps: Collection[PathElement]) -> Iterable[PathElement]:
    """Steps in their order. One sort cannot be interrupted, so a hundred thousand are sorted in portions."""
    if len(steps) <= _SORTED_AT_ONCE:
        return sorted(steps)
    listed = list(steps)
    portions = range(0, len(listed), _SORTED_AT_ONCE)
    return heapq.merge(*(sorted(listed[start : start + _SORTED_AT_ONCE]) for start in portions))
