"""A structural schema as a tree, for pruning, defaulting and the uniqueness of lists.

Built from the `openAPIV3Schema` of a CustomResourceDefinition, which is known to be structural (`schema_rules`):
everything that shapes an object is outside of `allOf`, `anyOf`, `oneOf` and `not`, and those only restrict values
(`checks`). Structures are shared and immutable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

JsonSchema: TypeAlias = Mapping[str, Any]

#: Means no default; null is no default either, as upstream reads it.
NO_DEFAULT: Final = None
META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Structure:
    """One node of the tree."""

    properties: Mapping[str, "Structure"] = field(default_factory=dict)
    items: "Structure | None" = None
    #: The values of fields that are not declared by name.
    additional: "Structure | None" = None
    #: Whether undeclared fields are allowed (`additionalProperties: true`).
    allows_additional: bool = False
    preserves_unknown_fields: bool = False
    embeds_resource: bool = False
    nullable: bool = False
    default: Any = NO_DEFAULT
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    #: Whether there is, here or below, a list that is a set or a map; an embedded resource. Most have neither.
    holds_unique_lists: bool = False
    holds_resources: bool = False
    #: Whether there is a default, here or below.
    holds_defaults: bool = False

    @property
    def is_opaque(self) -> bool:
        """Whether values are kept as they are: no field is declared, and undeclared ones are preserved."""
        return (
            self.preserves_unknown_fields and not self.properties and self.items is None and not self.allows_additional
        )

    def of_field(self, name: str) -> "Structure | None":
        """The structure of a field; None if it is not declared."""
        return self.properties.get(name) or self.additional


def read(schema: JsonSchema) -> Structure:
    """Build the structure of a schema."""
    items, additional = schema.get("items"), schema.get("additionalProperties")
    properties = {name: read(part) for name, part in (schema.get("properties") or {}).items()}
    of_items = read(items) if isinstance(items, dict) else None
    of_additional = read(additional) if isinstance(additional, dict) else None
    below = [*properties.values(), *filter(None, (of_items, of_additional))]
    list_type = schema.get("x-kubernetes-list-type") or ""
    embeds_resource = schema.get("x-kubernetes-embedded-resource") is True
    return Structure(
        properties=properties,
        items=of_items,
        additional=of_additional,
        allows_additional=additional is not None and additional is not False,
        preserves_unknown_fields=schema.get("x-kubernetes-preserve-unknown-fields") is True,
        embeds_resource=embeds_resource,
        nullable=schema.get("nullable") is True,
        default=schema.get("default", NO_DEFAULT),
        list_type=list_type,
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        holds_unique_lists=list_type in {"set", "map"} or any(part.holds_unique_lists for part in below),
        holds_resources=embeds_resource or any(part.holds_resources for part in below),
        holds_defaults=schema.get("default", NO_DEFAULT) is not NO_DEFAULT
        or any(part.holds_defaults for part in below),
    )
