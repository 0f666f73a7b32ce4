"""The strategies of Lease and Event, which are written often, and of ControllerRevision and PodTemplate."""

from rota.api import fields
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks, pod_defaults, pod_specs
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


class RevisionStrategy(GenericStrategy):
    """ControllerRevisions: immutable history."""

    demands_required_fields = False

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Data and a revision number."""
        return super().validate_create(obj, at) + _validate_revision(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The data is immutable."""
        found = super().validate_update(new, old, at)
        found += checks.not_negative(new.get("revision"), fields.Path("revision"))
        return found + checks.immutable(new.get("data"), old.get("data"), fields.Path("data"))


class PodTemplateStrategy(GenericStrategy):
    """PodTemplates, which are not run by themselves."""

    counts_generations = True
    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """The defaults of pods."""
        pod_defaults.default_spec(obj.setdefault("template", {}).setdefault("spec", {}))

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The template."""
        path = fields.Path("template")
        return super().validate_create(obj, at) + pod_specs.validate_template(obj["template"], path)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The template."""
        path = fields.Path("template")
        return super().validate_update(new, old, at) + pod_specs.validate_template(new["template"], path)


class EventStrategy(GenericStrategy):
    """Events of both groups, which name their object by different fields."""

    demands_required_fields = False

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """An event is in the namespace of its object."""
        found = super().validate_create(obj, at)
        field = "involvedObject" if "involvedObject" in obj else "regarding"
        about = (obj.get(field) or {}).get("namespace", "")
        here = obj["metadata"].get("namespace", "")
        path = fields.Path("involvedObject").child("namespace")
        if about != here if about else here not in {"default", "kube-system"}:
            found.append(fields.invalid(path, about, "does not match event.namespace"))
        return found


def _validate_revision(obj: Object) -> list[fields.FieldError]:
    path, data = fields.Path("data"), obj.get("data")
    found: list[fields.FieldError] = []
    if data is None:
        found.append(fields.required(path, "data is mandatory"))
    elif not isinstance(data, dict):
        found.append(fields.required(path, "data must be a valid JSON object"))
    return found + checks.not_negative(obj.get("revision"), fields.Path("revision"))


def _validate_lease(spec: Object) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    if spec.get("leaseDurationSeconds") is not None:
        found += checks.positive(spec["leaseDurationSeconds"], SPEC.child("leaseDurationSeconds"))
    return found + checks.not_negative(spec.get("leaseTransitions"), SPEC.child("leaseTransitions"))
