"""Macros: calls that the parser replaces by comprehensions or presence tests."""

from collections.abc import Callable
from typing import Final

from rota.api.cel.lexer import SyntaxIssue
from rota.api.cel.syntax import ACCUMULATOR, Call, Fold, Ident, ListLiteral, Literal, MapLiteral, Node, Select


def expand(name: str, position: int, target: Node | None, args: list[Node]) -> Node | None:
    """What a call means; None if it is no macro."""
    if target is None:
        return _has(position, args) if name == "has" and len(args) == 1 else None
    macro = _MACROS.get((name, len(args)))
    return macro(position, target, args) if macro is not None else None


def _has(position: int, args: list[Node]) -> Node:
    operand = args[0]
    if isinstance(operand, Select) and not operand.test:
        return Select(position, operand.operand, operand.field, test=True)
    raise SyntaxIssue(operand.position, "invalid argument to has() macro")


def _variable(node: Node, what: str = "argument must be a simple name") -> str:
    if not isinstance(node, Ident) or node.name.startswith("."):
        raise SyntaxIssue(node.position, what)
    if node.name == "__result__":
        raise SyntaxIssue(node.position, "iteration variable overwrites accumulator variable")
    return node.name


def _quantifier(kind: str, two: bool) -> "_Expander":
    def expander(position: int, target: Node, args: list[Node]) -> Node:
        names = [_variable(one) for one in args[: 2 if two else 1]]
        if two and names[0] == names[1]:
            raise SyntaxIssue(args[1].position, f"duplicate variable name: {names[1]}")
        predicate = args[-1]

        def accumulated() -> Node:
            return Ident(position, ACCUMULATOR)

        step: Node
        if kind == "all":
            initial, result = Literal(position, True), accumulated()
            condition: Node = Call(position, "@not_strictly_false", [accumulated()])
            step = Call(position, "_&&_", [accumulated(), predicate])
        elif kind == "exists":
            initial, result = Literal(position, False), accumulated()
            condition = Call(position, "@not_strictly_false", [Call(position, "!_", [accumulated()])])
            step = Call(position, "_||_", [accumulated(), predicate])
        else:
            initial, condition = Literal(position, 0), Literal(position, True)
            more = Call(position, "_+_", [accumulated(), Literal(position, 1)])
            step = Call(position, "_?_:_", [predicate, more, accumulated()])
            result = Call(position, "_==_", [accumulated(), Literal(position, 1)])
        return Fold(
            position, macro=kind, source=target, variable=names[0], variable2=names[1] if two else "",
            initial=initial, condition=condition, step=step, result=result, predicate=predicate,
        )  # fmt: skip

    return expander


def _collecting(position: int, target: Node, names: list[str], predicate: Node | None, transform: Node) -> Node:
    def accumulated() -> Node:
        return Ident(position, ACCUMULATOR)

    step: Node = Call(position, "_+_", [accumulated(), ListLiteral(position, [transform])])
    if predicate is not None:
        step = Call(position, "_?_:_", [predicate, step, accumulated()])
    return Fold(
        position, macro="map", source=target, variable=names[0], variable2=names[1] if len(names) > 1 else "",
        initial=ListLiteral(position, []), condition=Literal(position, True), step=step, result=accumulated(),
        predicate=predicate, transform=transform,
    )  # fmt: skip


def _map(position: int, target: Node, args: list[Node]) -> Node:
    name = _variable(args[0], "argument is not an identifier")
    return _collecting(position, target, [name], args[1] if len(args) == 3 else None, args[-1])


def _filter(position: int, target: Node, args: list[Node]) -> Node:
    name = _variable(args[0], "argument is not an identifier")
    return _collecting(position, target, [name], args[1], Ident(args[0].position, name))


def _names(args: list[Node]) -> list[str]:
    names = [_variable(one) for one in args[:2]]
    if names[0] == names[1]:
        raise SyntaxIssue(args[1].position, f"duplicate variable name: {names[1]}")
    return names


def _transform_list(position: int, target: Node, args: list[Node]) -> Node:
    return _collecting(position, target, _names(args), args[2] if len(args) == 4 else None, args[-1])


def _transform_map(position: int, target: Node, args: list[Node]) -> Node:
    names = _names(args)
    predicate = args[2] if len(args) == 4 else None
    return _inserting(position, target, names, predicate, args[-1], [Ident(position, names[0]), args[-1]], "entries")


def _transform_entries(position: int, target: Node, args: list[Node]) -> Node:
    predicate = args[2] if len(args) == 4 else None
    return _inserting(position, target, _names(args), predicate, args[-1], [args[-1]], "merge")


def _inserting(
    position: int,
    target: Node,
    names: list[str],
    predicate: Node | None,
    transform: Node,
    inserted: list[Node],
    kind: str,
) -> Node:
    def accumulated() -> Node:
        return Ident(position, ACCUMULATOR)

    step: Node = Call(position, "cel.@mapInsert", [accumulated(), *inserted])
    if predicate is not None:
        step = Call(position, "_?_:_", [predicate, step, accumulated()])
    return Fold(
        position, macro=kind, source=target, variable=names[0], variable2=names[1], initial=MapLiteral(position, []),
        condition=Literal(position, True), step=step, result=accumulated(), predicate=predicate, transform=transform,
    )  # fmt: skip


def _optional_map(flat: bool) -> "_Expander":
    def expander(position: int, target: Node, args: list[Node]) -> Node:
        name = _variable(args[0], f"{'optFlatMap' if flat else 'optMap'}() variable name must be a simple identifier")
        bound = Fold(
            position, macro="bind", source=ListLiteral(position, []), variable="#unused", accumulator=name,
            initial=Call(position, "value", [], target), condition=Literal(position, False),
            step=Ident(position, name), result=args[1], transform=args[1],
        )  # fmt: skip
        then = bound if flat else Call(position, "optional.of", [bound])
        return Call(
            position, "_?_:_", [Call(position, "hasValue", [], target), then, Call(position, "optional.none", [])]
        )

    return expander


def _sort_by(position: int, target: Node, args: list[Node]) -> Node:
    keys = _collecting(position, target, [_variable(args[0])], None, args[1])
    return Call(position, "@sortByAssociatedKeys", [keys], target)


_Expander = Callable[[int, Node, list[Node]], Node]
_MACROS: Final[dict[tuple[str, int], _Expander]] = {
    ("all", 2): _quantifier("all", two=False),
    ("exists", 2): _quantifier("exists", two=False),
    ("exists_one", 2): _quantifier("exists_one", two=False),
    ("existsOne", 2): _quantifier("exists_one", two=False),
    ("all", 3): _quantifier("all", two=True),
    ("exists", 3): _quantifier("exists", two=True),
    ("existsOne", 3): _quantifier("exists_one", two=True),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("sortBy", 2): _sort_by,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entries,
    ("transformMapEntry", 4): _transform_entries,
    ("optMap", 2): _optional_map(flat=False),
    ("optFlatMap", 2): _optional_map(flat=True),
}
