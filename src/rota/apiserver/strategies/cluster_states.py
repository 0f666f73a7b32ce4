"""The strategy of ClusterStates: shapes and models of power that figures can be computed with."""

from typing import Final

from rota.api import fields, quantities
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy

_SPEC: Final = fields.Path("spec")
_MODELS: Final = ("linear", "fan", "table", "exponential", "sockets")
_MOST_SHAPES: Final = 32
_FEWEST_WATTS: Final = 2
#: No machine has more; sums over all nodes stay finite. The exponent is multiplied by percents.
_MOST: Final = {**dict.fromkeys(("idle", "full", "sleepWatts", "k0", "k1"), 1e9), "k2": 1.0}


class ClusterStateStrategy(GenericStrategy):
    """ClusterStates."""

    counts_generations = True

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its spec."""
        return super().validate_create(obj, at) + _check(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its spec."""
        return super().validate_update(new, old, at) + _check(new.get("spec") or {})


def _check(spec: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    shapes, path = spec.get("shapes") or (), _SPEC.child("shapes")
    if len(shapes) > _MOST_SHAPES:
        found.append(fields.invalid(path, len(shapes), f"name at most {_MOST_SHAPES} shapes"))
    names: set[str] = set()
    for position, shape in enumerate(shapes):
        found += _check_shape(shape, names, path.index(position))
        names.add(shape.get("name", ""))
    models: set[str] = set()
    for position, model in enumerate(spec.get("powerModels") or ()):
        at = _SPEC.child("powerModels").index(position)
        if (model.get("name") or "") in models:
            found.append(fields.duplicate(at.child("name"), model.get("name") or ""))
        models.add(model.get("name") or "")
        found += _check_model(model, at)
    return found


def _check_shape(shape: Object, names: set[str], path: fields.Path) -> list[fields.FieldError]:
    name, weight = shape.get("name", ""), shape.get("weight")
    found = checks.dns_label(name, path.child("name"))
    if name in names:
        found.append(fields.duplicate(path.child("name"), name))
    if weight is not None and not weight > 0:
        found.append(fields.invalid(path.child("weight"), weight, "must be greater than 0"))
    if not shape.get("requests"):
        found.append(fields.required(path.child("requests")))
    for resource, quantity in (shape.get("requests") or {}).items():
        if checks.quantity(quantity) < quantities.ZERO:
            found.append(fields.invalid(path.child("requests").key(resource), quantity, checks.NOT_NEGATIVE))
    return found


def _check_model(model: Object, path: fields.Path) -> list[fields.FieldError]:
    kind = model.get("model") or "linear"
    found = checks.one_of(kind, _MODELS, path.child("model"))
    for name in ("idle", "full", "sleepWatts", "k1", "k2"):
        if (model.get(name) or 0) < 0:
            found.append(fields.invalid(path.child(name), model[name], checks.NOT_NEGATIVE))
    for name, most in _MOST.items():
        if abs(model.get(name) or 0) > most:
            found.append(fields.invalid(path.child(name), model[name], f"must be at most {most:g}"))
    idle, full = model.get("idle", 100.0), model.get("full", 250.0)
    if kind in ("linear", "fan", "sockets") and idle is not None and full is not None and idle > full:
        found.append(fields.invalid(path.child("idle"), idle, f"must not be above full, {full:g}"))
    watts = model.get("watts") or ()
    if kind == "table" and (len(watts) < _FEWEST_WATTS or min(watts) < 0 or max(watts) > _MOST["full"]):
        why = f"give two values or more, none negative or above {_MOST['full']:g}"
        found.append(fields.invalid(path.child("watts"), list(watts), why))
    if model.get("coresPerSocket") is not None:
        found += checks.positive(model["coresPerSocket"], path.child("coresPerSocket"))
    return found
