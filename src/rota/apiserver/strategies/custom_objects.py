"""The strategy of custom kinds: the generic one, with metadata protected from the status subresource.

The schema and its CEL rules are validated through `ResourceType.validator`, which the definition of the kind provides.
"""

from typing import Final

from rota.api import fields
from rota.apiserver.crd import ratcheting
from rota.apiserver.crd.registration import SchemaValidator
from rota.apiserver.crd.rule_checks import RuleCheck
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import generic

#: Errors that leave an object in no state for rules.
_BLOCKING: Final = frozenset(
    {
        fields.ErrorType.REQUIRED,
        fields.ErrorType.TOO_LONG,
        fields.ErrorType.TOO_MANY,
        fields.ErrorType.TYPE_INVALID,
    }
)
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


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
        """Metadata, the schema and its rules."""
        found = self._by_schema(obj, at)
        return [*super().validate_create(obj, at), *found, *_by_rules(obj, None, at, found)]

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Metadata, and the schema and its rules for changed parts."""
        found = ratcheting.fresh(self._by_schema(new, at), new, old)
        return [*super().validate_update(new, old, at), *found, *_by_rules(new, old, at, found)]

    def _by_schema(self, obj: Object, at: Attributes) -> list[fields.FieldError]:
        return at.resource.validator(obj) if at.resource.validator else []


def _by_rules(
    new: Object, old: Object | None, at: Attributes, found: list[fields.FieldError]
) -> list[fields.FieldError]:
    validator = at.resource.validator
    rules = validator.rules if isinstance(validator, SchemaValidator) else None
    if rules is None:
        return []
    if any(error.type in _BLOCKING for error in found):
        return [fields.invalid(fields.ROOT, fields.Literal("null"), _NOT_CHECKED)]
    check = RuleCheck(rules)
    check.run(new, old)
    for text in check.warnings:
        at.warn(text)
    return check.errors
