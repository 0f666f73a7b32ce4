"""The strategy of RebalancePolicies: one for the cluster, and consistent."""

from typing import Final

from rota.api import drifts, fields
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy

#: The only name: two policies could move the same pods back and forth.
NAME: Final = "cluster"
_MEASURES: Final = ("requests", "usage")
_SPEC: Final = fields.Path("spec")
_POSITIVE: Final = ("intervalSeconds", "mostAtOnce", "mostPerNamespace", "mostPerNode")
_NOT_NEGATIVE: Final = ("mostRestarts", "oldestSeconds", "youngestSeconds")
#: How many moves the status of the policy holds.
_MOST_PER_HOUR: Final = 1000
_EMPTY_BELOW: Final = 20
_FULL_ABOVE: Final = 70


class RebalancePolicyStrategy(GenericStrategy):
    """RebalancePolicies."""

    counts_generations = True

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its name and its spec."""
        found = super().validate_create(obj, at)
        if obj["metadata"].get("name", "") != NAME:
            why = f"a cluster has one policy, named {NAME}"
            found.append(fields.invalid(fields.Path("metadata").child("name"), obj["metadata"].get("name", ""), why))
        return found + _check(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its spec."""
        return super().validate_update(new, old, at) + _check(new.get("spec") or {})


def _check(spec: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    for name in _POSITIVE:
        if spec.get(name) is not None:
            found += checks.positive(spec[name], _SPEC.child(name))
    for name in _NOT_NEGATIVE:
        found += checks.not_negative(spec.get(name), _SPEC.child(name))
    if spec.get("mostPerHour") is not None:
        found += checks.in_range(spec["mostPerHour"], 1, _MOST_PER_HOUR, _SPEC.child("mostPerHour"))
    if spec.get("by"):
        found += checks.one_of(spec["by"], _MEASURES, _SPEC.child("by"))
    return found + _check_strategies(spec) + _check_thresholds(spec)


def _check_strategies(spec: Object) -> list[fields.FieldError]:
    path, chosen = _SPEC.child("strategies"), list(spec.get("strategies") or ())
    found: list[fields.FieldError] = []
    for position, one in enumerate(chosen):
        found += checks.one_of(one, drifts.DRIFTS, path.index(position))
        if one in chosen[:position]:
            found.append(fields.duplicate(path.index(position), one))
    if {"balance", "compact"} <= set(chosen):
        found.append(fields.invalid(path, chosen, "balance and compact undo each other; choose one of them"))
    return found


def _check_thresholds(spec: Object) -> list[fields.FieldError]:
    empty, full = (
        usual if spec.get(name) is None else spec[name]
        for name, usual in (("emptyBelow", _EMPTY_BELOW), ("fullAbove", _FULL_ABOVE))
    )
    found = checks.in_range(empty, 0, 100, _SPEC.child("emptyBelow"))
    found += checks.in_range(full, 0, 100, _SPEC.child("fullAbove"))
    if not found and empty > full:
        found.append(fields.invalid(_SPEC.child("emptyBelow"), empty, f"must not be above fullAbove, {full}"))
    return found
