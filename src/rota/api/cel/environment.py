"""Environments: the variables, types and functions of expressions, and their compilation."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from rota.api.cel import estimation, format_checks, parser, programs, times, types
from rota.api.cel.checker import Checker, Fields, Functions
from rota.api.cel.estimation import Sizes
from rota.api.cel.frames import Frame, Run
from rota.api.cel.lexer import SyntaxIssue
from rota.api.cel.operators import STANDARD, Function
from rota.api.cel.syntax import Call, ListLiteral, Literal, MapLiteral, Node
from rota.api.cel.types import Type
from rota.api.cel.values import EvaluationError
from rota.api.re2_matcher import PatternError, compile_pattern

#: The cost limit of one evaluation.
CALL_LIMIT: Final = 1_000_000
#: Stands for a variable that has no value.
UNSET: Final = programs.MISSING
_MOST_ERRORS: Final = 100
_CONVERSIONS: Final = frozenset({"bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"})


class CompileError(Exception):
    """The expression does not compile; the text shows where."""


class InstantiationError(CompileError):
    """A conversion of a constant fails, so no evaluation could succeed."""


class Outcome(Struct, frozen=True):
    """The result of an evaluation: a value or an error, and the cost in any case."""

    value: Any
    error: EvaluationError | None
    cost: int


class Program:
    """A compiled expression."""

    __slots__ = ("_root", "_run", "_slots", "_variables", "text", "type", "used")

    def __init__(
        self, text: str, root: Node, run: Run, slots: int, variables: Sequence[str], used: frozenset[str]
    ) -> None:
        self.text: Final = text
        #: The type of its value.
        self.type: Final = root.type
        #: The variables that it names.
        self.used: Final = used
        self._root: Final = root
        self._run: Final = run
        self._slots: Final = slots
        self._variables: Final = variables

    def worst_cost(self, sizes: Sizes) -> int:
        """The most that an evaluation may cost, by the sizes of the variables."""
        return estimation.worst_cost(self._root, sizes)

    def evaluate(self, variables: Mapping[str, Any], limit: int = CALL_LIMIT) -> Outcome:
        """Evaluate with values of the variables; a variable that is not there is an error only where it is read."""
        slots = [variables.get(name, UNSET) for name in self._variables]
        slots += [None] * (self._slots - len(slots))
        frame = Frame(slots, limit)
        try:
            return Outcome(self._run(frame), None, frame.cost)
        except EvaluationError as error:
            return Outcome(None, error, frame.cost)
        except RecursionError:
            return Outcome(None, EvaluationError("the value nests too deeply"), frame.cost)


class Environment:
    """Compiles expressions over the same variables."""

    def __init__(
        self,
        variables: Mapping[str, Type],
        fields: Fields = lambda _: None,
        *,
        declared: Functions | None = None,
        functions: Mapping[str, Function] | None = None,
    ) -> None:
        self._variables: Final = variables
        self._fields: Final = fields
        self._declared: Final = declared or {}
        self._functions: Final = functions or {}

    def compile(self, text: str) -> Program:
        """Compile an expression; CompileError shows all type errors, or the first error of syntax."""
        try:
            root = parser.parse(text)
        except SyntaxIssue as issue:
            raise CompileError(_shown(text, [(issue.position, issue.text)])) from None
        checker = Checker(self._variables, self._fields, self._declared)
        checker.check(root)
        errors = checker.errors or [*_literal_errors(root), *_mixed_errors(root), *format_checks.errors(root)]
        if errors:
            raise CompileError(_shown(text, errors))
        try:
            _constant(root)
        except EvaluationError as error:
            raise InstantiationError(str(error)) from None
        names = tuple(self._variables)
        run, slots = programs.translate(root, names, self._functions)
        return Program(text, root, run, slots, names, frozenset(checker.used))


def _constant(node: Node) -> Any:
    """The value of a literal or of a conversion of one, `UNSET` for everything else; EvaluationError if it fails."""
    if isinstance(node, Literal):
        return node.value
    below = [_constant(child) for child in node.children()]
    if isinstance(node, Call) and node.function in _CONVERSIONS and len(below) == 1 and below[0] is not UNSET:
        return STANDARD[node.function](below[0])
    return UNSET


def _literal_errors(node: Node) -> list[tuple[int, str]]:
    """Constants that no evaluation could use: they are refused when the expression is declared."""
    found = [each for child in node.children() for each in _literal_errors(child)]
    if (
        isinstance(node, Call)
        and node.args
        and isinstance(node.args[-1], Literal)
        and isinstance(node.args[-1].value, str)
    ):
        literal = node.args[-1]
        try:
            if node.function == "duration":
                times.parse_duration(literal.value)
            elif node.function == "timestamp":
                times.parse_timestamp(literal.value)
            elif node.function == "matches":
                compile_pattern(literal.value)
        except (EvaluationError, PatternError):
            found.append((literal.position, f"invalid {node.function} argument"))
    return found


def _mixed_errors(node: Node) -> list[tuple[int, str]]:
    """Lists and maps of values of different types, which only the arguments of `format` may be."""
    if isinstance(node, Call) and node.function == "format":
        return []
    found = [each for child in node.children() for each in _mixed_errors(child)]
    groups: list[list[tuple[Node, Type]]] = []
    if isinstance(node, ListLiteral):
        elements = [(one, _inner(one, optional=at in node.optional)) for at, one in enumerate(node.elements)]
        # Of a list, only the first that differs is an error.
        groups = [[*elements[:1], *[one for one in elements if one[1] != elements[0][1]][:1]]]
    elif isinstance(node, MapLiteral):
        groups = [
            [(key, key.type) for key, _, _ in node.entries],
            [(value, _inner(value, optional=optional)) for _, value, optional in node.entries],
        ]
    for group in groups:
        for one, own in group:
            first = group[0][1]
            if own != first:
                found.append((one.position, f"expected type '{first}' but found '{own}'"))
    return found


def _inner(node: Node, *, optional: bool) -> Type:
    return types.unwrap_optional(node.type)[0] if optional else node.type


def _shown(text: str, errors: list[tuple[int, str]]) -> str:
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    shown = []
    for position, message in sorted(errors, key=lambda one: one[0])[:_MOST_ERRORS]:
        number = max(index for index, start in enumerate(starts[:-1]) if start <= position)
        column = position - starts[number]
        snippet = lines[number].replace("\t", " ")
        marks = "".join("\uff0e" if ord(one) > 127 else "." for one in snippet[:column])
        mark = "\uff3e" if column < len(snippet) and ord(snippet[column]) > 127 else "^"
        shown.append(f"ERROR: <input>:{number + 1}:{column + 1}: {message}\n | {snippet}\n | {marks}{mark}")
    if len(errors) > _MOST_ERRORS:
        shown.append(f"{len(errors) - _MOST_ERRORS} more errors were truncated")
    return "\n".join(shown)
