"""Evaluates the rules (`x-kubernetes-validations`) of a schema on an object.

The schema becomes a tree of the nodes that have rules, here or below; a schema without rules has none, and its objects
cost nothing. All rules of an object share one cost budget.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import fields
from rota.api.cel.environment import Outcome
from rota.api.cel.values import NONE, CostExceeded, Optional
from rota.api.fields import ErrorType, FieldError, Path
from rota.apiserver.crd import ratcheting
from rota.apiserver.crd.rule_compilation import Rule, RuleCompiler
from rota.apiserver.crd.rule_types import Declared, declare, escape, value_of
from rota.apiserver.crd.structure import JsonSchema

#: The cost budget of all rules of one object.
BUDGET: Final = 10_000_000
_MOST_MESSAGE_BYTES: Final = 5 * 1024
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_CORRELATED: Final = frozenset({None, "granular", "atomic"})


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RuleNode:
    """A node of a schema with rules, here or below."""

    declared: Declared
    schema_type: str
    rules: tuple[Rule, ...]
    properties: Mapping[str, "RuleNode"]
    additional: "RuleNode | None"
    items: "RuleNode | None"
    alternatives: tuple["RuleNode", ...]
    list_keys: tuple[str, ...]
    #: Whether the entries of old and new maps belong together by their keys.
    correlated: bool


def compile_rules(schema: JsonSchema) -> RuleNode | None:
    """The rules of a schema; None if it has none."""
    if not _has_rules(schema):
        return None
    return _node(schema, schema, declare(schema, is_object=True))


def _has_rules(schema: JsonSchema) -> bool:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    parts = [*(schema.get("properties") or {}).values(), items, additional, *(schema.get("allOf") or ())]
    return bool(schema.get("x-kubernetes-validations")) or any(
        _has_rules(part) for part in parts if isinstance(part, dict)
    )


def _node(validation: JsonSchema, schema: JsonSchema, declared: Declared | None) -> RuleNode | None:
    """A node for the rules of `validation` about values of `schema`; they differ inside of allOf only."""
    if declared is None:
        return None
    rules: tuple[Rule, ...] = ()
    if validation.get("x-kubernetes-validations"):
        compiler = RuleCompiler(declared)
        rules = tuple(compiler.compile(one, schema) for one in validation["x-kubernetes-validations"])
    properties = {}
    for name, part in (validation.get("properties") or {}).items():
        own = (schema.get("properties") or {}).get(name)
        node = _node(part, own, declared.properties.get(name)) if own is not None else None
        if node is not None:
            properties[name] = node
    items = _inner(validation, schema, "items", declared)
    additional = _inner(validation, schema, "additionalProperties", declared)
    nested = (_node(part, schema, declared) for part in validation.get("allOf") or ())
    alternatives = tuple(node for node in nested if node is not None)
    if not (rules or properties or items or additional or alternatives):
        return None
    is_map_list = schema.get("x-kubernetes-list-type") == "map"
    return RuleNode(
        declared=declared,
        schema_type=schema.get("type") or "",
        rules=rules,
        properties=properties,
        additional=additional,
        items=items,
        alternatives=alternatives,
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()) if is_map_list else (),
        correlated=schema.get("x-kubernetes-map-type") in _CORRELATED,
    )


def _inner(validation: JsonSchema, schema: JsonSchema, name: str, declared: Declared) -> RuleNode | None:
    part, own = validation.get(name), schema.get(name)
    return _node(part, own, declared.element) if isinstance(part, dict) and isinstance(own, dict) else None


@dataclass(frozen=True, slots=True)
class _Place:
    """A value, what it was before, and whether an error about it is old."""

    path: Path
    value: Any
    old: Any
    #: The same as CEL values.
    own: Any
    own_old: Any
    #: Whether the value, or the nearest part around it that can be compared, is what it was.
    unchanged: bool
    comparable: bool


class _Exhausted(Exception):
    """The budget is used up, or a rule cost too much: no further rule runs."""


class RuleCheck:
    """One check of one object. `warnings` are errors that were there before the update."""

    def __init__(self, root: RuleNode) -> None:
        self._root: Final = root
        self._budget = BUDGET
        self.errors: Final[list[FieldError]] = []
        self.warnings: Final[list[str]] = []

    def run(self, new: Mapping[str, Any], old: Mapping[str, Any] | None) -> None:
        """Evaluate all rules; `old` is None for a new object."""
        declared = self._root.declared
        own_old = value_of(old, declared) if old is not None else None
        unchanged = old is not None and ratcheting.same(new, old)
        place = _Place(fields.ROOT, new, old, value_of(new, declared), own_old, unchanged, old is not None)
        try:
            self._node(self._root, place)
        except _Exhausted:
            return

    def _node(self, node: RuleNode, place: _Place) -> None:
        if place.value is None:
            return
        if node.rules:
            self._rules(node, place)
        for alternative in node.alternatives:
            self._node(alternative, place)
        if isinstance(place.value, list):
            if node.items is not None:
                for below in _elements(node, place):
                    self._node(node.items, below)
        elif isinstance(place.value, dict):
            for name in place.value:
                if node.additional is not None:
                    self._node(node.additional, _entry(node, place, name, place.path.key(name)))
                if name in node.properties:
                    self._node(node.properties[name], _entry(node, place, name, place.path.child(name)))

    def _rules(self, node: RuleNode, place: _Place) -> None:
        variables = {"self": place.own}
        if place.old is not None:
            variables["oldSelf"] = place.own_old
        optional = {
            "self": place.own, "oldSelf": Optional(place.own_old, has=True) if place.old is not None else NONE
        }  # fmt: skip
        for rule in node.rules:
            if rule.program is None:
                if rule.error:
                    self._fail(node, place, f"rule compile error: {rule.error}")
                continue
            if rule.uses_old and place.old is None and not rule.optional_old:
                continue
            outcome = rule.program.evaluate(optional if rule.optional_old else variables)
            self._spend(node, place, outcome)
            if outcome.error is not None:
                self._error(node, place, rule, outcome)
            elif outcome.value is not True:
                self._refuse(node, place, rule, variables)

    def _spend(self, node: RuleNode, place: _Place, outcome: Outcome) -> None:
        if outcome.cost > self._budget:
            self._fail(node, place, _OUT_OF_BUDGET)
            raise _Exhausted
        self._budget -= outcome.cost

    def _fail(self, node: RuleNode, place: _Place, text: str) -> None:
        self.errors.append(fields.invalid(place.path, node.schema_type, text))

    def _error(self, node: RuleNode, place: _Place, rule: Rule, outcome: Outcome) -> None:
        text = str(outcome.error)
        if text.startswith("no such overload"):
            why = "call arguments did not match a supported operator, function or macro signature for rule"
            self._fail(node, place, f"'{text}': {why}: {rule.shown}")
        elif isinstance(outcome.error, CostExceeded):
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._fail(node, place, f"'{text}': {why}: {rule.shown}")
            raise _Exhausted
        else:
            self._fail(node, place, f"{text} evaluating rule: {rule.shown}")

    def _refuse(self, node: RuleNode, place: _Place, rule: Rule, variables: Mapping[str, Any]) -> None:
        path = Path(f"{place.path.text}{_joined(place.path, rule.field_path)}") if rule.field_path else place.path
        detail = ""
        exhausted = False
        if rule.message is not None:
            detail, exhausted = self._message(rule, variables)
        if exhausted:
            self._add(fields.invalid(path, node.schema_type, detail), rule, place)
            raise _Exhausted
        message = (rule.declared.get("message") or "").strip()
        self._add(_field_error(path, node, place, rule, detail or message or f"failed rule: {rule.shown}"), rule, place)

    def _add(self, error: FieldError, rule: Rule, place: _Place) -> None:
        if not rule.uses_old and place.unchanged:
            self.warnings.append(str(error))
        else:
            self.errors.append(error)

    def _message(self, rule: Rule, variables: Mapping[str, Any]) -> tuple[str, bool]:
        """The text of a message expression, empty if it fails; and whether nothing further may run."""
        if rule.message is None:
            return "", False
        outcome = rule.message.evaluate(variables)
        if outcome.cost > self._budget:
            return f"messageExpression {_OUT_OF_BUDGET.replace('validation', 'evaluation', 1)}", True
        if isinstance(outcome.error, CostExceeded):
            why = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            return f'{why}: "{rule.declared["messageExpression"]}"', True
        self._budget -= outcome.cost
        if outcome.error is not None or not isinstance(outcome.value, str):
            return "", False
        text = outcome.value.strip()
        return ("" if len(text.encode()) > _MOST_MESSAGE_BYTES or "\n" in text else text), False


def _joined(path: Path, below: str) -> str:
    return below if not path.text or below.startswith("[") else f".{below}"


def _field_error(path: Path, node: RuleNode, place: _Place, rule: Rule, detail: str) -> FieldError:
    omit = node.schema_type in ("object", "array")
    match rule.declared.get("reason"):
        case "FieldValueForbidden":
            return fields.forbidden(path, detail)
        case "FieldValueRequired":
            return fields.required(path, detail)
        case "FieldValueDuplicate":
            if omit:
                return FieldError(ErrorType.DUPLICATE, str(path))
            return fields.duplicate(path, place.value)
    if omit:
        return FieldError(ErrorType.INVALID, str(path), detail)
    return fields.invalid(path, place.value, detail)


def _entry(node: RuleNode, place: _Place, name: str, path: Path) -> _Place:
    has_old = isinstance(place.old, dict) and node.correlated
    old = place.old.get(name) if has_old else None
    key = escape(name) if node.declared.kind == "object" else name
    part = node.declared.properties.get(name)
    own, own_old = _member(place.own, key), _member(place.own_old, key) if old is not None else None
    if key is None and part is not None:
        own, own_old = value_of(place.value[name], part), value_of(old, part)
    return _below(place, path, place.value[name], old, own, own_old, has_old=has_old)


def _member(value: Any, key: str | None) -> Any:
    return value.get(key) if isinstance(value, dict) and key is not None else None


def _elements(node: RuleNode, place: _Place) -> Iterator[_Place]:
    earlier: dict[str, tuple[Any, Any]] = {}
    by_key = bool(node.list_keys) and isinstance(place.old, list)
    if by_key:
        pairs = zip(place.old, place.own_old, strict=True)
        earlier = {_identity(one, node.list_keys): (one, own) for one, own in pairs}
    for number, value in enumerate(place.value):
        old, own_old = earlier.get(_identity(value, node.list_keys), (None, None)) if by_key else (None, None)
        yield _below(place, place.path.index(number), value, old, place.own[number], own_old, has_old=by_key)


def _identity(item: Any, keys: Sequence[str]) -> str:
    return repr([item.get(key) if isinstance(item, dict) else item for key in keys])


def _below(place: _Place, path: Path, value: Any, old: Any, own: Any, own_old: Any, *, has_old: bool) -> _Place:
    comparable = place.comparable and has_old and old is not None
    unchanged = ratcheting.same(value, old) if comparable else place.unchanged
    return _Place(path, value, old, own, own_old, unchanged, comparable)
