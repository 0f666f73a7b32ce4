"""The strategies of SchedulerInstances and ShardMaps."""

from typing import Final

from rota.api import fields, selectors
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy

_SPEC: Final = fields.Path("spec")
_TOGETHER: Final = ("Owner", "Namespace")
_CHOICES: Final = {
    "conflictCriterion": ("Fine", "Coarse"),
    "synchronisation": ("Full", "RoundRobin", "FreshestFirst"),
}
_HEAVIEST: Final = 10_000


class SchedulerInstanceStrategy(GenericStrategy):
    """SchedulerInstances."""

    counts_generations = True

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its weight and its selector."""
        return super().validate_create(obj, at) + _check_instance(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The same."""
        return super().validate_update(new, old, at) + _check_instance(new.get("spec") or {})


class ShardMapStrategy(GenericStrategy):
    """ShardMaps."""

    counts_generations = True

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its spec."""
        return super().validate_create(obj, at) + _check_map(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its spec, and that its epoch does not go back: schedulers would ignore the map."""
        found = super().validate_update(new, old, at) + _check_map(new.get("spec") or {})
        before, after = ((one.get("status") or {}).get("epoch") or 0 for one in (old, new))
        if after < before:
            path = fields.Path("status").child("epoch")
            found.append(fields.invalid(path, after, f"must not be less than the present epoch, {before}"))
        return found


def _check_instance(spec: Object) -> list[fields.FieldError]:
    found = _check_choices(spec)
    if spec.get("weight") is not None:
        found += checks.in_range(spec["weight"], 1, _HEAVIEST, _SPEC.child("weight"))
    if spec.get("podSelector") is not None:
        try:
            selectors.from_object(spec["podSelector"])
        except selectors.SelectorError as problem:
            found.append(fields.invalid(_SPEC.child("podSelector"), spec["podSelector"], str(problem)))
    return found


def _check_map(spec: Object) -> list[fields.FieldError]:
    together = spec.get("keepTogether")
    found = checks.one_of(together, _TOGETHER, _SPEC.child("keepTogether")) if together else []
    return found + _check_choices(spec)


def _check_choices(spec: Object) -> list[fields.FieldError]:
    return [
        problem
        for field, known in _CHOICES.items()
        if spec.get(field)
        for problem in checks.one_of(spec[field], known, _SPEC.child(field))
    ]
