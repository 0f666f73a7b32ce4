"""The rules of Lease and Event: small objects that are written often."""

from rota.api import fields
from rota.apiserver.contract import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.workloads import SPEC


class LeaseStrategy(GenericStrategy):
    """Leases."""

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Durations and counts."""
        return super().validate_create(obj, at) + _validate_lease(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Durations and counts."""
        return super().validate_update(new, old, at) + _validate_lease(new.get("spec") or {})


class EventStrategy(GenericStrategy):
    """Events of both groups, which name what they are about by different fields."""

    demands_required_fields = False

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """An event lies where that is which it is about."""
        found = super().validate_create(obj, at)
        field = "involvedObject" if "involvedObject" in obj else "regarding"
        about = (obj.get(field) or {}).get("namespace", "")
        here = obj["metadata"].get("namespace", "")
        path = fields.Path("involvedObject").child("namespace")
        if about != here if about else here not in {"default", "kube-system"}:
            found.append(fields.invalid(path, about, "does not match event.namespace"))
        return found


def _validate_lease(spec: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    if spec.get("leaseDurationSeconds") is not None:
        found += checks.positive(spec["leaseDurationSeconds"], SPEC.child("leaseDurationSeconds"))
    return found + checks.not_negative(spec.get("leaseTransitions"), SPEC.child("leaseTransitions"))
