"""What a call costs at run time, by its arguments and its result."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from rota.api.cel.estimation import (
    CHECK_COST,
    COMPARED,
    KEPT,
    LISTED,
    ONE,
    PARSED,
    REGEX,
    TRAVERSAL,
    Range,
    selector_cost,
)
from rota.api.cel.values import size

Cost = Callable[[Sequence[Any], Any], int]


def _traversed(factor: float = TRAVERSAL) -> Cost:
    return lambda args, _: ceil(size(args[0]) * factor)


def _regex(args: Sequence[Any], _: Any) -> int:
    return ceil((1.0 + size(args[0])) * TRAVERSAL) * ceil(size(args[1]) * REGEX)


def _contains(args: Sequence[Any], _: Any) -> int:
    return ceil(size(args[0]) * TRAVERSAL) * ceil(size(args[1]) * TRAVERSAL)


def _compared(args: Sequence[Any], _: Any) -> int:
    return ceil(min(size(args[0]), size(args[1])) * TRAVERSAL)


def _added(args: Sequence[Any], _: Any) -> int:
    return ceil((size(args[0]) + size(args[1])) * TRAVERSAL)


def _walk(value: Any) -> int:
    if isinstance(value, str | bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(_walk(one) for one in value)
    if isinstance(value, dict):
        return sum(_walk(key) + _walk(one) for key, one in value.items())
    return 1


def _joined(_: Sequence[Any], result: Any) -> int:
    return ceil(size(result) * 2 * TRAVERSAL) if result is not None else 0


def _selector(args: Sequence[Any], _: Any) -> int:
    length = size(args[1])
    return selector_cost(Range(length, length)).most


def _contained(with_prefix: bool) -> Callable[[str], Cost]:
    def by_overload(overload: str) -> Cost:
        def cost(args: Sequence[Any], _: Any) -> int:
            own = size(args[0])
            total = ceil(own * 2 * TRAVERSAL)
            if with_prefix:
                total += ceil(own * TRAVERSAL) + 1
            return total + (ceil(size(args[1]) * TRAVERSAL) if overload.endswith("_string") else 0)

        return cost

    return by_overload


def _square(args: Sequence[Any], _: Any) -> int:
    return max(1, size(args[0]) * size(args[-1]))


def _count(args: Sequence[Any], _: Any) -> int:
    value = args[0]
    return max(1, value if isinstance(value, int) else size(value))


_BY_FUNCTION: Final[Mapping[str, Cost]] = {
    "check": lambda *_: CHECK_COST,
    "fieldSelector": _selector, "labelSelector": _selector,
    **{name: lambda args, _: _walk(args[0]) for name in LISTED},
    **{name: _traversed() for name in (*KEPT, *PARSED, "url", "jsonpatch.escapeKey")},
    "replace": _traversed(2 * TRAVERSAL), "split": _traversed(2 * TRAVERSAL),
    "ip.isCanonical": _traversed(2 * TRAVERSAL),
    "join": _joined, "find": _regex, "findAll": _regex, "matches": _regex,
    "validate": lambda args, _: ceil((1.0 + size(args[1])) * TRAVERSAL) * 15,
    # Where the stock server counts one whatever the size, the size counts here: the work is ours.
    "distinct": _square, "sets.contains": _square, "sets.equivalent": _square, "sets.intersects": _square,
    "lists.range": _count, "sort": _count, "@sortByAssociatedKeys": _count, "flatten": _count, "reverse": _count,
    "slice": _count, "getQuery": lambda *_: 1,
}  # fmt: skip
_BY_OVERLOAD: Final[Mapping[str, Cost]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _traversed()),
    **dict.fromkeys(("strings_quote", "string_format"), _traversed()),
    **dict.fromkeys(COMPARED, _compared),
    "add_string": _added, "add_bytes": _added,
    "in_list": lambda args, _: size(args[1]),
    "matches_string": _regex, "contains_string": _contains,
}  # fmt: skip


def of(function: str, overloads: tuple[str, ...]) -> Cost | None:
    """The cost of a call; None if it is one."""
    only = overloads[0] if len(overloads) == 1 else ""
    if function in ONE or only == "cidr_ip":
        return None
    if function in ("containsIP", "containsCIDR"):
        return _contained(function == "containsCIDR")(only)
    if function == "ip":
        return _traversed()
    return _BY_FUNCTION.get(function) or _BY_OVERLOAD.get(only)
