"""The type checker: writes types and overloads into a syntax tree, or collects the errors."""

from collections.abc import Callable, Mapping
from typing import Final

from rota.api.cel import types
from rota.api.cel.declarations import FUNCTIONS, TYPE_NAMES, Overload
from rota.api.cel.syntax import (
    Call,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    ObjectLiteral,
    Select,
)
from rota.api.cel.types import BOOL, DYN, ERROR, Type
from rota.api.cel.values import type_of

#: The fields of an object type by name; None if there is no such type.
Fields = Callable[[str], Mapping[str, Type] | None]
#: Functions that exist in an environment only, by name.
Functions = Mapping[str, tuple[Overload, ...]]


class Checker:
    """Checks one expression. `errors` are positions and texts."""

    def __init__(self, variables: Mapping[str, Type], fields: Fields, functions: Functions) -> None:
        self._scopes: Final[list[Mapping[str, Type]]] = [TYPE_NAMES, variables]
        self._fields: Final = fields
        self._functions: Final = functions
        self._mapping: types.Mapping = {}
        self._count = 0
        self.errors: Final[list[tuple[int, str]]] = []
        #: The variables that the expression names.
        self.used: Final[set[str]] = set()

    def check(self, root: Node) -> None:
        """Check a tree and write final types into it."""
        self._check(root)
        self._finish(root)

    def _finish(self, node: Node) -> None:
        node.type = types.substitute(self._mapping, node.type, to_dyn=True)
        for child in node.children():
            self._finish(child)

    def _error(self, node: Node, text: str) -> None:
        self.errors.append((node.position, text))

    def _check(self, node: Node) -> None:
        match node:
            case Literal():
                node.type = type_of(node.value)
            case Ident():
                self._ident(node)
            case Select():
                self._select(node)
            case Call():
                self._call(node)
            case ListLiteral():
                self._list(node)
            case MapLiteral():
                self._map(node)
            case ObjectLiteral():
                self._object(node)
            case Fold():
                self._fold(node)

    def _lookup(self, name: str) -> Type | None:
        name = name.removeprefix(".")
        for level, scope in reversed(list(enumerate(self._scopes))):
            found = scope.get(name)
            if found is not None:
                if level == 1:
                    self.used.add(name)
                return found
        return None

    def _ident(self, node: Ident) -> None:
        found = self._lookup(node.name)
        if found is None:
            node.type = ERROR
            self._error(node, f"undeclared reference to '{node.name.removeprefix('.')}' (in container '')")
            return
        node.name = node.name.removeprefix(".")
        node.type = found

    def _select(self, node: Select) -> None:
        name = qualified(node)
        if name is not None and not node.test:
            found = self._lookup(name)
            if found is not None:
                node.type, node.qualified = found, name
                return
        result = self._field(node, node.operand, node.field, optional=False)
        node.type = BOOL if node.test else result

    def _field(self, node: Node, operand: Node, field: str, *, optional: bool) -> Type:
        self._check(operand)
        target, was_optional = types.unwrap_optional(types.substitute(self._mapping, operand.type))
        result = ERROR
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            declared = self._fields(target.name)
            if declared is None:
                self._error(node, f"unexpected failed resolution of '{target.name}'")
            elif field in declared:
                result = declared[field]
            else:
                self._error(node, f"undefined field '{field}'")
        elif target.kind == "param":
            self._assign(DYN, target)
            result = DYN
        else:
            if target.kind not in ("dyn", "error"):
                self._error(node, f"type '{target}' does not support field selection")
            result = DYN
        result = types.substitute(self._mapping, result)
        return types.optional_of(result) if optional or was_optional else result

    def _call(self, node: Call) -> None:
        if node.function == "_?._":
            field = node.args[1]
            name = field.value if isinstance(field, Literal) else ""
            self._check(field)
            node.type = self._field(node, node.args[0], name, optional=True)
            node.overloads = ("select_optional_field",)
            return
        for arg in node.args:
            self._check(arg)
        if node.target is not None:
            prefix = qualified(node.target)
            name = f"{prefix.removeprefix('.')}.{node.function}" if prefix is not None else ""
            if name in FUNCTIONS or name in self._functions:
                node.function, node.target = name, None
            else:
                self._check(node.target)
        overloads = FUNCTIONS.get(node.function) or self._functions.get(node.function)
        if overloads is None:
            self._error(node, f"undeclared reference to '{node.function}' (in container '')")
            node.type = ERROR
            return
        self._resolve(node, overloads)

    def _resolve(self, node: Call, overloads: tuple[Overload, ...]) -> None:
        args = [node.target, *node.args] if node.target is not None else node.args
        arg_types = tuple(arg.type for arg in args)
        if node.function in ("_&&_", "_||_"):
            self._logic(node)
            return
        result: Type | None = None
        ids: list[str] = []
        for overload in overloads:
            if overload.member != (node.target is not None):
                continue
            fresh = {one: self._variable() for one in overload.parameters}
            wanted = tuple(types.substitute(fresh, one) for one in overload.args)
            mapping = types.assignable_all(self._mapping, arg_types, wanted)
            if mapping is None:
                continue
            self._mapping = mapping
            ids.append(overload.id)
            found = types.substitute(mapping, types.substitute(fresh, overload.result))
            if result is None:
                result = found
            elif not types.is_dyn(result) and found != result:
                result = DYN
        if result is None:
            node.type = ERROR
            shown = [str(types.substitute(self._mapping, one, to_dyn=True)) for one in arg_types]
            target = f"{shown.pop(0)}." if node.target is not None else ""
            self._error(
                node, f"found no matching overload for '{node.function}' applied to '{target}({', '.join(shown)})'"
            )
            return
        node.type, node.overloads = result, tuple(ids)

    def _logic(self, node: Call) -> None:
        node.type, node.overloads = BOOL, ("logical_and" if node.function == "_&&_" else "logical_or",)
        for arg in node.args:
            if not self._assign(arg.type, BOOL):
                self._mismatch(arg, BOOL, arg.type)
                node.type = ERROR

    def _mismatch(self, node: Node, expected: Type, found: Type) -> None:
        self._error(node, f"expected type '{expected}' but found '{found}'")

    def _assign(self, one: Type, other: Type) -> bool:
        mapping = types.assignable(self._mapping, one, other)
        if mapping is None:
            return False
        self._mapping = mapping
        return True

    def _variable(self) -> Type:
        self._count += 1
        return types.parameter(f"_var{self._count - 1}")

    def _join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self._assign(previous, current):
            return types.most_general(previous, current)
        return DYN

    def _unwrapped(self, node: Node, *, optional: bool) -> Type:
        if not optional:
            return node.type
        inner, was = types.unwrap_optional(node.type)
        if not was and not types.is_dyn(inner):
            self._mismatch(node, types.optional_of(inner), inner)
        return inner

    def _list(self, node: ListLiteral) -> None:
        element: Type | None = None
        for number, child in enumerate(node.elements):
            self._check(child)
            element = self._join(element, self._unwrapped(child, optional=number in node.optional))
        node.type = types.list_of(element if element is not None else self._variable())

    def _map(self, node: MapLiteral) -> None:
        keys: Type | None = None
        elements: Type | None = None
        for key, value, optional in node.entries:
            self._check(key)
            keys = self._join(keys, key.type)
            self._check(value)
            elements = self._join(elements, self._unwrapped(value, optional=optional))
        if keys is None or elements is None:
            keys, elements = self._variable(), self._variable()
        node.type = types.map_of(keys, elements)

    def _object(self, node: ObjectLiteral) -> None:
        name = node.name.removeprefix(".")
        declared = self._fields(name)
        if declared is None:
            self._error(node, f"undeclared reference to '{name}' (in container '')")
            node.type = ERROR
            return
        node.name, node.type = name, types.object_of(name)
        for field, value, optional, position in node.fields:
            self._check(value)
            wanted = declared.get(field)
            if wanted is None:
                self.errors.append((position, f"undefined field '{field}'"))
                continue
            found = self._unwrapped(value, optional=optional)
            if not self._assign(wanted, found):
                text = f"expected type of field '{field}' is '{wanted}' but provided type is '{found}'"
                self.errors.append((position, text))

    def _fold(self, node: Fold) -> None:
        self._check(node.source)
        self._check(node.initial)
        source = types.substitute(self._mapping, node.source.type)
        self._scopes.append({node.accumulator: node.initial.type})
        first, second = self._range(node, source)
        self._scopes.append({node.variable: first, **({node.variable2: second} if node.variable2 else {})})
        self._check(node.condition)
        self._expect(node.condition, BOOL)
        self._check(node.step)
        self._expect(node.step, node.initial.type)
        self._scopes.pop()
        self._check(node.result)
        self._scopes.pop()
        node.type = types.substitute(self._mapping, node.result.type)

    def _range(self, node: Fold, source: Type) -> tuple[Type, Type]:
        if source.kind == "list":
            return (types.INT, source.params[0]) if node.variable2 else (source.params[0], DYN)
        if source.kind == "map":
            return source.params[0], source.params[1]
        if source.kind in ("dyn", "error", "param"):
            self._assign(DYN, source)
            return DYN, DYN
        self._error(
            node.source,
            f"expression of type '{source}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def _expect(self, node: Node, wanted: Type) -> None:
        if not self._assign(wanted, node.type):
            self._mismatch(node, wanted, node.type)


def qualified(node: Node) -> str | None:
    """The dotted name that a node spells, if it is one."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test:
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(names)])
