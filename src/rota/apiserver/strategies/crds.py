"""The strategy of CustomResourceDefinitions; that of custom objects is in `custom_objects`."""

from rota.api import fields
from rota.apiserver.crd import definitions, deletion, nested_schemas
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import generic


class DefinitionStrategy(generic.GenericStrategy):
    """The strategy of definitions. Every change records the versions in which objects may be stored."""

    counts_generations = True
    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """Names that follow from the kind, and the conversion strategy None; schemas decoded by their type."""
        definitions.set_defaults(obj)
        nested_schemas.clean_schemas(obj)

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """A new definition gets the finalizer that protects it until its objects are gone."""
        super().prepare_create(obj, at)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if deletion.FINALIZER not in finalizers:
            finalizers.append(deletion.FINALIZER)
        _record_storage_version(obj)
        _warn(obj, at)

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Add the storage version to the stored versions."""
        super().prepare_update(new, old, at)
        if not at.subresource:
            _record_storage_version(new)
            _warn(new, at)

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata and the definition."""
        return super().validate_create(obj, at) + definitions.validate(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata and the definition; the status is not validated."""
        found = super().validate_update(new, old, at)
        return found if at.subresource else found + definitions.validate_update(new, old)


def _record_storage_version(obj: Object) -> None:
    version = definitions.storage_version(obj)
    status = dict(obj.get("status") or {})
    stored = list(status.get("storedVersions") or ())
    if version and version not in stored:
        obj["status"] = {**status, "storedVersions": [*stored, version]}


def _warn(obj: Object, at: Attributes) -> None:
    for text in definitions.warnings(obj):
        at.warn(text)
