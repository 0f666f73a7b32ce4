"""Validates values against a schema, with upstream's results and messages.

A schema is compiled once into functions, one for each node of it. A function returns how much of the schema a value
matched: if none of several alternatives fits, the errors of the best match are reported, and upstream counts in this
way. Errors are keyed by their text, so there are no duplicates. Unknown fields are not checked here (`pruning` has
removed them), nor is the uniqueness of lists (`uniqueness`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import fields, gotext, re2_matcher
from rota.api.fields import FieldError
from rota.apiserver.crd import formats
from rota.apiserver.crd.structure import JsonSchema

#: Errors by their text.
Complaints: TypeAlias = dict[str, FieldError]
#: Checks a value at a path and returns how many parts of the schema it matched.
Check: TypeAlias = Callable[[Any, str, Complaints], int]

_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)
#: The largest integer that a JavaScript number represents exactly.
_SAFE: Final = 2**53 - 1
#: A number as Go decodes it, which messages show.
_sorted_json: Final = msgspec.json.Encoder(order="sorted")
_JSON_TYPES: Final = {str: "string", dict: "object", list: "array", bool: "boolean", float: "number"}
_GO_FORMATS: Final = {"integer": "int64", "number": "float64"}


def compile_value(schema: JsonSchema) -> Callable[[Any], list[FieldError]]:
    """A function that lists the errors of a value; paths begin at the value."""
    check = _compile(schema)

    def check_value(value: Any) -> list[FieldError]:
        complaints: Complaints = {}
        check(value, "", complaints)
        return list(complaints.values())

    return check_value


def _compile(schema: JsonSchema) -> Check:
    types = _types(schema)
    format_name = _known_format(schema, types)
    nullable = schema.get("nullable") is True
    check_type = _type_check(types, format_name) if types or format_name else None
    check_enum = _enum_check(schema["enum"]) if schema.get("enum") else None
    combined = _combination(schema)
    by_type = {
        "string": _string_check(schema, format_name),
        "number": _number_check(schema, types, format_name),
        "array": _array_check(schema),
        "object": _object_check(schema),
    }

    def check(value: Any, path: str, complaints: Complaints) -> int:
        if value is None:
            if types and not nullable:
                _complain_of_type(path, ",".join(types), "null", complaints)
            if check_enum is not None:
                check_enum(value, path, complaints)
            return int(not types or nullable)
        kind = _json_type(value)
        met = 1
        if check_type is not None:
            met += 1 + check_type(value, kind, path, complaints)
        met += 2 if combined is None else 2 + combined(value, path, complaints)
        own = by_type.get("number" if kind == "integer" else kind)
        if own is not None:
            met += 1 + own(value, path, complaints)
        if check_enum is not None:
            check_enum(value, path, complaints)
        return met + 1

    return check


def _types(schema: JsonSchema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string") is True:
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _known_format(schema: JsonSchema, types: tuple[str, ...]) -> str:
    """The format if it is checked for the type."""
    name: str = schema.get("format") or ""
    match types:
        case ("integer",):
            return name if name in {"int32", "int64"} else ""
        case ("number",):
            return name if name in {"float", "double"} else ""
        case () | ("string",) | (_, _):
            return name if formats.lookup(name) else ""
    return ""


def _json_type(value: Any) -> str:
    if value.__class__ is int:
        # larger ones are floats in Go
        return "integer" if value in _INT64 else "number"
    return _JSON_TYPES[value.__class__]


def _type_check(types: tuple[str, ...], format_name: str) -> Callable[[Any, str, str, Complaints], int]:
    numeric = "number" in types or "integer" in types

    def check(value: Any, kind: str, path: str, complaints: Complaints) -> int:
        fits = kind in types or (kind == "integer" and "number" in types)
        if not fits and kind == "number" and "integer" in types:
            fits = math.isfinite(value) and abs(value) <= _SAFE and float(value).is_integer()
        if fits:
            return 1
        go_format = _GO_FORMATS.get(kind, "")
        if format_name and kind not in {"string", "array"}:
            if go_format == format_name:
                return 1
            _complain_of_type(path, format_name, go_format, complaints)
            return 0
        if format_name and not numeric:
            # the check of the format follows
            return 1
        _complain_of_type(path, ",".join(types), kind, complaints)
        return 0

    return check


def _enum_check(allowed: Sequence[Any]) -> Check:
    shown = [one if isinstance(one, str) else _sorted_json.encode(_go_numbers(one)).decode() for one in allowed]

    def check(value: Any, path: str, complaints: Complaints) -> int:
        if value is None or not any(_equal(value, one) for one in allowed):
            _complain(fields.not_supported(_path(path), shown_value(value), shown), complaints)
        return 0

    return check


def _equal(value: Any, other: Any) -> bool:
    """Equality of JSON: true is not 1."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return bool(value == other)


def _string_check(schema: JsonSchema, format_name: str) -> Check | None:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    search = re2_matcher.compile_pattern(pattern).search if pattern else None
    of_format = formats.lookup(format_name) if format_name else None

    def check(value: str, path: str, complaints: Complaints) -> int:
        # of the three only the first violation is reported
        if longest is not None and len(value) > longest:
            _complain(fields.too_long(_path(path), int(longest)), complaints)
        elif shortest is not None and len(value) < shortest:
            _say(path, value, f"should be at least {int(shortest)} chars long", complaints)
        elif search is not None and not search(value):
            _say(path, value, f"should match '{pattern}'", complaints)
        if of_format is not None:
            if not of_format(value):
                detail = f"{path} in body must be of type {format_name}: {gotext.quote(value)}"
                _complain(fields.type_invalid(_path(path), value, detail), complaints)
            return 1
        return 0

    return check


def _number_check(schema: JsonSchema, types: tuple[str, ...], format_name: str) -> Check:
    bounds = _Bounds(schema)
    whole_bounds = bounds.truncated()
    range_ = (_INT32 if format_name == "int32" else _INT64) if types == ("integer",) else None
    named = f"with format {format_name}" if format_name else "(default format)"

    def check(value: float, path: str, complaints: Complaints) -> int:
        if range_ is not None and not (math.isfinite(value) and value == int(value) and int(value) in range_):
            _complain_loosely(f"Checked value must be of type integer {named} in {path}", complaints)
        # Go compares integers with integers, so the fraction of a bound is lost
        whole = isinstance(value, int) and value in _INT64
        (whole_bounds if whole else bounds).check(value, path, complaints)
        return 1

    return check


class _Bounds:
    """Minimum, maximum and multipleOf of a number."""

    __slots__ = ("_above", "_below", "_factor", "_maximum", "_minimum")

    def __init__(self, schema: JsonSchema) -> None:
        self._maximum: float | None = schema.get("maximum")
        self._minimum: float | None = schema.get("minimum")
        self._factor: float | None = schema.get("multipleOf")
        self._below = schema.get("exclusiveMaximum") is True
        self._above = schema.get("exclusiveMinimum") is True

    def truncated(self) -> "_Bounds":
        """The same for integers."""
        whole = _Bounds({"exclusiveMaximum": self._below, "exclusiveMinimum": self._above})
        whole._maximum, whole._minimum, whole._factor = map(_truncated, (self._maximum, self._minimum, self._factor))
        return whole

    def check(self, value: float, path: str, complaints: Complaints) -> None:
        """Report values out of bounds."""
        factor, minimum, maximum = self._factor, self._minimum, self._maximum
        if factor is not None and factor <= 0:
            detail = f"factor MultipleOf declared for {path} must be positive: {gotext.plain(factor)}"
            _complain(fields.invalid(_path(path), factor, detail), complaints)
        elif factor is not None and not _is_multiple(value, factor):
            _say(path, value, f"should be a multiple of {gotext.plain(factor)}", complaints)
        if minimum is not None and (value <= minimum if self._above else value < minimum):
            words = "greater than" if self._above else "greater than or equal to"
            _say(path, value, f"should be {words} {gotext.plain(minimum)}", complaints)
        if maximum is not None and (value >= maximum if self._below else value > maximum):
            words = "less than" if self._below else "less than or equal to"
            _say(path, value, f"should be {words} {gotext.plain(maximum)}", complaints)


def _truncated(bound: float | None) -> int | None:
    return None if bound is None else int(bound)


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    quotient = value / factor
    return math.isfinite(quotient) and math.isclose(quotient, round(quotient), rel_tol=1e-9, abs_tol=1e-9)


def _array_check(schema: JsonSchema) -> Check:
    check_item = _compile(schema["items"]) if isinstance(schema.get("items"), dict) else None
    most, least = schema.get("maxItems"), schema.get("minItems")

    def check(value: list[Any], path: str, complaints: Complaints) -> int:
        met = 1
        if check_item is not None:
            for position, item in enumerate(value):
                met += check_item(item, f"{path}[{position}]", complaints)
        if least is not None and len(value) < least:
            _say(path, len(value), f"should have at least {int(least)} items", complaints)
        if most is not None and len(value) > most:
            _complain(fields.too_many(_path(path), len(value), int(most)), complaints)
        return met

    return check


def _object_check(schema: JsonSchema) -> Check:
    properties = {name: _compile(part) for name, part in (schema.get("properties") or {}).items()}
    additional = schema.get("additionalProperties")
    check_additional = _compile(additional) if isinstance(additional, dict) else None
    plain = _plain_fields(schema.get("properties") or {}, properties)
    required: Sequence[str] = schema.get("required") or ()
    most, least = schema.get("maxProperties"), schema.get("minProperties")

    def check(value: dict[str, Any], path: str, complaints: Complaints) -> int:
        met = 0
        if least is not None and len(value) < least:
            _say(path, len(value), f"should have at least {int(least)} properties", complaints)
        if most is not None and len(value) > most:
            _complain(fields.too_many(_path(path), len(value), int(most)), complaints)
        for name, item in value.items():
            known = plain.get((name, item.__class__))
            if known is not None:
                met += known
                continue
            check_field = properties.get(name) or check_additional
            if check_field is not None:
                met += check_field(item, f"{path}.{name}" if path else name, complaints)
            elif additional is False:
                _say(path, "", f"is a forbidden property: {name}", complaints)
        for name in required:
            if name not in value:
                _complain(fields.required(_path(f"{path}.{name}" if path else name)), complaints)
        return met

    return check


#: What a schema may say besides a type without a value of that type ever breaking it.
_UNCHECKED: Final = frozenset({"type", "description", "title", "default", "nullable", "example", "externalDocs"})
_PLAIN: Final = {"string": "", "boolean": False}


def _plain_fields(schemas: Mapping[str, JsonSchema], checks: Mapping[str, Check]) -> dict[tuple[str, type], int]:
    """What texts and booleans match that need no check but that of their type, by name and type; most fields do."""
    found = {}
    for name, schema in schemas.items():
        example = _PLAIN.get(schema.get("type") or "")
        if example is not None and schema.keys() <= _UNCHECKED:
            found[name, example.__class__] = checks[name](example, "", {})
    return found


def _combination(schema: JsonSchema) -> Check | None:
    any_of = [_compile(one) for one in schema.get("anyOf") or ()]
    one_of = [_compile(one) for one in schema.get("oneOf") or ()]
    all_of = [_compile(one) for one in schema.get("allOf") or ()]
    not_ = _compile(schema["not"]) if schema.get("not") is not None else None
    if not (any_of or one_of or all_of or not_):
        return None

    def check(value: Any, path: str, complaints: Complaints) -> int:
        met = _check_any(any_of, value, path, complaints) if any_of else 0
        met += _check_one(one_of, value, path, complaints) if one_of else 0
        met += _check_all(all_of, value, path, complaints) if all_of else 0
        if not_ is not None:
            broken: Complaints = {}
            not_(value, path, broken)
            if not broken:
                _complain_loosely(f'"{path}" must not validate the schema (not)', complaints)
        return met

    return check


def _check_any(alternatives: list[Check], value: Any, path: str, complaints: Complaints) -> int:
    best, best_met = None, -1
    for alternative in alternatives:
        broken: Complaints = {}
        met = alternative(value, path, broken)
        if not broken:
            return met
        if met > best_met:
            best, best_met = broken, met
    _complain_loosely(f'"{path}" must validate at least one schema (anyOf)', complaints)
    _merge(best or {}, complaints)
    return best_met


def _check_one(alternatives: list[Check], value: Any, path: str, complaints: Complaints) -> int:
    best, best_met, fitting = None, -1, []
    for alternative in alternatives:
        broken: Complaints = {}
        met = alternative(value, path, broken)
        if not broken:
            fitting.append(met)
        elif not fitting and met > best_met:
            best, best_met = broken, met
    if len(fitting) == 1:
        return fitting[0]
    found = f"Found {len(fitting)} valid alternatives" if fitting else "Found none valid"
    _complain_loosely(f'"{path}" must validate one and only one schema (oneOf). {found}', complaints)
    if fitting:
        return 0
    _merge(best or {}, complaints)
    return best_met


def _check_all(parts: list[Check], value: Any, path: str, complaints: Complaints) -> int:
    met, valid = 0, 0
    for part in parts:
        broken: Complaints = {}
        met += part(value, path, broken)
        valid += not broken
        _merge(broken, complaints)
    if valid != len(parts):
        none = "" if valid else ". None validated"
        _complain_loosely(f'"{path}" must validate all the schemas (allOf){none}', complaints)
    return met


def shown_value(value: Any) -> object:
    """A value as messages show it: null, lists and objects as JSON with sorted keys, and numbers as Go writes them."""
    if value is None or isinstance(value, dict | list):
        return fields.Literal(_sorted_json.encode(_go_numbers(value)).decode())
    return value


def _go_numbers(value: Any) -> Any:
    match value:
        case dict():
            return {name: _go_numbers(item) for name, item in value.items()}
        case list():
            return [_go_numbers(item) for item in value]
        case float() if value.is_integer() and abs(value) < 1e21:
            return int(value)
    return value


def _path(text: str) -> fields.Path:
    return fields.Path(text)


def _complain(error: FieldError, complaints: Complaints) -> None:
    complaints.setdefault(str(error), error)


def _merge(some: Complaints, complaints: Complaints) -> None:
    for text, error in some.items():
        complaints.setdefault(text, error)


def _say(path: str, value: object, words: str, complaints: Complaints) -> None:
    _complain(fields.invalid(_path(path), value, f"{path} in body {words}"), complaints)


def _complain_loosely(words: str, complaints: Complaints) -> None:
    """An error about the object as a whole; the message names the place."""
    _complain(fields.invalid(fields.ROOT, "", words), complaints)


def _complain_of_type(path: str, wanted: str, found: str, complaints: Complaints) -> None:
    detail = f"{path} in body must be of type {wanted}: {gotext.quote(found)}"
    _complain(fields.type_invalid(_path(path), found, detail), complaints)
