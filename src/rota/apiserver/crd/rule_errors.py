"""The errors of the rules of a definition: what does not compile, and what could cost too much."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rota.api import fields
from rota.api.fields import FieldError, Path
from rota.apiserver.crd import field_paths
from rota.apiserver.crd.rule_compilation import Rule, RuleCompiler
from rota.apiserver.crd.rule_types import REQUEST_BYTES, Declared, declare
from rota.apiserver.crd.structure import JsonSchema

#: The most that one rule, and all rules of a version, may cost by estimation.
RULE_LIMIT: Final = 10_000_000
VERSION_LIMIT: Final = 100_000_000
_MOST: Final = 2**64 - 1
_RULES: Final = "x-kubernetes-validations"
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_REMEDY: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


@dataclass(slots=True)
class _Costs:
    total: int = 0
    expensive: list[tuple[int, Path]] = field(default_factory=list)

    def add(self, path: Path, cost: int) -> None:
        self.total = min(self.total + cost, _MOST)
        if cost >= VERSION_LIMIT // 100:
            self.expensive = sorted([*self.expensive, (cost, path)], key=lambda one: -one[0])[:4]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a node is."""

    declared: Declared | None
    #: How often values of the node occur in an object; None if nothing limits it.
    times: int | None
    #: The schema in which old and new values cannot be matched, if the node is below one.
    unmatched: Path | None = None


def rule_errors(schema: JsonSchema, path: Path) -> list[FieldError]:
    """All errors of the rules of a schema that is structural and has no other errors."""
    costs = _Costs()
    place = _Place(declared=declare(schema, is_object=True), times=1)
    found = list(_errors(schema, path, place, costs))
    if costs.total > VERSION_LIMIT:
        what = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        found += [fields.forbidden(where, what) for _, where in costs.expensive]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found.append(fields.forbidden(path, _too_expensive(what, costs.total, VERSION_LIMIT)))
    return found


def form_errors(schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    """The errors of one node's rules that need no compilation."""
    for number, rule in enumerate(schema.get(_RULES) or ()):
        at = path.child(_RULES).index(number)
        text, message = rule.get("rule") or "", rule.get("message") or ""
        if not text.strip():
            yield fields.required(at.child("rule"), "rule is not specified")
        elif message and not message.strip():
            yield fields.invalid(at.child("message"), message, "must be non-empty if specified")
        elif _has_lines(message.strip()):
            yield fields.invalid(at.child("message"), message, "must not contain line breaks")
        elif _has_lines(text.strip()) and not message.strip():
            yield fields.required(at.child("message"), "message must be specified if rule contains line breaks")
        expression, reason = rule.get("messageExpression") or "", rule.get("reason")
        if expression and not expression.strip():
            yield fields.required(at.child("messageExpression"), "messageExpression must be non-empty if specified")
        if reason is not None and reason not in _REASONS:
            yield fields.not_supported(at.child("reason"), reason, _REASONS)
        yield from _field_path_errors(rule.get("fieldPath") or "", schema, at.child("fieldPath"))


def _field_path_errors(text: str, schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    if not text:
        return
    if not text.strip():
        yield fields.invalid(path, text, "must be non-empty if specified")
    if _has_lines(text):
        yield fields.invalid(path, text, "must not contain line breaks")
    try:
        field_paths.read(text, schema)
    except ValueError:
        yield fields.invalid(path, text, "must be a valid path")


def _has_lines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _errors(schema: JsonSchema, path: Path, place: _Place, costs: _Costs) -> Iterator[FieldError]:
    additional, items = schema.get("additionalProperties"), schema.get("items")
    below = replace(place, times=_times(schema, place.times))
    declared = place.declared
    if isinstance(additional, dict):
        element = declared.element if declared is not None else None
        yield from _errors(additional, path.child("additionalProperties"), replace(below, declared=element), costs)
    for name, part in (schema.get("properties") or {}).items():
        own = declared.properties.get(name) if declared is not None else None
        yield from _errors(part, path.child("properties").key(name), replace(below, declared=own), costs)
    if isinstance(items, dict):
        element = declared.element if declared is not None else None
        unmatched = place.unmatched
        if unmatched is None and (schema.get("x-kubernetes-list-type") or "atomic") != "map":
            unmatched = path
        yield from _errors(items, path.child("items"), replace(below, declared=element, unmatched=unmatched), costs)
    if schema.get(_RULES):
        yield from _node_errors(schema, path.child(_RULES), place, costs)


def _times(schema: JsonSchema, so_far: int | None) -> int | None:
    if so_far is None:
        return None
    limit: int | None = 1
    if schema.get("type") == "array":
        limit = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        limit = schema.get("maxProperties")
    return None if limit is None else min(so_far * max(limit, 0), _MOST)


def _node_errors(schema: JsonSchema, path: Path, place: _Place, costs: _Costs) -> Iterator[FieldError]:
    if place.declared is None:
        why = "failed to convert to declType for CEL validation rules"
        yield FieldError(fields.ErrorType.INTERNAL, str(path), why)
        return
    compiler = RuleCompiler(place.declared)
    times = place.times if place.times is not None else REQUEST_BYTES // (place.declared.least_bytes + 1)
    for number, declared in enumerate(schema[_RULES]):
        rule = compiler.compile(declared, schema)
        yield from _compiled_errors(rule, path.index(number), times, costs)
        at = path.index(number)
        if rule.uses_old:
            if place.unmatched is not None:
                why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.unmatched}"
                yield fields.invalid(at.child("rule"), declared.get("rule") or "", why)
        elif declared.get("optionalOldSelf") is not None:
            why = "may not be set if oldSelf is not used in rule"
            yield fields.invalid(at.child("optionalOldSelf"), declared["optionalOldSelf"], why)


def _compiled_errors(rule: Rule, path: Path, times: int, costs: _Costs) -> Iterator[FieldError]:
    cost = min(rule.worst_cost * times, _MOST)
    if cost > RULE_LIMIT:
        yield fields.forbidden(path.child("rule"), _too_expensive("estimated rule cost", cost, RULE_LIMIT))
    costs.add(path.child("rule"), cost)
    if rule.error:
        yield fields.invalid(path.child("rule"), _as_go(rule.declared), rule.error)
    if rule.message_error:
        yield fields.invalid(path.child("messageExpression"), _as_go(rule.declared), rule.message_error)
    elif rule.message is not None:
        cost = rule.worst_message_cost
        if cost > RULE_LIMIT:
            what = _too_expensive("estimated messageExpression cost", cost, RULE_LIMIT)
            yield fields.forbidden(path.child("messageExpression"), what)
        costs.add(path.child("messageExpression"), cost)


def _as_go(rule: Any) -> dict[str, Any]:
    """A rule as errors show it: Go's field names."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _too_expensive(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:.6f}x" if factor < 1.5 else f"{math.floor(factor * 10 + 0.5) / 10:.1f}x"
    return f"{what} exceeds budget by factor of {shown} {_REMEDY}"
