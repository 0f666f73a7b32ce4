"""Validation of a Job's policies: `podFailurePolicy`, `successPolicy`, replacement.

The Job controller implements them. Mirrors `pkg/apis/batch/validation` (1.36).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import fields, gotext
from rota.apiserver.strategies import checks

Found: TypeAlias = list[fields.FieldError]

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_MOST_PATTERNS: Final = 20
_LONGEST_INDEXES: Final = 64 * 1024


class _IndexError(ValueError):
    """A list of indexes is invalid."""


def validate(spec: Mapping[str, Any], path: fields.Path) -> Found:
    """All errors of the policies of a Job."""
    found: Found = []
    failures = spec.get("podFailurePolicy")
    if failures is not None:
        found += _validate_failures(spec, failures.get("rules") or (), path.child("podFailurePolicy", "rules"))
    if spec.get("successPolicy") is not None and spec.get("completionMode") == "Indexed":
        rules = spec["successPolicy"].get("rules") or ()
        found += _validate_successes(spec, rules, path.child("successPolicy", "rules"))
    replacement = spec.get("podReplacementPolicy")
    supported = ("Failed", "TerminatingOrFailed") if failures is None else ("Failed",)
    if replacement is not None and replacement not in supported:
        found.append(fields.not_supported(path.child("podReplacementPolicy"), replacement, supported))
    return found


def _validate_failures(spec: Mapping[str, Any], rules: Sequence[Mapping[str, Any]], path: fields.Path) -> Found:
    found: Found = []
    if len(rules) > _MOST_RULES:
        found.append(fields.too_many(path, len(rules), _MOST_RULES))
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {one.get("name") for kind in ("containers", "initContainers") for one in pod.get(kind) or ()}
    for number, rule in enumerate(rules):
        at = path.index(number)
        action, codes, conditions = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            found.append(fields.invalid(at.child("action"), action, "requires the backoffLimitPerIndex to be set"))
        found += _validate_word(action, _ACTIONS, at.child("action"))
        if codes is not None:
            found += _validate_codes(codes, containers, at.child("onExitCodes"))
        if len(conditions) > _MOST_PATTERNS:
            found.append(fields.too_many(at.child("onPodConditions"), len(conditions), _MOST_PATTERNS))
        for position, pattern in enumerate(conditions):
            here = at.child("onPodConditions").index(position)
            found += checks.label_key(pattern.get("type") or "", here.child("type"))
            found += _validate_word(pattern.get("status"), _STATUSES, here.child("status"))
        if (codes is not None) == bool(conditions):
            how = "both OnExitCodes and OnPodConditions is not supported"
            if codes is None:
                how = "one of OnExitCodes and OnPodConditions is required"
            found.append(fields.FieldError(fields.ErrorType.INVALID, str(at), f"specifying {how}"))
    return found


def _validate_word(word: str | None, supported: Sequence[str], path: fields.Path) -> Found:
    if not word:
        return [fields.required(path, f"valid values: [{' '.join(map(gotext.quote, supported))}]")]
    return [] if word in supported else [fields.not_supported(path, word, supported)]


def _validate_codes(codes: Mapping[str, Any], containers: set[str | None], path: fields.Path) -> Found:
    found = _validate_word(codes.get("operator"), _OPERATORS, path.child("operator"))
    name, values = codes.get("containerName"), codes.get("values") or []
    if name is not None and name not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        found.append(fields.invalid(path.child("containerName"), name, why))
    at = path.child("values")
    if not values:
        found.append(fields.invalid(at, values, "at least one value is required"))
    elif len(values) > _MOST_CODES:
        found.append(fields.too_many(at, len(values), _MOST_CODES))
    for number, code in enumerate(values):
        if code == 0 and codes.get("operator") == "In":
            found.append(fields.invalid(at.index(number), code, "must not be 0 for the In operator"))
        if code in values[:number]:
            found.append(fields.duplicate(at.index(number), code))
    if values != sorted(values):
        found.append(fields.invalid(at, values, "must be ordered"))
    return found


def _validate_successes(spec: Mapping[str, Any], rules: Sequence[Mapping[str, Any]], path: fields.Path) -> Found:
    found: Found = []
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        found.append(fields.required(path, why))
    if len(rules) > _MOST_RULES:
        found.append(fields.too_many(path, len(rules), _MOST_RULES))
    completions = int(spec.get("completions") or 0)
    for number, rule in enumerate(rules):
        found += _validate_success(rule, completions, path.index(number))
    return found


def _validate_success(rule: Mapping[str, Any], completions: int, path: fields.Path) -> Found:
    count, indexes, total = rule.get("succeededCount"), rule.get("succeededIndexes"), 0
    if count is None and indexes is None:
        return [fields.required(path, "at least one of succeededCount or succeededIndexes must be specified")]
    found: Found = []
    if indexes is not None:
        at = path.child("succeededIndexes")
        if len(indexes) > _LONGEST_INDEXES:
            found.append(fields.too_long(at, _LONGEST_INDEXES))
        try:
            total = _count_indexes(indexes, completions)
        except _IndexError as problem:
            found.append(fields.invalid(at, indexes, f"error parsing succeededIndexes: {problem}"))
    if count is not None:
        at = path.child("succeededCount")
        found += checks.not_negative(count, at)
        if count > completions:
            why = f"must be less than or equal to {completions} (the number of specified completions)"
            found.append(fields.invalid(at, count, why))
        if indexes is not None and count > total:
            of = "the number of indexes in the specified succeededIndexes field"
            found.append(fields.invalid(at, count, f"must be less than or equal to {total} ({of})"))
    return found


def _count_indexes(text: str, completions: int) -> int:
    """How many indexes a list such as `0,2-5` has."""
    total, last = 0, None
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            rule = "an index interval can have at most two parts separated by '-'"
            raise _IndexError(f"the fragment {gotext.quote(part)} violates the requirement that {rule}")
        numbers = [_index(limit, completions) for limit in limits]
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            raise _IndexError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        if last is not None and last >= numbers[0]:
            raise _IndexError(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        total, last = total + numbers[-1] - numbers[0] + 1, numbers[-1]
    return total


def _index(text: str, completions: int) -> int:
    if not text.isdecimal():
        raise _IndexError(f"cannot convert string to integer for index: {gotext.quote(text)}")
    if int(text) >= completions:
        raise _IndexError(f"too large index: {gotext.quote(text)}")
    return int(text)
