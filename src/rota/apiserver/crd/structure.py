"""A structural schema as a tree of what may stand where, for pruning, defaulting and the uniqueness of lists.

Read from the `openAPIV3Schema` of a CustomResourceDefinition, which has been found to be structural (`schema_rules`):
everything that shapes an object stands outside of `allOf`, `anyOf`, `oneOf` and `not`, and those only narrow values
down (`checks`). Structures are shared and never change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

JsonSchema: TypeAlias = Mapping[str, Any]

#: Stands for the absence of a default; null is none either, as upstream reads it.
NO_DEFAULT: Final = None
META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Structure:
    """One place in an object."""

    properties: Mapping[str, "Structure"] = field(default_factory=dict)
    items: "Structure | None" = None
    #: The values of fields that are not declared by name.
    additional: "Structure | None" = None
    #: Whether fields may stand there that are not declared at all (`additionalProperties: true`).
    allows_additional: bool = False
    preserves_unknown_fields: bool = False
    embeds_resource: bool = False
    nullable: bool = False
    default: Any = NO_DEFAULT
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    #: Whether there is, here or below, a list that is a set or a map; an object that is a resource. Most have neither.
    holds_unique_lists: bool = False
    holds_resources: bool = False

    def of_field(self, name: str) -> "Structure | None":
        """The place of a field; None where nothing is declared."""
        return self.properties.get(name) or self.additional


def read(schema: JsonSchema) -> Structure:
    """The structure that a schema describes."""
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
    )
