"""Checks calls of `format` whose text and list of arguments are written out: clauses must fit the types."""

from typing import Final

from rota.api.cel.formatting import CLAUSE
from rota.api.cel.syntax import Call, ListLiteral, Literal, MapLiteral, Node

_KINDS: Final = {
    "d": ({"int", "uint"}, "decimal clause can only be used on integers, was given"),
    "f": ({"double", "string"}, "fixed-point clause can only be used on doubles, was given"),
    "e": ({"double", "string"}, "scientific clause can only be used on doubles, was given"),
    "b": ({"int", "uint", "bool"}, "only integers and bools can be formatted as binary, was given"),
    "o": ({"int", "uint"}, "octal clause can only be used on integers, was given"),
    "x": (
        {"int", "uint", "string", "bytes"},
        "only integers, byte buffers, and strings can be formatted as hex, was given",
    ),
    "s": (
        {
            *("list", "map", "int", "uint", "double", "bool", "string"),
            *("timestamp", "bytes", "duration", "type", "null"),
        },
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
        "timestamps, was given",
    ),
}


def errors(node: Node) -> list[tuple[int, str]]:
    """The errors of all such calls: positions and texts."""
    found = [each for child in node.children() for each in errors(child)]
    if isinstance(node, Call) and node.function == "format" and isinstance(node.target, Literal):
        args = node.args[0]
        if isinstance(args, ListLiteral) and isinstance(node.target.value, str):
            found += _call_errors(node, node.target.value, args.elements)
    return found


def _call_errors(node: Call, text: str, args: list[Node]) -> list[tuple[int, str]]:
    used = 0
    for clause in CLAUSE.finditer(text):
        verb = clause[2]
        if verb == "%" and clause[1] is None:
            continue
        if used >= len(args):
            return [(node.position, f"index {used} out of range")]
        kinds, why = _KINDS.get(verb.lower() if verb == "X" else verb, (None, ""))
        if kinds is None:
            text = f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
            return [(node.position, text if verb else "unexpected end of string")]
        wrong = _wrong(args[used], kinds, deep=verb == "s")
        if wrong is not None:
            return [(wrong.position, f"error during formatting: {why} {wrong.type.name}")]
        used += 1
    if used < len(args):
        why = f"too many arguments supplied to string.format (expected {used}, got {len(args)})"
        return [(node.position, why)]
    return []


def _wrong(node: Node, kinds: set[str], *, deep: bool) -> Node | None:
    """The part of an argument that does not fit its clause."""
    if node.type.kind not in kinds and node.type.kind != "dyn":
        return node
    if not deep:
        return None
    parts: list[Node] = []
    if isinstance(node, ListLiteral | MapLiteral):
        parts = list(node.children())
    return next((found for one in parts if (found := _wrong(one, kinds, deep=True)) is not None), None)
