"""The small language of pipelines: references in `{{ }}` inside of texts, and conditions.

    args: ["--rows={{ parameters.rows }}", "{{ steps.split.outputs.part }}"]
    when: parameters.model == "small" and steps.test.status != "Failed"

A reference names a value by its way: `parameters.NAME`, `steps.NAME.outputs.NAME`, `steps.NAME.status`, `item` (and
below it), `run.name`. A condition compares values with ==, !=, <, <=, >, >= and `in`, and combines with and, or, not
and parentheses. Values are texts; two that both look like numbers are compared as numbers. Nothing can be called and
nothing else can be reached, so a pipeline's author can do no more than write pipelines.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

#: The way to a value: `("steps", "split", "outputs", "part")`.
Reference: TypeAlias = tuple[str, ...]
#: Finds the value of a reference; raises `Unknown` if there is none.
Lookup: TypeAlias = Callable[[Reference], Any]

_PLACE: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_STEP: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_REFERENCE: Final = re.compile(rf"{_STEP}(?:\.{_STEP})*")
_TOKEN: Final = re.compile(
    rf"""\s*(?:
      (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>-?\d+(?:\.\d+)?(?![\w.-]))
    | (?P<operator>==|!=|<=|>=|<|>|\(|\)|\[|\]|,)
    | (?P<word>{_STEP}(?:\.{_STEP})*)
    )""",
    re.VERBOSE,
)
_WORDS: Final = frozenset({"and", "or", "not", "in", "true", "false"})
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
#: Bounds of a condition: it is read and asked by functions that call themselves.
_DEEPEST: Final = 50
_MOST_TOKENS: Final = 500


class ExpressionError(ValueError):
    """The expression cannot be read; the message quotes it."""


class Unknown(LookupError):
    """A reference leads to nothing; the message names it."""


# --- texts with references --------------------------------------------------------------------------------------------


def references(value: Any) -> Iterator[Reference]:
    """All references in the texts of a JSON value; ExpressionError if one cannot be read."""
    for text in _texts(value):
        # up to the last end: every beginning before it has one, so none looks for it in vain through the whole text
        for place in _PLACE.finditer(text[: text.rfind("}}") + 2]):
            yield _reference(place[1])


def fill(value: Any, lookup: Lookup) -> Any:
    """A JSON value with its references replaced; a text that is nothing but a reference becomes the value itself."""
    if isinstance(value, str):
        return _filled(value, lookup)
    if isinstance(value, Mapping):
        return {_text(_filled(name, lookup)): fill(part, lookup) for name, part in value.items()}
    if isinstance(value, list):
        return [fill(part, lookup) for part in value]
    return value


def _filled(text: str, lookup: Lookup) -> Any:
    if "{{" not in text:
        return text
    whole = _PLACE.fullmatch(text)
    if whole is not None and "{{" not in whole[1]:
        return lookup(_reference(whole[1]))
    end = text.rfind("}}") + 2  # as in `references`
    return _PLACE.sub(lambda place: _text(lookup(_reference(place[1]))), text[:end]) + text[end:]


def _reference(text: str) -> Reference:
    stripped = text.strip()
    if _REFERENCE.fullmatch(stripped) is None:
        raise ExpressionError(f"{{{{{text}}}}} names no value; write it like {{{{ parameters.name }}}}")
    return tuple(stripped.split("."))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield name
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


# --- conditions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was read; ask it with a lookup."""

    text: str
    references: frozenset[Reference]
    _node: "_Node"

    def holds(self, lookup: Lookup) -> bool:
        """Whether it holds; `Unknown` if a reference leads to nothing."""
        return _truth(_value(self._node, lookup))


_Node: TypeAlias = tuple[Any, ...]


def condition(text: str) -> Condition:
    """Read a condition; ExpressionError if that cannot be done."""
    reader = _Reader(text)
    node = reader.read()
    return Condition(text, frozenset(reader.references), node)


class _Reader:
    """Recursive descent: or, and, not, comparison, value."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._at = 0
        self._depth = 0
        self.references: set[Reference] = set()

    def read(self) -> _Node:
        if not self._tokens:
            raise ExpressionError("the condition is empty")
        if len(self._tokens) > _MOST_TOKENS:
            raise ExpressionError(f"{self._text[:40]!r}... has more than {_MOST_TOKENS} parts; have a step work it out")
        node = self._either()
        if self._at < len(self._tokens):
            raise self._surprise()
        return node

    def _split(self) -> Iterator[tuple[str, str]]:
        at, text = 0, self._text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise ExpressionError(f"{self._text!r}: {text[at:].strip()[:20]!r} cannot be read")
            yield found.lastgroup, found[found.lastgroup]
            at = found.end()

    def _either(self) -> _Node:
        node = self._both()
        while self._took("or"):
            node = ("or", node, self._both())
        return node

    def _both(self) -> _Node:
        node = self._negation()
        while self._took("and"):
            node = ("and", node, self._negation())
        return node

    def _negation(self) -> _Node:
        with self._deeper():
            return ("not", self._negation()) if self._took("not") else self._comparison()

    def _comparison(self) -> _Node:
        left = self._operand()
        operator = self._peek()
        if operator not in _COMPARISONS:
            return left
        self._at += 1
        return (operator, left, self._operand())

    def _operand(self) -> _Node:
        if self._at >= len(self._tokens):
            raise ExpressionError(f"{self._text!r} ends too early")
        if self._took("("):
            node = self._either()
            self._expect(")")
            return node
        if self._took("["):
            with self._deeper():
                return self._list()
        kind, word = self._tokens[self._at]
        if kind == "operator" or (kind == "word" and word in _WORDS - {"true", "false"}):
            raise self._surprise()
        self._at += 1
        if kind == "text":
            return ("value", re.sub(r"\\(.)", r"\1", word[1:-1]))
        if kind == "number" or word in _WORDS:
            return ("value", word)
        reference = tuple(word.split("."))
        self.references.add(reference)
        return ("reference", reference)

    def _list(self) -> _Node:
        items: list[_Node] = []
        while not self._took("]"):
            if items:
                self._expect(",")
            items.append(self._operand())
        return ("list", *items)

    @contextlib.contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ExpressionError(f"{self._text[:40]!r}... is nested too deeply")
        yield
        self._depth -= 1

    def _peek(self) -> str:
        kind, token = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        return token if kind in {"operator", "word"} else ""

    def _took(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._took(token):
            raise ExpressionError(f"{self._text!r}: {token!r} is missing")

    def _surprise(self) -> ExpressionError:
        return ExpressionError(f"{self._text!r}: {self._tokens[self._at][1]!r} does not belong there")


def _value(node: _Node, lookup: Lookup) -> Any:
    match node[0]:
        case "value":
            return node[1]
        case "reference":
            return lookup(node[1])
        case "list":
            return [_value(part, lookup) for part in node[1:]]
        case "not":
            return not _truth(_value(node[1], lookup))
        case "and":
            return _truth(_value(node[1], lookup)) and _truth(_value(node[2], lookup))
        case "or":
            return _truth(_value(node[1], lookup)) or _truth(_value(node[2], lookup))
        case operator:
            return _compared(operator, _value(node[1], lookup), _value(node[2], lookup))


def _compared(operator: str, left: Any, right: Any) -> bool:
    if operator == "in":
        if isinstance(right, Mapping | list):
            return _text(left) in {_text(part) for part in right}
        return _text(left) in _text(right)
    one, other = _comparable(left, right)
    match operator:
        case "==":
            return bool(one == other)
        case "!=":
            return bool(one != other)
        case "<":
            return bool(one < other)
        case "<=":
            return bool(one <= other)
        case ">":
            return bool(one > other)
        case _:
            return bool(one >= other)


def _comparable(left: Any, right: Any) -> tuple[Any, Any]:
    one, other = _text(left), _text(right)
    try:
        return float(one), float(other)
    except ValueError:
        return one, other


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return _text(value).lower() not in {"", "false", "0", "none", "null", "[]", "{}"}


def _text(value: Any) -> str:
    """A value inside of a text: booleans as JSON has them, what is nested as compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, Mapping | list):
        return json.dumps(value, separators=(",", ":"))
    return str(value)
