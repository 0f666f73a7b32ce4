"""Functions of optional values, lists, sets and strings, at run time."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

from rota.api.cel import formatting
from rota.api.cel.operators import Function, add
from rota.api.cel.values import NONE, Duration, EvaluationError, Optional, Timestamp, Uint, compare, equal, no_overload

#: `lists.range` makes no longer lists; cost limits stop at less.
_MOST_RANGE: Final = 1_000_000
_SPACES: Final = "".join(
    chr(one)
    for one in (*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
)


def _is_zero(value: Any) -> bool:
    if value is None or value is False:
        return True
    if isinstance(value, Optional):
        return not value.has
    if isinstance(value, Timestamp):
        return False
    return isinstance(value, int | float | str | bytes | list | dict) and not value


def _value(optional: Any) -> Any:
    if not isinstance(optional, Optional):
        raise no_overload(optional)
    if not optional.has:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrapped(all_values: Any) -> list[Any]:
    return [one.value for one in _list(all_values) if isinstance(one, Optional) and one.has]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise no_overload(value)
    return value


def _int(value: Any) -> int:
    if type(value) is not int:
        raise no_overload(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise no_overload(value)
    return value


def _is_sorted(all_values: Any) -> bool:
    items = _list(all_values)
    return all(compare(one, other) <= 0 for one, other in itertools.pairwise(items))


def _sum(all_values: Any) -> Any:
    items = _list(all_values)
    if not items:
        return 0
    total = items[0]
    for one in items[1:]:
        total = add(total, one)
    return total


def _extreme(name: str, sign: int) -> Function:
    def extreme(all_values: Any) -> Any:
        items = _list(all_values)
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for one in items[1:]:
            if compare(one, best) * sign > 0:
                best = one
        return best

    return extreme


def _index_of(value: Any, wanted: Any, start: Any = 0) -> int:
    if isinstance(value, list):
        return next((number for number, one in enumerate(value) if equal(one, wanted)), -1)
    text, start = _text(value), _int(start)
    if _text(wanted) == "":
        return int(start)
    if not 0 <= start < max(len(text), 1):
        raise EvaluationError(f"index out of range: {start}")
    return text.find(wanted, start)


def _last_index_of(value: Any, wanted: Any, start: Any = None) -> int:
    if isinstance(value, list):
        return next((number for number in range(len(value) - 1, -1, -1) if equal(value[number], wanted)), -1)
    text = _text(value)
    last = len(text) if start is None else _int(start)
    if _text(wanted) == "":
        return last
    if start is not None and not 0 <= last < len(text):
        raise EvaluationError(f"index out of range: {last}")
    return text.rfind(wanted, 0, last + len(wanted))


def _slice(all_values: Any, start: Any, end: Any) -> list[Any]:
    items, start, end = _list(all_values), _int(start), _int(end)
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(all_values: Any, depth: Any = 1) -> list[Any]:
    if _int(depth) < 0:
        raise EvaluationError("level must be non-negative")
    found = list(_list(all_values))
    for _ in range(depth):
        if not any(isinstance(one, list) for one in found):
            break
        found = [each for one in found for each in (one if isinstance(one, list) else (one,))]
    return found


def _range(count: Any) -> list[int]:
    if _int(count) > _MOST_RANGE:
        raise EvaluationError(f"lists.range({count}): lists of at most {_MOST_RANGE} elements are supported")
    return list(range(count))


def _distinct(all_values: Any) -> list[Any]:
    found: list[Any] = []
    for one in _list(all_values):
        if not any(equal(one, each) for each in found):
            found.append(one)
    return found


def _sort(all_values: Any) -> list[Any]:
    return _sort_by(all_values, all_values)


def _sort_by(all_values: Any, keys: Any) -> list[Any]:
    items, order = _list(all_values), _list(keys)
    kinds = {type(one) for one in order}
    if len(kinds) > 1:
        raise EvaluationError("list elements must have the same type")
    if not kinds <= {bool, int, Uint, float, str, bytes, Duration, Timestamp}:
        raise EvaluationError("list elements must be comparable")
    sortable = [one.nanos if isinstance(one, Timestamp) else one for one in order]
    return [items[number] for number in sorted(range(len(items)), key=sortable.__getitem__)]


def _contains_all(one: Any, other: Any) -> bool:
    container = _list(one)
    return all(any(equal(item, each) for each in container) for item in _list(other))


def _char_at(text: Any, at: Any) -> str:
    if not 0 <= _int(at) <= len(_text(text)):
        raise EvaluationError(f"index out of range: {at}")
    return str(text[at : at + 1])


def _replace(text: Any, old: Any, new: Any, count: Any = -1) -> str:
    return _text(text).replace(_text(old), _text(new), max(_int(count), -1))


def _split(text: Any, separator: Any, count: Any = -1) -> list[str]:
    if _int(count) == 0:
        return []
    if _text(separator) == "":
        letters = list(_text(text))
        return letters if count < 0 or count >= len(letters) else [*letters[: count - 1], "".join(letters[count - 1 :])]
    return _text(text).split(separator, count - 1 if count > 0 else -1)


def _substring(text: Any, start: Any, end: Any = None) -> str:
    size = len(_text(text))
    last = size if end is None else _int(end)
    if end is not None and _int(start) > last:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {last}")
    if not 0 <= _int(start) <= size:
        raise EvaluationError(f"index out of range: {start}")
    if not 0 <= last <= size:
        raise EvaluationError(f"index out of range: {last}")
    return str(text[start:last])


def _join(all_values: Any, separator: Any = "") -> str:
    return _text(separator).join(_text(one) for one in _list(all_values))


def _ascii(upper: bool) -> Function:
    letters = {
        ord(one): ord(one.upper() if upper else one.lower())
        for one in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    }
    return lambda text: _text(text).translate(letters)


def _insert(target: Any, *entry: Any) -> dict[Any, Any]:
    result = dict(target)
    pairs = entry[0].items() if len(entry) == 1 else [entry]
    for key, value in pairs:
        if key in result:
            raise EvaluationError(f"insert failed: key {key} already exists")
        result[key] = value
    return result


def _intersects(one: Any, other: Any) -> bool:
    items = _list(other)
    return any(any(equal(item, each) for each in items) for item in _list(one))


COLLECTIONS: Final[Mapping[str, Function]] = {
    "optional.of": lambda value: Optional(value, has=True),
    "optional.ofNonZeroValue": lambda value: NONE if _is_zero(value) else Optional(value, has=True),
    "optional.none": lambda: NONE,
    "value": _value,
    "hasValue": lambda one: one.has,
    "optional.unwrap": _unwrapped, "unwrapOpt": _unwrapped,
    "first": lambda one: Optional(one[0], has=True) if _list(one) else NONE,
    "last": lambda one: Optional(one[-1], has=True) if _list(one) else NONE,
    "isSorted": _is_sorted, "sum": _sum, "min": _extreme("min", -1), "max": _extreme("max", 1),
    "indexOf": _index_of, "lastIndexOf": _last_index_of,
    "slice": _slice, "flatten": _flatten, "lists.range": _range, "reverse": lambda one: _list(one)[::-1],
    "distinct": _distinct, "sort": _sort, "@sortByAssociatedKeys": _sort_by,
    "sets.contains": _contains_all, "sets.intersects": _intersects,
    "sets.equivalent": lambda one, other: _contains_all(one, other) and _contains_all(other, one),
    "charAt": _char_at, "lowerAscii": _ascii(upper=False), "upperAscii": _ascii(upper=True), "replace": _replace,
    "split": _split, "substring": _substring, "trim": lambda text: _text(text).strip(_SPACES), "join": _join,
    "format": formatting.format_text, "strings.quote": lambda text: formatting.quote(_text(text)),
    "cel.@mapInsert": _insert,
}  # fmt: skip
