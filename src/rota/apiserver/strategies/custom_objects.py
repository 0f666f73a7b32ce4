"""The strategy of custom kinds: what the generic one does, with metadata out of reach of the status subresource.

The schema's own verdict comes through `ResourceType.validator`, which the definition of the kind brings along.
"""

from rota.api import fields
from rota.apiserver.crd import ratcheting
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import generic


class CustomStrategy(generic.GenericStrategy):
    """Rules of all kinds that were defined at run time."""

    counts_generations = True

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Through `status` nothing but the status changes; who changed it is still recorded."""
        super().prepare_update(new, old, at)
        if at.subresource:
            recorded = new["metadata"].get("managedFields")
            new["metadata"] = {**old["metadata"], **({"managedFields": recorded} if recorded is not None else {})}

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata, and what the schema says."""
        return super().validate_create(obj, at) + self._by_schema(obj, at)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata, and what the schema says about what changed."""
        return super().validate_update(new, old, at) + ratcheting.fresh(self._by_schema(new, at), new, old)

    def _by_schema(self, obj: Object, at: Attributes) -> list[fields.FieldError]:
        return at.resource.validator(obj) if at.resource.validator else []
