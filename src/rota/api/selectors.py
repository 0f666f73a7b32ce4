"""Label selectors: written as a query string, as a `LabelSelector` object or as a plain map of labels.

A `Selector` is a value: compiled once, matched many times, hashable, printed canonically. Syntax, semantics and
messages are those of `k8s.io/apimachinery/pkg/labels` (1.37). Field selectors are in `fieldselectors`, the terms
of node affinity in `nodeselectors`.
"""

import enum
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rota.api import fields, gotext, names

_EMPTY: Final[Mapping[str, str]] = {}
_ABSENT: Final[frozenset[str | None]] = frozenset({None})
_INT64: Final = range(-(2**63), 2**63)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class SelectorError(ValueError):
    """The selector cannot be understood; the message says where."""


class Operator(enum.Enum):
    """How a requirement compares; the values are upstream's names."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


_SET: Final = frozenset({Operator.IN, Operator.NOT_IN})
_SINGLE: Final = frozenset({Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS})
_UNARY: Final = frozenset({Operator.EXISTS, Operator.DOES_NOT_EXIST})
_NUMERIC: Final = frozenset({Operator.GREATER_THAN, Operator.LESS_THAN})
_EQUAL: Final = frozenset({Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS})
#: Operators that ask for membership; an absent label is a member where it is asked not to exist.
_MEMBER: Final = _EQUAL | {Operator.DOES_NOT_EXIST}
_BINARY_WORDS: Final = "in, notin, =, ==, !=, gt, lt"
_SYMBOLS: Final = {
    Operator.IN: " in ",
    Operator.NOT_IN: " notin ",
    Operator.GREATER_THAN: ">",
    Operator.LESS_THAN: "<",
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label; make it with `requirement`, which checks it."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels meets this condition."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
                return value is not None and value in self.values
            case Operator.NOT_IN | Operator.NOT_EQUALS:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        number, bound = parse_int64(value), parse_int64(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER_THAN else number < bound

    def __str__(self) -> str:
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return "!" + self.key
        values = ",".join(sorted(self.values))
        shown = f"({values})" if self.operator in _SET else values
        symbol: str = _SYMBOLS.get(self.operator, self.operator.value)
        return self.key + symbol + shown


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements together. `EVERYTHING` has none; `NOTHING` can never be met."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False
    #: Every condition but the numeric ones as a question of membership: (key, values, must it be one of them?).
    #: The value of an absent label is None, so "exists" asks that the value is not in {None}.
    _memberships: tuple[tuple[str, frozenset[str | None], bool], ...] = field(init=False, repr=False, compare=False)
    _numeric: tuple[Requirement, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        memberships = tuple(
            (one.key, _ABSENT if one.operator in _UNARY else frozenset(one.values), one.operator in _MEMBER)
            for one in self.requirements
            if one.operator not in _NUMERIC
        )
        object.__setattr__(self, "_memberships", memberships)
        object.__setattr__(self, "_numeric", tuple(one for one in self.requirements if one.operator in _NUMERIC))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether a set of labels (None: no labels) is selected."""
        if self.selects_nothing:
            return False
        present = labels or _EMPTY
        for key, values, wanted in self._memberships:
            if (present.get(key) in values) is not wanted:
                return False
        return not self._numeric or all(requirement.matches(present) for requirement in self._numeric)

    @property
    def empty(self) -> bool:
        """Whether everything is selected."""
        return not self.requirements and not self.selects_nothing

    def required_value(self, key: str) -> str | None:
        """The one value that this label must have, if the selector demands a single one."""
        for one in self.requirements:
            if one.key == key and one.operator in _EQUAL and len(one.values) == 1:
                return one.values[0]
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(selects_nothing=True)


def requirement(
    key: str, operator: Operator, values: Sequence[str] = (), *, path: fields.Path = fields.ROOT
) -> Requirement:
    """A checked requirement; `SelectorError` lists everything that is wrong with it."""
    errors = list(_check(key, operator, values, path))
    if errors:
        raise SelectorError(fields.aggregate(errors))
    return Requirement(key, operator, tuple(values))


def combine(requirements: Iterable[Requirement]) -> Selector:
    """A selector of requirements, in the order of their keys."""
    ordered = tuple(sorted(requirements, key=lambda one: one.key))
    return Selector(ordered) if ordered else EVERYTHING


def from_labels(labels: Mapping[str, str] | None) -> Selector:
    """A selector of exactly these labels, taken as valid; an empty or absent map selects everything."""
    return combine(Requirement(key, Operator.EQUALS, (value,)) for key, value in (labels or _EMPTY).items())


_OBJECT_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def from_object(selector: Mapping[str, Any] | msgspec.Struct | None) -> Selector:
    """A selector from a `LabelSelector`: None selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    plain: Mapping[str, Any] = msgspec.to_builtins(selector) if isinstance(selector, msgspec.Struct) else selector
    found = [requirement(key, Operator.EQUALS, (value,)) for key, value in (plain.get("matchLabels") or {}).items()]
    for expression in plain.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            given = gotext.quote(str(expression.get("operator", "")))
            raise SelectorError(f"{given} is not a valid label selector operator")
        found.append(requirement(expression.get("key", ""), operator, expression.get("values") or ()))
    return combine(found)


def to_object(selector: Selector) -> dict[str, Any]:
    """A selector as a `LabelSelector`, which has no comparisons of numbers."""
    names = {operator: name for name, operator in _OBJECT_OPERATORS.items()}
    alike = {
        Operator.EQUALS: Operator.IN,
        Operator.DOUBLE_EQUALS: Operator.IN,
        Operator.NOT_EQUALS: Operator.NOT_IN,
    }
    found: list[dict[str, Any]] = []
    for one in selector.requirements:
        operator = alike.get(one.operator, one.operator)
        if operator not in names:
            raise SelectorError(f"{one}: a LabelSelector cannot compare numbers")
        expression: dict[str, Any] = {"key": one.key, "operator": names[operator]}
        if one.values:
            expression["values"] = sorted(one.values)
        found.append(expression)
    return {"matchExpressions": found} if found else {}


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Selector:
    """A selector from a query string: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`."""
    return combine(_Parser(text).parse())


def parse_int64(text: str | None) -> int | None:
    """An integer as Go's `strconv.ParseInt` takes it: decimal, 64 bits, nothing around it."""
    if text is None or len(text) > 64 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def _check(key: str, operator: Operator, values: Sequence[str], path: fields.Path) -> Iterable[fields.FieldError]:
    key_messages = names.check_label_key(key)
    if key_messages:
        yield fields.invalid(path.child("key"), key, "; ".join(key_messages))
    at = path.child("values")
    if operator in _SET and not values:
        yield fields.invalid(at, list(values), "for 'in', 'notin' operators, values set can't be empty")
    elif operator in _SINGLE and len(values) != 1:
        yield fields.invalid(at, list(values), "exact-match compatibility requires one single value")
    elif operator in _UNARY and values:
        yield fields.invalid(at, list(values), "values set must be empty for exists and does not exist")
    elif operator in _NUMERIC:
        if len(values) != 1:
            yield fields.invalid(at, list(values), "for 'Gt', 'Lt' operators, exactly one value is required")
        for position, value in enumerate(values):
            if parse_int64(value) is None:
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield fields.invalid(at.index(position), value, why)
    for position, value in enumerate(values):
        messages = names.check_label_value(value)
        if messages:
            yield fields.invalid(at.index(position).key(key), value, "; ".join(messages))


_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n]+)|$)")
_OPERATORS: Final = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_word: bool  # "in" and "notin" are words too: only their place makes them operators


_END: Final = _Token("", is_word=False)


class _Parser:
    """Recursive descent over the tokens, with upstream's messages for every wrong turn."""

    def __init__(self, text: str) -> None:
        found = (
            _Token(match[1] or match[2], is_word=match[2] is not None)
            for match in _TOKEN.finditer(text)
            if match[1] or match[2]
        )
        self._tokens: Final = [*found, _END]
        self._position = 0

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        while (token := self._peek()) is not _END:
            if not token.is_word and token.text != "!":
                raise SelectorError(f"found '{token.text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self._take()
            if token is _END:
                break
            if token.text != ",":
                raise SelectorError(f"found '{token.text}', expected: ',' or 'end of string'")
            following = self._peek()
            if not following.is_word and following.text != "!":
                raise SelectorError(f"found '{following.text}', expected: identifier after ','")
        return found

    def _peek(self) -> _Token:
        return self._tokens[self._position]

    def _take(self) -> _Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _requirement(self) -> Requirement:
        token = self._take()
        negated = not token.is_word
        if negated:
            token = self._take()
        if not token.is_word:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        key = token.text
        messages = names.check_label_key(key)
        if messages:
            raise SelectorError(str(fields.invalid(fields.ROOT, key, "; ".join(messages))))
        if negated:
            return requirement(key, Operator.DOES_NOT_EXIST)
        if self._peek() is _END or self._peek().text == ",":
            return requirement(key, Operator.EXISTS)
        token = self._take()
        operator = _OPERATORS.get(token.text)
        if operator is None:
            raise SelectorError(f"found '{token.text}', expected: {_BINARY_WORDS}")
        values = self._value_set() if operator in _SET else self._single_value()
        return requirement(key, operator, sorted(values))

    def _value_set(self) -> set[str]:
        token = self._take()
        if token.text != "(":
            raise SelectorError(f"found '{token.text}' expected: '('")
        token = self._peek()
        if token.text == ")":
            self._take()
            return {""}
        if not token.is_word and token.text != ",":
            raise SelectorError(f"found '{token.text}', expected: ',', ')' or identifier")
        values = self._listed_values()
        self._take()  # the closing parenthesis, which ended the list
        return values

    def _listed_values(self) -> set[str]:
        """Words between commas; where a word is missing, the empty string is meant."""
        values: set[str] = set()
        while True:
            token = self._take()
            following = self._peek()
            if token.is_word:
                values.add(token.text)
                if following.text == ")":
                    return values
                if following.text != ",":
                    raise SelectorError(f"found '{following.text}', expected: ',' or ')'")
            elif token.text == ",":
                if not values or following.text in {")", ","}:
                    values.add("")
                if following.text == ")":
                    return values
            else:
                raise SelectorError(f"found '{token.text}', expected: ',', or identifier")

    def _single_value(self) -> set[str]:
        token = self._peek()
        if token is _END or token.text == ",":
            return {""}
        self._take()
        if not token.is_word:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        return {token.text}
