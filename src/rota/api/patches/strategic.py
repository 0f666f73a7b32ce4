"""Strategic merge patch: a merge patch that knows which lists merge, and by which key.

Maps merge, null deletes, lists are replaced unless their field says `merge`: then elements merge by their key, and
scalars are added. Directives inside the patch steer this:

    $patch: replace | delete        this map (or list element, or whole list) is replaced or deleted
    $retainKeys: [...]              of this map only these keys stay
    $setElementOrder/<list>         the order of the merged list, as keys or scalars
    $deleteFromPrimitiveList/<list> scalars to take out of the list

Merged lists keep three orders, the first strongest: $setElementOrder, the patch, the live list. Behaviour and messages
follow k8s.io/apimachinery strategicpatch v0.37; where that depends on Go's random map order, or crashes, the order is
fixed (lists merge before scalars are deleted) or a MalformedPatch says what is wrong.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rota.api.patches import element_order
from rota.api.patches.errors import MalformedPatch, refuses_deep_nesting
from rota.api.patches.json_values import Json, JsonObject, copy, shown, token, type_name
from rota.api.patches.schemas import DEDUCED, Field, TypeSchema

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
SET_ELEMENT_ORDER = "$setElementOrder"
DELETE_FROM_PRIMITIVE_LIST = "$deleteFromPrimitiveList"
#: What every directive begins with, as it stands in JSON.
_DOLLAR: Final = b'"$'
_encode: Final = msgspec.json.Encoder().encode


@refuses_deep_nesting
def apply(original: JsonObject, patch: JsonObject, schema: TypeSchema) -> JsonObject:
    """The object that `patch` makes of `original`; neither is changed, and the result shares nothing with them."""
    if not isinstance(patch, dict):
        raise MalformedPatch("invalid JSON document")
    merged: Json = _merge_map(copy(original), copy(patch), schema)
    if _may_hold_directives(merged):
        merged = _without_list_directives(merged)
    assert isinstance(merged, dict), "maps merge to maps"
    return merged


def _merge_map(original: JsonObject, patch: JsonObject, schema: TypeSchema) -> JsonObject:
    """Merge in place; both maps are ours to change."""
    if DIRECTIVE in patch:
        return _whole_map(patch)
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(SET_ELEMENT_ORDER)]:
        _merge_in_order(original, patch, key, schema)
    deletions = {key: patch.pop(key) for key in list(patch) if key.startswith(DELETE_FROM_PRIMITIVE_LIST)}
    for key, change in patch.items():
        if change is None:
            original.pop(key, None)
            continue
        current = original.get(key)
        if isinstance(current, dict) and isinstance(change, dict):
            original[key] = _merge_maps_of_field(current, change, _field(schema, key))
        elif isinstance(current, list) and isinstance(change, list):
            original[key] = _merge_lists(current, change, _field(schema, key))
        else:
            _set(original, key, change)
    for key, unwanted in deletions.items():
        _delete_from_primitive_list(original, key, unwanted)
    return original


def _field(schema: TypeSchema, key: str) -> Field:
    """What the schema says of a field that is in both the object and the patch."""
    shape = schema.map
    if shape is None:
        return Field(type=DEDUCED)
    declared = shape.fields.get(key)
    if declared is not None:
        return declared
    if shape.element is not None:
        return Field(type=shape.element)
    raise MalformedPatch(f'unable to find api field in struct {schema.name} for the json field "{key}"')


def _whole_map(patch: JsonObject) -> JsonObject:
    directive = patch.pop(DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    patch[DIRECTIVE] = directive
    raise MalformedPatch(f"unknown patch type: {shown(directive)} in map: {shown(patch)}")


def _set(original: JsonObject, key: str, change: Json) -> None:
    """Take the patch's value as it is, without its nulls and without what it marks with a directive."""
    _drop_nulls(change)
    if isinstance(change, dict) and DIRECTIVE in change:
        original.pop(key, None)
    else:
        original[key] = _without_marked(change)


def _drop_nulls(value: Json) -> None:
    if isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
        for item in value.values():
            _drop_nulls(item)
    elif isinstance(value, list):
        for item in value:
            _drop_nulls(item)


def _without_marked(value: Json) -> Json:
    """The value without the maps in it that carry a directive: there is nothing that they could act upon."""
    if isinstance(value, dict):
        return {key: _without_marked(item) for key, item in value.items() if not _is_marked(item)}
    if isinstance(value, list):
        return [_without_marked(item) for item in value if not _is_marked(item)]
    return value


def _is_marked(value: Json) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value


def _may_hold_directives(value: Json) -> bool:
    """Whether to look for directives key by key, which costs more than all the rest."""
    try:
        return _DOLLAR in _encode(value)
    except (ValueError, TypeError, OverflowError):
        return True  # what has no form in JSON is found out by those who want to store it


def _without_list_directives(value: Json) -> Json:
    """Drop the list directives of parts of the patch that were new to the object and so taken as they are."""
    if isinstance(value, dict):
        return {
            key: _without_list_directives(item)
            for key, item in value.items()
            if key != RETAIN_KEYS and not key.startswith((f"{SET_ELEMENT_ORDER}/", f"{DELETE_FROM_PRIMITIVE_LIST}/"))
        }
    if isinstance(value, list):
        return [_without_list_directives(item) for item in value]
    return value


def _retain_keys(original: JsonObject, patch: JsonObject) -> None:
    if RETAIN_KEYS not in patch:
        return
    keys = patch.pop(RETAIN_KEYS)
    if not isinstance(keys, list):
        raise MalformedPatch("invalid patch format of retainKeys")
    for key, change in patch.items():
        is_directive = key.startswith((SET_ELEMENT_ORDER, DELETE_FROM_PRIMITIVE_LIST))
        if change is not None and not is_directive and key not in keys:
            raise MalformedPatch("invalid patch format of retainKeys")
    for key in [key for key in original if key not in keys]:
        del original[key]


# --- maps and lists --------------------------------------------------------------------------------------------------


def _merge_maps_of_field(current: JsonObject, change: JsonObject, field: Field) -> JsonObject:
    if "replace" in field.strategies:
        return change
    return _merge_map(current, change, field.type)


def _merge_lists(current: list[Json], change: list[Json], field: Field) -> list[Json]:
    if "merge" not in field.strategies or not (current or change):
        return change
    if not _holds_maps(current, change):
        merged = _distinct(current + change)
        return element_order.interleaved(merged, patch_order=change, live_order=current, merge_key="")
    key = field.merge_key
    if not key:
        raise MalformedPatch("cannot merge lists without merge key")
    live, patched, replaced = _list_directives(current, change, key)
    if replaced:
        return patched
    merged = _merge_elements(live, patched, field)
    return element_order.interleaved(merged, patch_order=patched, live_order=live, merge_key=key)


def _holds_maps(*lists: list[Json]) -> bool:
    """Whether the elements are maps; lists in which elements differ in type, or are lists, do not merge."""
    types = {type_name(item) for items in lists for item in items}
    if type_name([]) in types:
        raise MalformedPatch("lists of lists are not supported")
    if len(types) > 1 or None in [item for items in lists for item in items]:
        raise MalformedPatch(f"list element types are not identical: {shown(list(lists))}")
    return types == {type_name({})}


def _distinct(items: list[Json]) -> list[Json]:
    return list({token(item): item for item in reversed(items)}.values())[::-1]


def _list_directives(current: list[Json], change: list[Json], key: str) -> tuple[list[Json], list[Json], bool]:
    """Carry out `$patch` elements: the live list without deleted elements, the patch's ordinary elements, and whether
    the patch replaces the list."""
    ordinary = []
    unwanted = set()
    replaced = False
    for item in change:
        if DIRECTIVE not in item:
            ordinary.append(item)
            continue
        match item[DIRECTIVE]:
            case "delete":
                unwanted.add(token(element_order.key_value(item, key)))
            case "replace":
                replaced = True
            case "merge":
                raise MalformedPatch("merging lists cannot yet be specified in the patch")
            case directive:
                raise MalformedPatch(f"unknown patch type: {shown(directive)} in map: {shown(item)}")
    live = [item for item in current if key not in item or token(item[key]) not in unwanted]
    return live, ordinary, replaced


def _merge_elements(live: list[Json], patched: list[Json], field: Field) -> list[Json]:
    merged = list(live)
    element = field.type.items.element if field.type.items is not None else DEDUCED
    # The first element with a key is the one that merges.
    places = {
        token(item[field.merge_key]): at for at, item in reversed(list(enumerate(live))) if field.merge_key in item
    }
    for item in patched:
        place = places.setdefault(token(element_order.key_value(item, field.merge_key)), len(merged))
        if place < len(merged):
            merged[place] = _merge_map(merged[place], item, element)
        else:
            merged.append(item)
    return merged


# --- list directives beside a list -----------------------------------------------------------------------------------


def _named_list(key: str, prefix: str, complaint: str) -> str:
    """The field that `$directive/field` speaks of."""
    directive, slash, name = key.partition("/")
    if directive != prefix or not slash:
        raise MalformedPatch(complaint)
    return name


def _merge_in_order(original: JsonObject, patch: JsonObject, key: str, schema: TypeSchema) -> None:
    """Merge a list and put it into the order that the patch asks for."""
    order = patch.pop(key)
    if not isinstance(order, list):
        raise MalformedPatch(f"expected a []interface {{}}, but received a {type_name(order)}")
    name = _named_list(key, SET_ELEMENT_ORDER, "invalid patch format of setElementOrder list")
    for holder in (original, patch):
        if name in holder and not isinstance(holder[name], list):
            raise MalformedPatch(f"expected a []interface {{}}, but received a {type_name(holder[name])}")
    field = _field(schema, name)
    live: list[Json] = original.get(name, [])
    change: list[Json] = patch.get(name, [])
    element_order.check(change, order, field.merge_key)
    if name in original and name in patch:
        merged = _merge_lists(list(live), change, field)
    elif name in patch:
        merged = _without_marked(change)
    else:
        merged = list(live)
    patch.pop(name, None)
    if live or change:
        original[name] = element_order.interleaved(
            merged, patch_order=order, live_order=live, merge_key=field.merge_key if _holds_maps(live, change) else ""
        )


def _delete_from_primitive_list(original: JsonObject, key: str, unwanted: Json) -> None:
    name = _named_list(key, DELETE_FROM_PRIMITIVE_LIST, "invalid patch format of primitive list")
    if unwanted is None:
        original.pop(name, None)
        return
    current = original.get(name)
    if not isinstance(current, list) or not isinstance(unwanted, list) or not (current or unwanted):
        return
    if _holds_maps(current, unwanted):
        raise MalformedPatch("invalid patch format of primitive list")
    tokens = {token(item) for item in unwanted}
    original[name] = [item for item in current if token(item) not in tokens]
