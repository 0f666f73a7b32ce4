"""Operators, conversions and the standard functions, at run time."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from rota.api.cel import times, values
from rota.api.cel.values import (
    Duration,
    EvaluationError,
    Optional,
    Timestamp,
    Uint,
    checked_duration,
    checked_int,
    checked_uint,
    compare,
    equal,
    no_overload,
)
from rota.api.re2_matcher import PatternError, compile_pattern

Function = Callable[..., Any]


def _numbers(one: Any, other: Any) -> type | None:
    """The common type of two numbers; None if they have none."""
    kind = type(one)
    return kind if kind is type(other) and kind in (int, Uint, float) else None


def add(one: Any, other: Any) -> Any:
    """`_+_`."""
    kind = _numbers(one, other)
    if kind is int:
        return checked_int(one + other)
    if kind is float:
        return one + other
    if kind is Uint:
        return checked_uint(int(one) + int(other))
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    if isinstance(one, list) and isinstance(other, list):
        return _add_lists(one, other)
    if isinstance(one, bytes) and isinstance(other, bytes):
        return one + other
    if isinstance(one, Duration) and isinstance(other, Duration):
        return checked_duration(int(one) + int(other))
    if isinstance(one, Timestamp) and isinstance(other, Duration):
        return Timestamp(one.nanos + int(other), one.offset)
    if isinstance(one, Duration) and isinstance(other, Timestamp):
        return Timestamp(other.nanos + int(one), other.offset)
    raise no_overload(one, other)


def _add_lists(one: list[Any], other: list[Any]) -> list[Any]:
    if isinstance(one, values.SetList):
        result: list[Any] = values.SetList(one)
        result.extend(item for item in other if not any(equal(item, each) for each in one))
        return result
    if isinstance(one, values.MapList):
        merged = values.MapList(one.keys)
        merged.extend(one)
        places = {str(one.key(item)): number for number, item in enumerate(one)}
        for item in other:
            place = places.get(str(one.key(item)))
            if place is None:
                merged.append(item)
            else:
                merged[place] = item
        return merged
    return [*one, *other]


def subtract(one: Any, other: Any) -> Any:
    """`_-_`."""
    kind = _numbers(one, other)
    if kind is int:
        return checked_int(one - other)
    if kind is float:
        return one - other
    if kind is Uint:
        return checked_uint(int(one) - int(other))
    if isinstance(one, Duration) and isinstance(other, Duration):
        return checked_duration(int(one) - int(other))
    if isinstance(one, Timestamp) and isinstance(other, Duration):
        return Timestamp(one.nanos - int(other), one.offset)
    if isinstance(one, Timestamp) and isinstance(other, Timestamp):
        return checked_duration(one.nanos - other.nanos)
    raise no_overload(one, other)


def multiply(one: Any, other: Any) -> Any:
    """`_*_`."""
    kind = _numbers(one, other)
    if kind is int:
        return checked_int(one * other)
    if kind is float:
        return one * other
    if kind is Uint:
        return checked_uint(int(one) * int(other))
    raise no_overload(one, other)


def divide(one: Any, other: Any) -> Any:
    """`_/_`: integers are cut off towards zero."""
    kind = _numbers(one, other)
    if kind is float:
        if other == 0:
            if one == 0 or one != one:
                return math.nan
            return math.copysign(math.inf, one) * math.copysign(1, other)
        return one / other
    if kind is None:
        raise no_overload(one, other)
    if other == 0:
        raise EvaluationError("division by zero")
    quotient = abs(int(one)) // abs(int(other))
    if kind is Uint:
        return Uint(quotient)
    return checked_int(quotient if (one < 0) == (other < 0) else -quotient)


def modulo(one: Any, other: Any) -> Any:
    """`_%_`: the sign is that of the dividend."""
    kind = _numbers(one, other)
    if kind not in (int, Uint):
        raise no_overload(one, other)
    if other == 0:
        raise EvaluationError("modulus by zero")
    rest = abs(int(one)) % abs(int(other))
    return Uint(rest) if kind is Uint else (-rest if one < 0 else rest)


def negate(one: Any) -> Any:
    """`-_`."""
    if type(one) is int:
        return checked_int(-one)
    if type(one) is float:
        return -one
    raise no_overload(one)


def negation(one: Any) -> bool:
    """`!_`."""
    if not isinstance(one, bool):
        raise no_overload(one)
    return not one


def contained(one: Any, container: Any) -> bool:
    """`@in`: an element of a list, a key of a map."""
    if isinstance(container, dict):
        try:
            return values.to_key(one) in container
        except EvaluationError:
            return False
    if isinstance(container, list):
        return any(equal(one, each) for each in container)
    raise no_overload(container)


def index(container: Any, key: Any) -> Any:
    """`_[_]`."""
    if isinstance(container, Optional):
        return optional_index(container, key)
    if isinstance(container, list):
        number = _list_index(key)
        if not 0 <= number < len(container):
            raise EvaluationError(f"index out of bounds: {number}")
        return container[number]
    if isinstance(container, dict):
        found = container.get(values.to_key(key), _MISSING)
        if found is _MISSING:
            raise EvaluationError(f"no such key: {to_text(key) if not isinstance(key, str) else key}")
        return found
    raise no_overload(container)


_MISSING: Final = object()


def _list_index(key: Any) -> int:
    if isinstance(key, bool) or not isinstance(key, int | float) or isinstance(key, Duration):
        raise EvaluationError(f"unsupported index type '{values.type_of(key)}' in list")
    if isinstance(key, float) and not key.is_integer():
        raise EvaluationError(f"unsupported index value {key} in list")
    return int(key)


def optional_index(container: Any, key: Any) -> Optional:
    """`_[?_]`."""
    if isinstance(container, Optional):
        if not container.has:
            return values.NONE
        container = container.value
    if isinstance(container, list):
        number = _list_index(key)
        return Optional(container[number], has=True) if 0 <= number < len(container) else values.NONE
    if isinstance(container, dict):
        found = container.get(values.to_key(key), _MISSING)
        return values.NONE if found is _MISSING else Optional(found, has=True)
    raise no_overload(container)


def size(value: Any) -> int:
    """`size`."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise no_overload(value)


def to_bool(value: Any) -> bool:
    """`bool`."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value in ("1", "t", "T", "TRUE", "true", "True"):
            return True
        if value in ("0", "f", "F", "FALSE", "false", "False"):
            return False
        raise EvaluationError("type conversion error from 'string' to 'bool'")
    raise no_overload(value)


def to_bytes(value: Any) -> bytes:
    """`bytes`."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    raise no_overload(value)


def to_double(value: Any) -> float:
    """`double`."""
    if isinstance(value, str):
        try:
            return _float(value)
        except ValueError:
            raise EvaluationError("type conversion error from 'string' to 'double'") from None
    if isinstance(value, bool | Duration) or not isinstance(value, int | float):
        raise no_overload(value)
    return float(value)


def _float(text: str) -> float:
    if not text or text != text.strip() or "_" in text:
        raise ValueError(text)
    return float(text)


def to_int(value: Any) -> int:
    """`int`."""
    if isinstance(value, Timestamp):
        return value.nanos // 1_000_000_000
    if isinstance(value, str):
        return _parse_int(value, "int", -(2**63), 2**63)
    if isinstance(value, float):
        if not -(2.0**63) < value < 2.0**63:
            raise EvaluationError("integer overflow")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise no_overload(value)
    return checked_int(int(value))


def to_uint(value: Any) -> Uint:
    """`uint`."""
    if isinstance(value, str):
        return Uint(_parse_int(value, "uint", 0, 2**64))
    if isinstance(value, float):
        if not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    if isinstance(value, bool | Duration) or not isinstance(value, int):
        raise no_overload(value)
    return checked_uint(int(value))


def _parse_int(text: str, name: str, least: int, most: int) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if digits.isascii() and digits.isdigit() and len(digits) < 30 and not (name == "uint" and text[:1] in ("-", "+")):
        value = int(text)
        if least <= value < most:
            return value
    raise EvaluationError(f"type conversion error from 'string' to '{name}'")


def to_text(value: Any) -> str:
    """`string`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Duration):
        return times.seconds_text(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return times.float_text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, Timestamp) or hasattr(value, "cel_text"):
        return str(value)
    raise no_overload(value)


def to_duration(value: Any) -> Duration:
    """`duration`."""
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        return times.parse_duration(value)
    if type(value) is int:
        return Duration(value)
    raise no_overload(value)


def to_timestamp(value: Any) -> Timestamp:
    """`timestamp`."""
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        return times.parse_timestamp(value)
    if type(value) is int:
        return Timestamp(value * 1_000_000_000)
    raise no_overload(value)


def contains(text: Any, part: Any) -> bool:
    """`contains`."""
    return _strings(text, part) and part in text


def starts_with(text: Any, part: Any) -> bool:
    """`startsWith`."""
    return bool(_strings(text, part) and text.startswith(part))


def ends_with(text: Any, part: Any) -> bool:
    """`endsWith`."""
    return bool(_strings(text, part) and text.endswith(part))


def matches(text: Any, pattern: Any) -> bool:
    """`matches`: anywhere in the text."""
    _strings(text, pattern)
    try:
        return compile_pattern(pattern).search(text)
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def _strings(*all_values: Any) -> bool:
    if not all(isinstance(one, str) for one in all_values):
        raise no_overload(*all_values)
    return True


def _zone(name: str) -> tzinfo:
    sign = {"+": 1, "-": -1}.get(name[:1], 0)
    hours, colon, minutes = name.lstrip("+-").partition(":")
    if colon:
        try:
            return timezone((sign or 1) * timedelta(hours=int(hours), minutes=int(minutes)))
        except ValueError:
            raise EvaluationError(f"time zone must be of the form '(+|-)hh:mm': {name}") from None
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _clock(part: Callable[[datetime], int], seconds: int = 0) -> Function:
    """A getter of a timestamp in a zone, or of a whole duration in units of `seconds`."""

    def getter(value: Any, zone: Any = "UTC") -> int:
        if isinstance(value, Duration) and seconds:
            return (abs(int(value)) // (seconds * 1_000_000_000)) * (1 if value >= 0 else -1)
        if not isinstance(value, Timestamp) or not isinstance(zone, str):
            raise no_overload(value, zone)
        return part(value.moment().astimezone(_zone(zone)))

    return getter


def _milliseconds(value: Any, zone: Any = "UTC") -> int:
    if isinstance(value, Duration):
        return (abs(int(value)) // 1_000_000) * (1 if value >= 0 else -1)
    if not isinstance(value, Timestamp):
        raise no_overload(value)
    return value.nanos % 1_000_000_000 // 1_000_000


STANDARD: Final[Mapping[str, Function]] = {
    "_+_": add, "_-_": subtract, "_*_": multiply, "_/_": divide, "_%_": modulo, "-_": negate, "!_": negation,
    "_==_": equal, "_!=_": lambda one, other: not equal(one, other),
    "_<_": lambda one, other: compare(one, other) < 0, "_<=_": lambda one, other: compare(one, other) <= 0,
    "_>_": lambda one, other: compare(one, other) > 0, "_>=_": lambda one, other: compare(one, other) >= 0,
    "@in": contained, "_[_]": index, "_[?_]": optional_index, "size": size, "type": values.type_of,
    "bool": to_bool, "bytes": to_bytes, "double": to_double, "int": to_int, "uint": to_uint, "string": to_text,
    "duration": to_duration, "timestamp": to_timestamp, "dyn": lambda value: value,
    "contains": contains, "startsWith": starts_with, "endsWith": ends_with, "matches": matches,
    "getFullYear": _clock(lambda at: at.year), "getMonth": _clock(lambda at: at.month - 1),
    "getDayOfYear": _clock(lambda at: at.timetuple().tm_yday - 1), "getDayOfMonth": _clock(lambda at: at.day - 1),
    "getDate": _clock(lambda at: at.day), "getDayOfWeek": _clock(lambda at: at.isoweekday() % 7),
    "getHours": _clock(lambda at: at.hour, 3600), "getMinutes": _clock(lambda at: at.minute, 60),
    "getSeconds": _clock(lambda at: at.second, 1), "getMilliseconds": _milliseconds,
}  # fmt: skip
