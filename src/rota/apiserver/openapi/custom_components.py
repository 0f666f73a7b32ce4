"""Components of kinds that are not in the tables: custom ones, and the lists of all.

A custom kind is named as upstream names it, by its reversed group: `com.example.shop.v1.Flavor`. Its schema is that of
its definition with the fields that every object has; without a schema in the definition any field is allowed.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api.kinds import ResourceType, Subresource
from rota.apiserver.openapi import components
from rota.apiserver.openapi.components import Schema

_API_VERSION: Final[Schema] = {
    "type": "string",
    "description": "The group and version of the schema of this object, which decide how the server reads it.",
}
_KIND: Final[Schema] = {"type": "string", "description": "The kind of this object; it cannot be changed."}


def component_name(resource: ResourceType) -> str:
    """The name of the component of a kind."""
    if resource.model is not None:
        return components.name_of_model(resource.model)
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def part_name(resource: ResourceType, part: Subresource) -> str | None:
    """The name of the component of a subresource; None for one that only connects and has no schema."""
    if part.model is not None:
        return components.name_of_model(part.model)
    return component_name(resource) if resource.custom and part.kind == resource.gvk else None


def list_name(resource: ResourceType) -> str:
    """The name of the component of a list of a kind."""
    return component_name(resource).removesuffix(resource.kind) + resource.list_kind


def component(resource: ResourceType, schema: Mapping[str, Any] | None) -> Schema:
    """The component of a custom kind."""
    shown: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True} if schema is None else {**schema}
    properties = {
        "apiVersion": _API_VERSION,
        "kind": _KIND,
        "metadata": {
            "description": "Name, namespace, labels and what else all objects have.",
            "allOf": [components.reference(components.OBJECT_META)],
        },
        **{
            name: part
            for name, part in (shown.get("properties") or {}).items()
            if name not in {"apiVersion", "kind", "metadata"}
        },
    }
    return {**shown, "properties": properties, "x-kubernetes-group-version-kind": [_kind(resource, resource.kind)]}


def list_component(resource: ResourceType) -> Schema:
    """The component of a list of a kind."""
    return {
        "type": "object",
        "description": f"A list of objects of kind {resource.kind}.",
        "properties": {
            "apiVersion": _API_VERSION,
            "items": {
                "type": "array",
                "description": "The objects.",
                "items": components.reference(component_name(resource)),
            },
            "kind": _KIND,
            "metadata": {
                "description": "The revision of the list, and how to go on with it.",
                "allOf": [components.reference(components.LIST_META)],
            },
        },
        "required": ["items"],
        "x-kubernetes-group-version-kind": [_kind(resource, resource.list_kind)],
    }


def _kind(resource: ResourceType, kind: str) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": kind}
