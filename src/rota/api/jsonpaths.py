"""JSONPath as client-go (1.37) reads it: printer columns of custom kinds and rules of policies are written in it.

Fields (`.spec.size`, `['a.b']`, `.a\\.b`), indexes and slices (`[0]`, `[-1]`, `[1:3]`), wildcards, unions (`[0,2]`),
descent (`..name`) and filters (`[?(@.type=="Ready")]`). A missing field finds nothing; what cannot be compared or
indexed is a `PathError`, and so is a path that cannot be read.
"""

import functools
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias


class PathError(ValueError):
    """The path cannot be read, or does not fit the object."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str

    def find(self, values: list[Any]) -> list[Any]:
        return [value[self.name] for value in values if isinstance(value, Mapping) and self.name in value]


@dataclass(frozen=True, slots=True)
class _Everything:
    def find(self, values: list[Any]) -> list[Any]:
        return [child for value in values for child in _children(value)]


@dataclass(frozen=True, slots=True)
class _Descent:
    def find(self, values: list[Any]) -> list[Any]:
        found, waiting = [], values[::-1]
        while waiting:
            value = waiting.pop()
            children = list(_children(value))
            if children:
                found.append(value)
                waiting += children[::-1]
        return found


@dataclass(frozen=True, slots=True)
class _Slice:
    start: int
    #: None for the end of the list.
    stop: int | None
    step: int

    def find(self, values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise PathError("only a list has an index")
            found += value[self._bounds(len(value))]
        return found

    def _bounds(self, length: int) -> slice:
        start = self.start + length if self.start < 0 else self.start
        stop = length if self.stop is None else self.stop + length if self.stop < 0 else self.stop
        if start != stop and not (0 <= start < length and start <= stop <= length):
            raise PathError(f"the index is out of bounds: {start} to {stop} of {length}")
        return slice(start, stop, self.step)


@dataclass(frozen=True, slots=True)
class _Union:
    paths: tuple["Steps", ...]

    def find(self, values: list[Any]) -> list[Any]:
        return [found for path in self.paths for found in _walk(path, values)]


@dataclass(frozen=True, slots=True)
class _Literal:
    value: bool | int | float | str

    def find(self, values: list[Any]) -> list[Any]:
        return [self.value]


@dataclass(frozen=True, slots=True)
class _Filter:
    left: "Steps"
    #: Empty if the left side only has to be there.
    comparison: str
    right: "Steps"

    def find(self, values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if not isinstance(value, list):
                raise PathError("only a list can be filtered")
            found += [item for item in value if self._passes(item)]
        return found

    def _passes(self, item: Any) -> bool:
        left = _walk(self.left, [item])
        if not self.comparison or not left:
            return bool(left)
        right = _walk(self.right, [item])
        if len(left) > 1 or len(right) > 1:
            raise PathError("only single values can be compared")
        return bool(right) and _compare(left[0], self.comparison, right[0])


Step: TypeAlias = _Field | _Everything | _Descent | _Slice | _Union | _Literal | _Filter
Steps: TypeAlias = tuple[Step, ...]

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def find(path: str, obj: Mapping[str, Any]) -> list[Any]:
    """All that a path leads to, in order."""
    return _walk(_parse(path), [obj])


def check(path: str) -> None:
    """PathError if the path cannot be read."""
    _parse(path)


def _walk(steps: Steps, values: list[Any]) -> list[Any]:
    for step in steps:
        values = step.find(values)
    return values


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _compare(left: Any, comparison: str, right: Any) -> bool:
    if type(left) is not type(right) or not isinstance(left, bool | int | float | str):
        raise PathError("values of different types cannot be compared")
    if isinstance(left, bool) and comparison not in {"==", "!="}:
        raise PathError("one truth is not greater than another")
    return _COMPARISONS[comparison](left, right)


_FIELD: Final = re.compile(r"\.?((?:\\.|[^\\\s.,\[\]$@{}])+)")
_QUOTED: Final = re.compile(r"""'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)\"""")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_FILTER: Final = re.compile(r"""\[\?\(((?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^'")])*)\)\]""")
_COMPARED: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_KEY: Final = re.compile(r"'([^']*)'")


@functools.lru_cache(maxsize=1024)
def _parse(text: str) -> Steps:
    steps: list[Step] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character in "@$ ":
            position += 1
            continue
        step, position = _step(text, position, first=not steps)
        steps += step
    return tuple(steps)


def _step(text: str, position: int, *, first: bool) -> tuple[list[Step], int]:
    """The step that begins at a position, and where the next one begins."""
    if text.startswith("..", position):
        return [_Descent()], position + (1 if _FIELD.match(text, position + 1) else 2)
    if text[position] == "[":
        return _bracket(text, position)
    if first and (literal := _literal(text, position)):
        return [literal[0]], literal[1]
    field = _FIELD.match(text, position)
    if field is None:
        raise PathError(f"cannot read {text[position:]!r}")
    name = field[1]
    return [_Everything() if name == "*" else _Field(name.replace("\\", ""))], field.end()


def _literal(text: str, position: int) -> tuple[_Literal, int] | None:
    if quoted := _QUOTED.match(text, position):
        inner = quoted[1] if quoted[1] is not None else quoted[2]
        return _Literal(re.sub(r"\\(.)", r"\1", inner)), quoted.end()
    if number := _NUMBER.match(text, position):
        return _Literal(float(number[0]) if "." in number[0] else _integer(number[0]) or 0), number.end()
    for word, value in (("true", True), ("false", False)):
        if text[position:].strip() == word:
            return _Literal(value), len(text)
    return None


def _bracket(text: str, position: int) -> tuple[list[Step], int]:
    if text.startswith("[?(", position):
        return _filter(text, position)
    end = text.find("]", position)
    if end < 0:
        raise PathError("a bracket is not closed")
    inner = text[position + 1 : end]
    if inner == "*":
        return [_Slice(0, None, 1)], end + 1
    parts = [part.strip() for part in inner.split(",")]
    if len(parts) > 1:
        return [_Union(tuple((_index(part),) for part in parts))], end + 1
    return [_index(inner)], end + 1


def _filter(text: str, position: int) -> tuple[list[Step], int]:
    match = _FILTER.match(text, position)
    if match is None:
        raise PathError("a filter is not closed")
    compared = _COMPARED.fullmatch(match[1])
    if compared is None:
        return [_Filter(_parse(match[1]), "", ())], match.end()
    left, comparison, right = compared.groups()
    if comparison not in _COMPARISONS:
        raise PathError(f"there is no comparison {comparison}")
    return [_Filter(_parse(left), comparison, _parse(right.strip()))], match.end()


def _index(inner: str) -> Step:
    if key := _KEY.fullmatch(inner):
        return _Field(key[1].replace("\\", ""))
    bounds = _SLICE.fullmatch(inner)
    if bounds is None or not inner:
        raise PathError(f"{inner!r} is no index")
    start = _integer(bounds[1])
    if bounds[2] is None:
        # the element after -1 is not 0 but the end
        return _Slice(start or 0, (start or 0) + 1 if start != -1 else None, 1)
    stop, step = (_integer(part[1:]) if part else None for part in bounds.groups()[1:])
    if step is not None and step <= 0:
        raise PathError("a step must be above zero")
    return _Slice(start or 0, stop, step or 1)


def _integer(text: str) -> int | None:
    """The number of an index; None if it is left out."""
    try:
        return int(text) if text else None
    except ValueError:  # a lone sign, or more digits than Python converts
        raise PathError(f"{text[:20]!r} is no number") from None


def text(value: Any) -> str:
    """A value that was found, as client-go prints it: texts as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
