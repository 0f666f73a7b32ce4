"""Values at run time: what JSON does not have, equality, order, sizes and texts.

JSON's values are Python's: bool, int, float, str, list, dict, None. An object with declared fields is an `ObjectValue`,
whose keys are the names as expressions write them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from rota.api.cel import types
from rota.api.cel.types import Type
from rota.api.quantities import Quantity

_LEAST_INT: Final = -(2**63)
_MOST_INT: Final = 2**63 - 1
_MOST_UINT: Final = 2**64 - 1
_SECOND: Final = 1_000_000_000
#: Timestamps are years 1 to 9999, in seconds since 1970.
_LEAST_TIME: Final = -62135596800
_MOST_TIME: Final = 253402300799


class EvaluationError(Exception):
    """Evaluation failed; the text is the stock server's."""


class CostExceeded(EvaluationError):
    """Evaluation cost more than its limit."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def no_overload(*_: object) -> EvaluationError:
    """A function was called with values that it does not take."""
    return EvaluationError("no such overload")


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


class Duration(int):
    """A duration in nanoseconds."""

    __slots__ = ()


class Timestamp:
    """A moment in nanoseconds since 1970; `offset` in seconds is kept for its text only."""

    __slots__ = ("nanos", "offset")

    def __init__(self, nanos: int, offset: int = 0) -> None:
        if not _LEAST_TIME <= nanos // _SECOND <= _MOST_TIME:
            raise EvaluationError("timestamp overflow")
        self.nanos: Final = nanos
        self.offset: Final = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def moment(self, zone: timezone | None = None) -> datetime:
        """The date and time without its fraction of a second, in a zone (else UTC)."""
        seconds = self.nanos // _SECOND
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone or UTC)

    def __str__(self) -> str:
        moment = self.moment(timezone(timedelta(seconds=self.offset)))
        fraction = f"{self.nanos % _SECOND:09d}".rstrip("0")
        zone = "Z" if self.offset == 0 else f"{moment.isoformat()[-6:]}"
        return f"{moment.year:04d}{moment:-%m-%dT%H:%M:%S}{'.' + fraction if fraction else ''}{zone}"


class Optional:
    """An optional value."""

    __slots__ = ("has", "value")

    def __init__(self, value: Any = None, *, has: bool) -> None:
        self.has: Final = has
        self.value: Final = value


NONE: Final = Optional(has=False)


class ObjectValue(dict[str, Any]):
    """An object with declared fields; keys are escaped names."""

    __slots__ = ("type",)

    def __init__(self, type_name: str) -> None:
        super().__init__()
        self.type: Final = type_name


class SetList(list[Any]):
    """A list whose order does not matter for equality (`x-kubernetes-list-type: set`)."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of objects that are told apart by keys (`x-kubernetes-list-type: map`)."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__()
        self.keys: Final = keys

    def key(self, item: Any) -> tuple[Any, ...]:
        """What tells an item apart."""
        return tuple(item.get(one) if isinstance(item, dict) else None for one in self.keys)


class BoolKey:
    """A bool as the key of a map: to Python, True and 1 are the same key."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value: Final = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoolKey) and self.value is other.value

    def __hash__(self) -> int:
        return 2 + self.value


def to_key(value: Any) -> Any:
    """A value as the key of a dict."""
    if isinstance(value, bool):
        return BoolKey(value)
    if isinstance(value, str | int | float):
        return value
    raise EvaluationError(f"unsupported key type: {type_of(value)}")


def from_key(key: Any) -> Any:
    """The value that a key of a dict stands for."""
    return key.value if isinstance(key, BoolKey) else key


def checked_int(value: int) -> int:
    """An int within 64 bits."""
    if not _LEAST_INT <= value <= _MOST_INT:
        raise EvaluationError("integer overflow")
    return value


def checked_uint(value: int) -> Uint:
    """An unsigned int within 64 bits."""
    if not 0 <= value <= _MOST_UINT:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def checked_duration(value: int) -> Duration:
    """A duration within 64 bits of nanoseconds."""
    if not _LEAST_INT <= value <= _MOST_INT:
        raise EvaluationError("duration overflow")
    return Duration(value)


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal: numbers by value, values of different kinds never."""
    kind, other_kind = type(one), type(other)
    if kind is str or other_kind is str or kind is bool or other_kind is bool:
        return kind is other_kind and bool(one == other)
    if isinstance(one, Duration) or isinstance(other, Duration):
        return kind is other_kind and int(one) == int(other)
    if isinstance(one, int | float):
        return isinstance(other, int | float) and one == other
    if isinstance(one, list):
        return isinstance(other, list) and _lists_equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and len(one) == len(other)
            and all(key in other and equal(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, Optional):
        return isinstance(other, Optional) and one.has == other.has and (not one.has or equal(one.value, other.value))
    return kind is other_kind and bool(one == other)


def _lists_equal(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, SetList):
        return all(any(equal(item, each) for each in other) for item in one)
    if isinstance(one, MapList):
        by_key = {_frozen(one.key(item)): item for item in other}
        return all((key := _frozen(one.key(item))) in by_key and equal(item, by_key[key]) for item in one)
    return all(equal(*pair) for pair in zip(one, other, strict=True))


def _frozen(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((type(one).__name__, one) if not isinstance(one, dict | list) else ("?", str(one)) for one in key)


def compare(one: Any, other: Any) -> int:
    """Minus one, zero or one; EvaluationError if the values have no order."""
    if isinstance(one, bool) or isinstance(other, bool) or isinstance(one, Duration) or isinstance(other, Duration):
        if type(one) is not type(other):
            raise no_overload(one, other)
    elif isinstance(one, int | float) and isinstance(other, int | float):
        if one != one or other != other:
            raise EvaluationError("NaN values cannot be ordered")
    elif isinstance(one, Timestamp) and isinstance(other, Timestamp):
        one, other = one.nanos, other.nanos
    elif not (type(one) is type(other) and isinstance(one, str | bytes)):
        raise no_overload(one, other)
    return -1 if one < other else int(one > other)


def size(value: Any) -> int:
    """The size for costs: code points, bytes, elements; one for everything else."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Optional) and value.has:
        return size(value.value)
    sizer = getattr(value, "cost_size", None)
    return sizer if isinstance(sizer, int) else 1


def items(value: Any) -> Iterator[Any]:
    """What a comprehension runs over: elements of a list, keys of a map."""
    if isinstance(value, list):
        return iter(value)
    if isinstance(value, dict):
        return (from_key(key) for key in value)
    raise no_overload(value)


_TYPES: Final[dict[type, Type]] = {
    bool: types.BOOL, int: types.INT, Uint: types.UINT, float: types.DOUBLE, str: types.STRING, bytes: types.BYTES,
    type(None): types.NULL, Duration: types.DURATION, Timestamp: types.TIMESTAMP, Quantity: types.QUANTITY,
    Optional: Type("opaque", "optional_type"), Type: Type("type", "type"),
}  # fmt: skip


def type_of(value: Any) -> Type:
    """The type of a value at run time."""
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    if isinstance(value, ObjectValue):
        return types.object_of(value.type)
    if isinstance(value, list):
        return Type("list", "list")
    if isinstance(value, dict):
        return Type("map", "map")
    declared = getattr(value, "cel_type", None)
    return declared if isinstance(declared, Type) else types.DYN
