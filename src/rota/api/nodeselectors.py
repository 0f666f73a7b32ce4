"""Node selectors: the `nodeSelectorTerms` of affinity, volumes and the like, compiled to be matched often.

Terms are alternatives; inside a term all expressions must hold. An empty term selects no node. A term that cannot
be understood never matches, and its error is reported only if no other term matched
(`k8s.io/component-helpers/scheduling/corev1/nodeaffinity`, 1.37).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.api import fields, selectors
from rota.api.selectors import Operator, Selector, SelectorError

#: The one field of a node that can be selected by; any other has the empty value.
NAME_FIELD: Final = "metadata.name"

_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorTerm:
    """One alternative; each of `fields` is a field, a value, and whether the two must be equal or must not."""

    labels: Selector | None = None
    fields: tuple[tuple[str, str, bool], ...] = ()
    errors: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str] | None, name: str) -> bool:
        """Whether a node of these labels and this name is selected."""
        if self.errors or (self.labels is not None and not self.labels.matches(labels)):
            return False
        return not name or all(
            ((name if field == NAME_FIELD else "") == value) is equal for field, value, equal in self.fields
        )


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Alternatives, of which one must match."""

    terms: tuple[NodeSelectorTerm, ...]

    def matches(self, labels: Mapping[str, str] | None, name: str) -> bool:
        """Whether a node of these labels and this name is selected by any term."""
        return any(term.matches(labels, name) for term in self.terms)

    @property
    def error(self) -> str | None:
        """What is wrong with the terms that cannot be understood; matters only where no term matches."""
        errors = [error for term in self.terms for error in term.errors]
        return fields.aggregate(errors) if errors else None


def compile_selector(selector: Mapping[str, Any] | msgspec.Struct, *, path: fields.Path = fields.ROOT) -> NodeSelector:
    """A `NodeSelector` object, ready to match."""
    terms = _plain(selector).get("nodeSelectorTerms") or ()
    at = path.child("nodeSelectorTerms")
    compiled = (compile_term(term, path=at.index(position)) for position, term in enumerate(terms))
    return NodeSelector(tuple(term for term in compiled if term is not None))


def compile_term(
    term: Mapping[str, Any] | msgspec.Struct, *, path: fields.Path = fields.ROOT
) -> NodeSelectorTerm | None:
    """One `NodeSelectorTerm`, or None if it is empty and so selects nothing."""
    plain = _plain(term)
    expressions, on_fields = plain.get("matchExpressions") or (), plain.get("matchFields") or ()
    if not expressions and not on_fields:
        return None
    errors: list[str] = []
    labels = _labels(expressions, path.child("matchExpressions"), errors) if expressions else None
    conditions = _fields(on_fields, path.child("matchFields"), errors)
    return NodeSelectorTerm(labels=labels, fields=conditions, errors=tuple(errors))


def _labels(expressions: Sequence[Mapping[str, Any]], path: fields.Path, errors: list[str]) -> Selector:
    found = []
    for position, expression in enumerate(expressions):
        at = path.index(position)
        operator = _OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            errors.append(_unsupported(at, expression, list(_OPERATORS)))
            continue
        values = expression.get("values") or ()
        try:
            found.append(selectors.requirement(expression.get("key", ""), operator, values, path=at))
        except SelectorError as error:
            errors.append(str(error))
    return selectors.combine(found)


def _fields(
    expressions: Sequence[Mapping[str, Any]], path: fields.Path, errors: list[str]
) -> tuple[tuple[str, str, bool], ...]:
    found = []
    for position, expression in enumerate(expressions):
        at = path.index(position)
        operator, values = expression.get("operator", ""), list(expression.get("values") or ())
        if operator not in {"In", "NotIn"}:
            errors.append(_unsupported(at, expression, ["In", "NotIn"]))
        elif len(values) != 1:
            errors.append(str(fields.invalid(at.child("values"), values, "must have one element")))
        else:
            found.append((expression.get("key", ""), values[0], operator == "In"))
    return tuple(found)


def _unsupported(path: fields.Path, expression: Mapping[str, Any], supported: list[str]) -> str:
    return str(fields.not_supported(path.child("operator"), expression.get("operator", ""), supported))


def _plain(value: Mapping[str, Any] | msgspec.Struct) -> Mapping[str, Any]:
    if isinstance(value, msgspec.Struct):
        plain: Mapping[str, Any] = msgspec.to_builtins(value)
        return plain
    return value
