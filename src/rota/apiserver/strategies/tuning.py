"""The strategy of TuningProposals: changes that can be made, and evidence that stays with the changes it is about."""

import math
from typing import Any, Final

from rota.api import fields
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy

#: The figures that a bound may name.
FIGURES: Final = ("pendingPods", "emptyNodes", "fragmentation", "powerWatts", "violationRate")
_SPEC: Final = fields.Path("spec")
_APPROVE: Final = ("manual", "auto")
_VERDICTS: Final = ("better", "worse", "noise")
_MOST_CHANGES: Final = 20
_MOST_COMPARISONS: Final = 100
#: Fields that may change after the creation.
_DECISION: Final = frozenset({"approve", "approved", "approvedBy"})
#: Fields with whole numbers, and their bounds.
_NUMBERS: Final = {
    "intervalSeconds": (1, 3600),
    "patience": (1, 100),
    "stepSeconds": (1, 7 * 24 * 3600),
    "steps": (1, 20),
    "watchSeconds": (1, 30 * 24 * 3600),
}


class TuningProposalStrategy(GenericStrategy):
    """TuningProposals."""

    counts_generations = True

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """The server says who proposed it, and who approved it."""
        super().prepare_create(obj, at)
        if isinstance(spec := obj.get("spec"), dict):
            spec["proposedBy"] = at.user.name
            _sign(spec, {}, at)

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """The server says who approved it."""
        if not at.subresource and isinstance(spec := new.get("spec"), dict):
            before = old.get("spec") or {}
            if before.get("proposedBy"):
                spec["proposedBy"] = before["proposedBy"]
            _sign(spec, before, at)
        super().prepare_update(new, old, at)

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its spec."""
        if not obj.get("spec"):
            return [*super().validate_create(obj, at), fields.required(_SPEC)]
        return super().validate_create(obj, at) + _check(obj["spec"])

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its decision; everything else stays, since the evidence is about it."""
        found = super().validate_update(new, old, at)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        for name in sorted({*spec, *before} - _DECISION):
            found += checks.immutable(spec.get(name), before.get(name), _SPEC.child(name))
        return found + _check(spec)


def _sign(spec: dict[str, Any], before: Object, at: Attributes) -> None:
    if not spec.get("approved"):
        spec.pop("approvedBy", None)
    elif before.get("approved"):
        spec["approvedBy"] = before.get("approvedBy", "")
    else:
        spec["approvedBy"] = at.user.name


def _check(spec: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    if spec.get("approve"):
        found += checks.one_of(spec["approve"], _APPROVE, _SPEC.child("approve"))
    for name, (least, most) in _NUMBERS.items():
        if spec.get(name) is not None:
            found += checks.in_range(spec[name], least, most, _SPEC.child(name))
    return found + _check_changes(spec) + _check_bounds(spec) + _check_evidence(spec)


def _check_changes(spec: Object) -> list[fields.FieldError]:
    path, changes = _SPEC.child("changes"), spec.get("changes") or ()
    if not changes:
        return [fields.required(path)]
    if len(changes) > _MOST_CHANGES:
        return [fields.invalid(path, len(changes), f"name at most {_MOST_CHANGES} changes")]
    found: list[fields.FieldError] = []
    seen: set[tuple[str, str]] = set()
    for position, change in enumerate(changes):
        at = path.index(position)
        named = change.get("plugin") or "", change.get("argument") or ""
        if not named[0]:
            found.append(fields.required(at.child("plugin")))
        if named in seen:
            found.append(fields.duplicate(at, ".".join(filter(None, named))))
        seen.add(named)
        for name in ("from", "to"):
            value = change.get(name)
            if value is None:
                found.append(fields.required(at.child(name)))
            elif not (math.isfinite(value) and value >= 0):
                found.append(fields.invalid(at.child(name), value, checks.NOT_NEGATIVE))
        if change.get("to") is not None and change.get("from") == change["to"]:
            found.append(fields.invalid(at.child("to"), change.get("to"), "must differ from the present value"))
    return found


def _check_bounds(spec: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    seen: set[str] = set()
    for position, bound in enumerate(spec.get("bounds") or ()):
        at = _SPEC.child("bounds").index(position)
        figure = bound.get("figure") or ""
        found += checks.one_of(figure, FIGURES, at.child("figure"))
        if figure in seen:
            found.append(fields.duplicate(at.child("figure"), figure))
        seen.add(figure)
        for name in ("amount", "percent"):
            if (bound.get(name) or 0) < 0:
                found.append(fields.invalid(at.child(name), bound[name], checks.NOT_NEGATIVE))
    return found


def _check_evidence(spec: Object) -> list[fields.FieldError]:
    path = _SPEC.child("evidence").child("comparisons")
    comparisons = (spec.get("evidence") or {}).get("comparisons") or ()
    if len(comparisons) > _MOST_COMPARISONS:
        return [fields.invalid(path, len(comparisons), f"name at most {_MOST_COMPARISONS} figures")]
    found: list[fields.FieldError] = []
    for position, each in enumerate(comparisons):
        if each.get("verdict"):
            found += checks.one_of(each["verdict"], _VERDICTS, path.index(position).child("verdict"))
        low, high = each.get("low"), each.get("high")
        if low is not None and high is not None and low > high:
            found.append(fields.invalid(path.index(position).child("low"), low, f"must not be above high, {high:g}"))
    return found
