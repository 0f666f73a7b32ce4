"""The strategy of nodes. A worker registers its node with its status, so a new node keeps its status."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import fields, names, quantities
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks, generic, pod_placement

_SPEC: Final = fields.Path("spec")
#: Upstream reads taints from the spec and reports errors with this path.
_TAINTS: Final = fields.Path("metadata").child("taints")
_ONCE: Final = 'node updates may not change {} except from "" to valid'


class NodeStrategy(generic.GenericStrategy):
    """Nodes."""

    def default(self, obj: Object, /) -> None:
        """The allocatable resources default to the capacity."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs") and not spec.get("podCIDR"):
            spec["podCIDR"] = spec["podCIDRs"][0]
        if status.get("allocatable") is None and status.get("capacity"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """Keep the status."""

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Defaults for updates of the status."""
        super().prepare_update(new, old, at)
        if at.subresource == "status":
            self.default(new)

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Taints and resources."""
        return super().validate_create(obj, at) + _validate(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Taints and resources, and immutable fields."""
        found = super().validate_update(new, old, at) + _validate(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            found.append(fields.forbidden(_SPEC.child("podCIDRs"), _ONCE.format("podCIDR")))
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            found.append(fields.forbidden(_SPEC.child("providerID"), _ONCE.format("providerID")))
        return found


def _validate(node: Object) -> list[fields.FieldError]:
    found = _validate_taints((node.get("spec") or {}).get("taints") or ())
    for part in ("capacity", "allocatable"):
        for name, quantity in ((node.get("status") or {}).get(part) or {}).items():
            if quantities.from_wire(quantity).nanos < 0:
                path = fields.Path("status").child(part).key(name)
                found.append(fields.invalid(path, quantity, checks.NOT_NEGATIVE))
    return found


def _validate_taints(taints: Sequence[Mapping[str, Any]]) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    seen: set[tuple[str, str]] = set()
    for position, one in enumerate(taints):
        path, key, effect = _TAINTS.index(position), one.get("key", ""), one.get("effect", "")
        found += checks.label_key(key, path.child("key"))
        if messages := names.check_label_value(one.get("value", "")):
            found.append(fields.invalid(path.child("value"), one["value"], ";".join(messages)))
        found += checks.one_of(effect, pod_placement.TAINT_EFFECTS, path.child("effect"))
        if (key, effect) in seen:
            why = "taints must be unique by key and effect pair"
            found.append(fields.FieldError(fields.ErrorType.DUPLICATE, str(path), why, dict(one)))
        seen.add((key, effect))
    return found
