"""The strategy of custom kinds: the generic one, with metadata protected from the status subresource.

The schema is validated through `ResourceType.validator`, which the definition of the kind provides.
"""

from rota.api import fields
from rota.apiserver.crd import ratcheting
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import generic


class CustomStrategy(generic.GenericStrategy):
    """The strategy of all custom kinds."""

    counts_generations = True

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Through `status` only the status changes; managedFields are still updated."""
        super().prepare_update(new, old, at)
        if at.subresource:
            recorded = new["metadata"].get("managedFields")
            new["metadata"] = {**old["metadata"], **({"managedFields": recorded} if recorded is not None else {})}

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata, and the schema."""
        return super().validate_create(obj, at) + self._by_schema(obj, at)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata, and the schema for changed parts."""
        return super().validate_update(new, old, at) + ratcheting.fresh(self._by_schema(new, at), new, old)

    def _by_schema(self, obj: Object, at: Attributes) -> list[fields.FieldError]:
        return at.resource.validator(obj) if at.resource.validator else []
