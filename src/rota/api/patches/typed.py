"""Values seen through a schema: validate, extract the fields, compare, merge, remove.

The five walks on which server-side apply stands. Each takes plain JSON and a `TypeSchema`, changes nothing, and may
share parts of its result with its arguments. Where a type allows several forms (a deduced value can be a map, a list
or a scalar) the value decides; a null fits any form. Behaviour follows structured-merge-diff v6.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rota.api.patches import field_paths
from rota.api.patches.errors import MalformedPatch
from rota.api.patches.field_paths import Path, PathElement
from rota.api.patches.fieldsets import FieldSet, Tree
from rota.api.patches.json_values import ABSENT, Json, JsonObject, Missing, same
from rota.api.patches.schemas import ListSchema, MapSchema, ScalarKind, TypeSchema


class _Forms(NamedTuple):
    """What a type can be; narrowed to one form once a value is known."""

    map: MapSchema | None
    scalar: ScalarKind | None
    items: ListSchema | None


def forms_of(schema: TypeSchema, value: Json | Missing) -> _Forms:
    """The one form of `schema` that `value` has, or all of them where the value does not say."""
    if isinstance(value, dict):
        if schema.map is not None:
            return _Forms(schema.map, None, None)
    elif isinstance(value, list):
        if schema.items is not None:
            return _Forms(None, None, schema.items)
    elif value is not None and value is not ABSENT and schema.scalar is not None:
        return _Forms(None, schema.scalar, None)
    return _Forms(schema.map, schema.scalar, schema.items)


def list_element(schema: ListSchema, item: Json) -> PathElement:
    """How an element of a set or keyed list is told apart from its siblings."""
    if schema.relation == "set":
        if isinstance(item, dict):
            raise MalformedPatch("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise MalformedPatch("not supported: associative list with lists as elements")
        if item is None:
            raise MalformedPatch("associative list without keys has an element that's an explicit null")
        return field_paths.value(item)
    if item is None:
        raise MalformedPatch("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise MalformedPatch("associative list with keys may not have non-map elements")
    keys = {}
    for name in schema.keys:
        if name in item:
            keys[name] = item[name]
        elif name in schema.key_defaults:
            keys[name] = schema.key_defaults[name]
    if not keys:
        names = " ".join(f'"{name}"' for name in schema.keys)
        raise MalformedPatch(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return field_paths.key(keys)


def _elements(schema: ListSchema, items: list[Json]) -> Iterator[tuple[PathElement, Json]]:
    """Each element with its path element."""
    for item in items:
        yield list_element(schema, item), item


# --- the fields of a value -------------------------------------------------------------------------------------------


def fields_of(value: Json, schema: TypeSchema) -> FieldSet:
    """The fields that the applier of `value` owns: its leaves, its list elements, and its undeclared map entries."""
    fields: set[Path] = set()
    _extract(value, schema, (), fields)
    fields.discard(())
    return frozenset(fields)


def _extract(value: Json, schema: TypeSchema, path: Path, fields: set[Path]) -> None:
    forms = forms_of(schema, value)
    if forms.map is not None:
        if forms.map.atomic:
            fields.add(path)
        elif isinstance(value, dict):
            _extract_map(value, forms.map, path, fields)
    elif forms.scalar is not None:
        fields.add(path)
    elif forms.items is not None:
        if forms.items.relation == "atomic":
            fields.add(path)
        elif isinstance(value, list):
            _extract_list(value, forms.items, path, fields)


def _extract_map(value: JsonObject, schema: MapSchema, path: Path, fields: set[Path]) -> None:
    for name, item in value.items():
        below = (*path, field_paths.field(name))
        _extract(item, schema.child(name), below, fields)
        if item is None or item == {} or name not in schema.fields:
            fields.add(below)


def _extract_list(value: list[Json], schema: ListSchema, path: Path, fields: set[Path]) -> None:
    seen: dict[PathElement, list[Json]] = {}
    for step, item in _elements(schema, value):
        seen.setdefault(step, []).append(item)
    for step, items in seen.items():
        below = (*path, step)
        fields.add(below)
        # Elements that cannot be told apart are owned together, without what is inside them.
        if len(items) == 1:
            _extract(items[0], schema.element, below, fields)


# --- compare ---------------------------------------------------------------------------------------------------------


def completed(value: Json, schema: TypeSchema) -> Json:
    """The value with the empty structs that Kubernetes' types always carry.

    Kubernetes compares such structs as present on both sides, so no manager gets to own `.spec` or `.status` itself by
    creating an object. Comparing plain JSON would say otherwise.
    """
    if isinstance(value, list):
        if schema.items is None or schema.items.relation == "atomic":
            return value
        element = schema.items.element
        return [completed(item, element) for item in value]
    if not isinstance(value, dict) or schema.map is None or schema.map.atomic:
        return value
    shape = schema.map
    whole = {name: completed(item, shape.child(name)) for name, item in value.items()}
    for name, empty in shape.present.items():
        if name not in whole:
            whole[name] = completed(empty, shape.child(name))
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What has to happen to the left value to become the right one."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet


def compare(left: Json, right: Json, schema: TypeSchema) -> Comparison:
    """The fields by which two objects differ."""
    walk = _Compare()
    walk.visit(left, right, schema, ())
    for fields in (walk.removed, walk.modified, walk.added):
        fields.discard(())
    return Comparison(removed=frozenset(walk.removed), modified=frozenset(walk.modified), added=frozenset(walk.added))


class _Compare:
    def __init__(self) -> None:
        self.removed: set[Path] = set()
        self.modified: set[Path] = set()
        self.added: set[Path] = set()

    def visit(self, left: Json | Missing, right: Json | Missing, schema: TypeSchema, path: Path) -> None:
        if left is not ABSENT and right is not ABSENT and _identical(left, right):
            return
        left_forms, right_forms = forms_of(schema, left), forms_of(schema, right)
        if right is ABSENT:
            leaf = self._visit_as(left_forms, left, right, path)
        else:
            # A value that changed its form, say from a scalar to a map, counts as both.
            if left is not ABSENT and left_forms != right_forms:
                self._visit_as(left_forms, left, right, path)
            leaf = self._visit_as(right_forms, left, right, path)
        if not leaf:
            if left is ABSENT:
                self.added.add(path)
            elif right is ABSENT:
                self.removed.add(path)

    def _visit_as(self, forms: _Forms, left: Json | Missing, right: Json | Missing, path: Path) -> bool:
        """Compare in one form; True if the value is a leaf in that form."""
        if forms.map is not None:
            before, after = _complete_map(left, forms.map), _complete_map(right, forms.map)
            if not forms.map.atomic and (before or after):
                for name in before | after:
                    step = (*path, field_paths.field(name))
                    self.visit(before.get(name, ABSENT), after.get(name, ABSENT), forms.map.child(name), step)
                return False
        elif forms.items is not None and forms.scalar is None:
            olds, news = _as_list(left), _as_list(right)
            if forms.items.relation != "atomic" and (olds or news):
                self._lists(forms.items, olds, news, path)
                return False
        self._leaf(left, right, path)
        return True

    def _leaf(self, left: Json | Missing, right: Json | Missing, path: Path) -> None:
        if left is ABSENT:
            self.added.add(path)
        elif right is ABSENT:
            self.removed.add(path)
        elif not same(left, right):
            self.modified.add(path)

    def _lists(self, schema: ListSchema, olds: list[Json], news: list[Json], path: Path) -> None:
        before: dict[PathElement, list[Json]] = {}
        after: dict[PathElement, list[Json]] = {}
        for found, items in ((before, olds), (after, news)):
            for step, item in _elements(schema, items):
                found.setdefault(step, []).append(item)
        for step in before | after:
            left, right, below = before.get(step, []), after.get(step, []), (*path, step)
            if len(left) <= 1 and len(right) <= 1:
                self.visit(left[0] if left else ABSENT, right[0] if right else ABSENT, schema.element, below)
            elif len(left) > 1 and len(right) > 1:
                if not same(left, right):
                    self.modified.add(below)
            elif len(left) > 1:
                if right:
                    self.visit(ABSENT, right[0], schema.element, below)
                self.removed.add(below)
            else:
                if left:
                    self.visit(left[0], ABSENT, schema.element, below)
                self.added.add(below)


def _identical(left: Json, right: Json) -> bool:
    """Whether two values are the same for sure, decided in C; most of what is compared has not changed."""
    if left is right:
        return True
    # Python thinks that True equals 1, so its own word is not enough.
    return bool(left == right) and _ENCODER.encode(left) == _ENCODER.encode(right)


_ENCODER = msgspec.json.Encoder(order="deterministic")


def _complete_map(value: Json | Missing, schema: MapSchema) -> JsonObject:
    """One level of `completed`."""
    if not isinstance(value, dict):
        return {}
    return {**schema.present, **value} if schema.present else value


def _as_map(value: Json | Missing) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _as_list(value: Json | Missing) -> list[Json]:
    return value if isinstance(value, list) else []


# --- merge -----------------------------------------------------------------------------------------------------------


def merge(live: Json | Missing, config: Json | Missing, schema: TypeSchema) -> Json | Missing:
    """The live value with everything that the configuration sets; ABSENT if nothing is left."""
    forms = forms_of(schema, live if config is ABSENT else config)
    if forms.map is not None:
        before, after = _as_map(live), _as_map(config)
        if not forms.map.atomic and (before or after):
            merged = {}
            for name in before | after:
                item = merge(before.get(name, ABSENT), after.get(name, ABSENT), forms.map.child(name))
                if item is not ABSENT:
                    merged[name] = item
            return merged or ABSENT
    elif forms.items is not None and forms.scalar is None:
        olds, news = _as_list(live), _as_list(config)
        if forms.items.relation != "atomic" and (olds or news):
            return _merge_lists(forms.items, olds, news) or ABSENT
    return live if config is ABSENT else config


def _merge_lists(schema: ListSchema, olds: list[Json], news: list[Json]) -> list[Json]:
    """Elements merged by identity, in the order that `_interleaved` gives."""
    left = list(_elements(schema, olds))
    configured = dict(_elements(schema, news))
    existing: dict[PathElement, Json] = {}
    for step, item in left:
        # Elements that cannot be told apart do not merge: the configured one takes their place.
        existing[step] = None if step in existing else item
    merged = []
    for position in _interleaved([step for step, _ in left], list(configured)):
        if isinstance(position, int):
            item = merge(left[position][1], ABSENT, schema.element)
        else:
            item = merge(existing.get(position, ABSENT), configured[position], schema.element)
        if item is not ABSENT:
            merged.append(item)
    return merged


def _interleaved(left: list[PathElement], right: list[PathElement]) -> Iterator[int | PathElement]:
    """The merged order of two lists: positions of elements that only `left` has, and all elements of `right`.

    The right order wins for elements that both have; elements that only `left` has come as early as the left order
    allows, before or behind the shared elements that it has in common with the right order.
    """
    here, configured = set(left), set(right)
    shared = deque(step for step in right if step in here)
    done: set[PathElement] = set()
    at = 0
    for step in right:
        while at < len(left):
            other = left[at]
            if other not in configured:
                yield at
            elif other == step:
                at += 1
                break
            elif not shared or shared[0] == other:
                at += other in done
                break
            # What is left follows later, where the configuration has it.
            at += 1
        done.add(step)
        if shared and shared[0] == step:
            shared.popleft()
        yield step
    for position in range(at, len(left)):
        if left[position] not in configured:
            yield position


# --- remove ----------------------------------------------------------------------------------------------------------


def remove(value: Json, fields: FieldSet, schema: TypeSchema) -> Json:
    """The value without the given fields; a map or list that loses everything becomes null."""
    return _remove(value, Tree.of(fields), schema)


def _remove(value: Json, fields: Tree, schema: TypeSchema) -> Json:
    forms = forms_of(schema, value)
    if forms.map is not None:
        if not isinstance(value, dict) or forms.map.atomic:
            return None
        kept_map = {}
        for name, item in value.items():
            step = field_paths.field(name)
            if step not in fields.members:
                below = fields.children.get(step)
                kept_map[name] = item if below is None else _remove(item, below, forms.map.child(name))
        return kept_map or None
    if forms.scalar is not None:
        return value
    if forms.items is None or not isinstance(value, list) or forms.items.relation == "atomic":
        return None
    kept_list = []
    for step, item in _elements(forms.items, value):
        if step not in fields.members:
            below = fields.children.get(step)
            kept_list.append(item if below is None else _remove(item, below, forms.items.element))
    return kept_list or None
