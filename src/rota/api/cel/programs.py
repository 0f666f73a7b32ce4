"""Evaluation: a checked tree becomes nested Python functions, which count cost as they run.

The cost of a step is the stock server's, so that the same expressions run into the same limits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rota.api.cel import call_costs
from rota.api.cel.authorization import AUTHORIZATION
from rota.api.cel.collections import COLLECTIONS
from rota.api.cel.declarations import TYPE_NAMES
from rota.api.cel.estimation import LIST_COST, MAP_COST, OBJECT_COST
from rota.api.cel.folds import Folds
from rota.api.cel.frames import Frame, Run
from rota.api.cel.kubernetes import KUBERNETES
from rota.api.cel.operators import STANDARD, Function
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
from rota.api.cel.values import (
    NONE,
    CostExceeded,
    EvaluationError,
    ObjectValue,
    Optional,
    no_overload,
    to_key,
)

_FUNCTIONS: Final[Mapping[str, Function]] = {**STANDARD, **COLLECTIONS, **KUBERNETES, **AUTHORIZATION}
MISSING: Final = object()


def translate(root: Node, variables: Sequence[str], functions: Mapping[str, Function]) -> tuple[Run, int]:
    """The function of a checked tree, and how many slots its frames have; `variables` are the first ones."""
    translator = _Translator(variables, functions)
    run = translator.value(root)
    return run, translator.slots


class _Translator:
    def __init__(self, variables: Sequence[str], functions: Mapping[str, Function]) -> None:
        self._places: Final = {name: [number] for number, name in enumerate(variables)}
        self._functions: Final = functions
        self.slots = len(variables)

    def push(self, name: str) -> int:
        """A slot for a local variable."""
        self._places.setdefault(name, []).append(self.slots)
        self.slots += 1
        return self.slots - 1

    def pop(self, name: str) -> None:
        """The end of a local variable."""
        self._places[name].pop()

    def value(self, node: Node) -> Run:
        """The function of a node."""
        match node:
            case Literal():
                constant = node.value
                return lambda _: constant
            case Ident() | Select():
                return self._chain(node, base_cost=1)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case ObjectLiteral():
                return self._object(node)
            case Fold():
                return Folds(self).translate(node)
        raise TypeError(node)

    def _attribute(self, node: Node) -> Run:
        """The function of a branch of a conditional: an attribute there has no cost of its own."""
        if isinstance(node, Ident | Select):
            return self._chain(node, base_cost=0)
        return self.value(node)

    def _variable(self, name: str) -> Run:
        stack = self._places.get(name)
        if stack:
            place = stack[-1]

            def variable(frame: Frame) -> Any:
                found = frame.slots[place]
                if found is MISSING:
                    raise EvaluationError(f"no such attribute(s): {name}")
                return found

            return variable
        constant = TYPE_NAMES[name].params[0]
        return lambda _: constant

    def _chain(self, node: Node, *, base_cost: int) -> Run:
        """Fields of fields of something."""
        names: list[str] = []
        tested = isinstance(node, Select) and node.test
        while isinstance(node, Select) and not node.qualified:
            names.append(node.field)
            node = node.operand
        names.reverse()
        cost = len(names) + (0 if tested else base_cost)
        if isinstance(node, Ident):
            base = self._variable(node.name)
        elif isinstance(node, Select):
            base = self._variable(node.qualified)
        else:
            base = self.value(node)
            cost += not _is_index(node)
        if not names:

            def plain(frame: Frame) -> Any:
                frame.charge(cost)
                return base(frame)

            return plain
        *way, last = names
        if tested:

            def test(frame: Frame) -> bool:
                frame.charge(cost)
                found = base(frame)
                for name in way:
                    found = select(found, name)
                return is_set(found, last)

            return test

        def chain(frame: Frame) -> Any:
            frame.charge(cost)
            found = base(frame)
            for name in names:
                found = select(found, name)
            return found

        return chain

    def _call(self, node: Call) -> Run:
        match node.function:
            case "_&&_":
                return _logic(self.value(node.args[0]), self.value(node.args[1]), decisive=False)
            case "_||_":
                return _logic(self.value(node.args[0]), self.value(node.args[1]), decisive=True)
            case "_?_:_":
                return _conditional(self.value(node.args[0]), *(self._attribute(one) for one in node.args[1:]))
            case "_[_]" | "_[?_]":
                return self._index(node)
            case "_?._":
                return self._optional_select(node)
            case "or" | "orValue":
                return self._or(node)
        args = [self.value(one) for one in ([node.target, *node.args] if node.target is not None else node.args)]
        function = _FUNCTIONS.get(node.function) or self._functions[node.function]
        return _called(function, args, call_costs.of(node.function, node.overloads))

    def _index(self, node: Call) -> Run:
        function = STANDARD[node.function]
        operand, key = self.value(node.args[0]), self.value(node.args[1])
        # The key is a qualifier of its operand: a variable in it costs nothing more, a computed key one.
        extra = 1 if isinstance(node.args[1], Literal) else 0 if isinstance(node.args[1], Ident | Select) else 1
        extra += not (isinstance(node.args[0], Ident | Select) or _is_index(node.args[0]))

        def index(frame: Frame) -> Any:
            frame.charge(extra)
            return function(operand(frame), key(frame))

        return index

    def _optional_select(self, node: Call) -> Run:
        operand, field = self.value(node.args[0]), node.args[1]
        name = field.value if isinstance(field, Literal) else ""

        def optional_select(frame: Frame) -> Any:
            frame.charge(1)
            found = operand(frame)
            if isinstance(found, Optional):
                if not found.has:
                    return NONE
                found = found.value
            if not isinstance(found, dict):
                raise no_overload(found)
            value = found.get(name, MISSING)
            return NONE if value is MISSING else Optional(value, has=True)

        return optional_select

    def _or(self, node: Call) -> Run:
        target = self.value(node.target) if node.target is not None else self.value(node.args[0])
        other = self.value(node.args[-1])
        unwrap = node.function == "orValue"

        def either(frame: Frame) -> Any:
            frame.charge(1)
            found = target(frame)
            if not isinstance(found, Optional):
                raise no_overload(found)
            if not found.has:
                return other(frame)
            return found.value if unwrap else found

        return either

    def _list(self, node: ListLiteral) -> Run:
        elements = [self.value(one) for one in node.elements]
        if not node.optional:

            def plain(frame: Frame) -> list[Any]:
                frame.charge(LIST_COST)
                return [one(frame) for one in elements]

            return plain
        optional = node.optional

        def sparse(frame: Frame) -> list[Any]:
            frame.charge(LIST_COST)
            found = []
            for number, one in enumerate(elements):
                value = one(frame)
                if number not in optional:
                    found.append(value)
                elif not isinstance(value, Optional):
                    raise no_overload(value)
                elif value.has:
                    found.append(value.value)
            return found

        return sparse

    def _map(self, node: MapLiteral) -> Run:
        entries = [(self.value(key), self.value(value), optional) for key, value, optional in node.entries]

        def made(frame: Frame) -> dict[Any, Any]:
            frame.charge(MAP_COST)
            found: dict[Any, Any] = {}
            for key_of, value_of, optional in entries:
                key, value = to_key(key_of(frame)), value_of(frame)
                if optional:
                    if not isinstance(value, Optional):
                        raise no_overload(value)
                    if not value.has:
                        continue
                    value = value.value
                if key in found:
                    raise EvaluationError(f"Failed with repeated key: {key}")
                found[key] = value
            return found

        return made

    def _object(self, node: ObjectLiteral) -> Run:
        name = node.name
        fields = [(field, self.value(value), optional) for field, value, optional, _ in node.fields]

        def made(frame: Frame) -> ObjectValue:
            frame.charge(OBJECT_COST)
            found = ObjectValue(name)
            for field, value_of, optional in fields:
                value = value_of(frame)
                if optional and isinstance(value, Optional):
                    if not value.has:
                        continue
                    value = value.value
                found[field] = value
            return found

        return made


def _is_index(node: Node) -> bool:
    return isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._")


def select(value: Any, field: str) -> Any:
    """A field of a value."""
    if isinstance(value, dict):
        found = value.get(field, MISSING)
        if found is MISSING:
            raise EvaluationError(f"no such key: {field}")
        return found
    if isinstance(value, Optional):
        if not value.has or not isinstance(value.value, dict):
            return NONE
        found = value.value.get(field, MISSING)
        return NONE if found is MISSING else Optional(found, has=True)
    if value is None:
        raise EvaluationError(f"no such key: {field}")
    raise no_overload(value)


def is_set(value: Any, field: str) -> bool:
    """Whether a value has a field."""
    if isinstance(value, Optional):
        return value.has and is_set(value.value, field)
    if isinstance(value, dict):
        return field in value
    if value is None:
        return False
    raise no_overload(value)


def _called(function: Function, args: list[Run], cost: Callable[[Sequence[Any], Any], int] | None) -> Run:
    if cost is None:
        if len(args) == 1:
            (only,) = args

            def unary(frame: Frame) -> Any:
                value = only(frame)
                frame.charge(1)
                return function(value)

            return unary
        if len(args) == 2:
            first, second = args

            def binary(frame: Frame) -> Any:
                one = first(frame)
                other = second(frame)
                frame.charge(1)
                return function(one, other)

            return binary

    def call(frame: Frame) -> Any:
        values = [one(frame) for one in args]
        if cost is None:
            frame.charge(1)
            return function(*values)
        # Costs that depend on the arguments only are known before the call, and limit it.
        frame.charge(cost(values, None))
        result = function(*values)
        frame.charge(cost(values, result) - cost(values, None))
        return result

    return call


def _logic(left: Run, right: Run, *, decisive: bool) -> Run:
    """`&&` and `||`: a decisive value on either side decides, even if the other side fails."""

    def logic(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        for side in (left, right):
            try:
                value = side(frame)
                if not isinstance(value, bool):
                    raise no_overload(value)
            except CostExceeded:
                raise
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive
        if failure is not None:
            raise failure
        return not decisive

    return logic


def _conditional(condition: Run, then: Run, otherwise: Run) -> Run:
    def conditional(frame: Frame) -> Any:
        value = condition(frame)
        if not isinstance(value, bool):
            raise no_overload(value)
        return then(frame) if value else otherwise(frame)

    return conditional
