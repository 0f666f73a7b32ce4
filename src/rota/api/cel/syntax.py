"""The syntax tree of an expression. The parser makes it; the checker writes types and overloads into it."""

from collections.abc import Iterator
from typing import Any, Final

from rota.api.cel.types import DYN, Type

#: How deep a tree may be; the stock server's limit is of the same order. It bounds recursion everywhere below.
MOST_DEPTH: Final = 120
#: The name of a comprehension's accumulator; no identifier of an expression can be spelled like this.
ACCUMULATOR: Final = "@result"


class TooDeep(Exception):
    """The expression nests too deeply."""


class Node:
    """A part of an expression; `position` is where its operator or name begins."""

    __slots__ = ("depth", "overloads", "position", "type")

    def __init__(self, position: int) -> None:
        self.position: Final = position
        self.type: Type = DYN
        #: The overloads that a call may mean, by id.
        self.overloads: tuple[str, ...] = ()
        self.depth: int = 1 + max((child.depth for child in self.children()), default=0)
        if self.depth > MOST_DEPTH:
            raise TooDeep

    def children(self) -> "Iterator[Node]":
        """The nodes directly below."""
        return iter(())


class Literal(Node):
    """A constant."""

    __slots__ = ("value",)

    def __init__(self, position: int, value: Any) -> None:
        self.value: Final = value
        super().__init__(position)


class Ident(Node):
    """A variable or a type."""

    __slots__ = ("name",)

    def __init__(self, position: int, name: str) -> None:
        self.name = name
        super().__init__(position)


class Select(Node):
    """A field, or the test whether it is set."""

    __slots__ = ("field", "operand", "qualified", "test")

    def __init__(self, position: int, operand: Node, field: str, *, test: bool = False) -> None:
        self.operand: Final = operand
        self.field: Final = field
        self.test: Final = test
        #: The variable or type that the dotted name means as a whole.
        self.qualified = ""
        super().__init__(position)

    def children(self) -> Iterator[Node]:
        """The nodes directly below."""
        yield self.operand


class Call(Node):
    """A function or operator; `target` is what a member function is called on."""

    __slots__ = ("args", "function", "target")

    def __init__(self, position: int, function: str, args: list[Node], target: Node | None = None) -> None:
        self.function = function
        self.args: Final = args
        self.target = target
        super().__init__(position)

    def children(self) -> Iterator[Node]:
        """The nodes directly below."""
        if self.target is not None:
            yield self.target
        yield from self.args


class ListLiteral(Node):
    """A list; some elements may be optional."""

    __slots__ = ("elements", "optional")

    def __init__(self, position: int, elements: list[Node], optional: frozenset[int] = frozenset()) -> None:
        self.elements: Final = elements
        self.optional: Final = optional
        super().__init__(position)

    def children(self) -> Iterator[Node]:
        """The nodes directly below."""
        yield from self.elements


class MapLiteral(Node):
    """A map: keys, values, and whether the entry is optional."""

    __slots__ = ("entries",)

    def __init__(self, position: int, entries: list[tuple[Node, Node, bool]]) -> None:
        self.entries: Final = entries
        super().__init__(position)

    def children(self) -> Iterator[Node]:
        """The nodes directly below."""
        for key, value, _ in self.entries:
            yield key
            yield value


class ObjectLiteral(Node):
    """An object of a named type: fields, values, optional, and the position of the field."""

    __slots__ = ("fields", "name")

    def __init__(self, position: int, name: str, fields: list[tuple[str, Node, bool, int]]) -> None:
        self.name = name
        self.fields: Final = fields
        super().__init__(position)

    def children(self) -> Iterator[Node]:
        """The nodes directly below."""
        for _, value, _, _ in self.fields:
            yield value


class Fold(Node):
    """A comprehension, the expansion of macros such as `all`. `macro` says which one, for evaluation."""

    __slots__ = (
        "accumulator",
        "condition",
        "initial",
        "macro",
        "predicate",
        "result",
        "source",
        "step",
        "transform",
        "variable",
        "variable2",
    )

    def __init__(
        self,
        position: int,
        *,
        macro: str,
        source: Node,
        variable: str,
        variable2: str = "",
        initial: Node,
        condition: Node,
        step: Node,
        result: Node,
        predicate: Node | None = None,
        transform: Node | None = None,
        accumulator: str = ACCUMULATOR,
    ) -> None:
        self.macro: Final = macro
        self.source: Final = source
        self.variable: Final = variable
        self.variable2: Final = variable2
        self.initial: Final = initial
        self.condition: Final = condition
        self.step: Final = step
        self.result: Final = result
        #: The arguments of the macro: which elements, and what becomes of them.
        self.predicate: Final = predicate
        self.transform: Final = transform
        self.accumulator: Final = accumulator
        super().__init__(position)

    def children(self) -> Iterator[Node]:
        """The nodes directly below."""
        yield from (self.source, self.initial, self.condition, self.step, self.result)
