"""Decodes schemas within schemas.

Decoding a definition covers fields whose type the models know. They do not know the types in maps and in union fields:
`properties`, `items`, `additionalProperties`. These are decoded here, so that code that walks a schema later can rely
on its types.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, schemas

_MODEL: Final = "apiextensions_v1.JSONSchemaProps"
_OF_SCHEMAS: Final = ("properties", "patternProperties", "definitions")
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")


def clean_schemas(definition: Mapping[str, Any]) -> None:
    """Drop unknown fields from the schemas of a definition, in place; BadRequest for values of a wrong type."""
    for version in definition["spec"].get("versions") or ():
        holder = version.get("schema") or {}
        if holder.get("openAPIV3Schema") is None:
            continue
        try:
            holder["openAPIV3Schema"] = _cleaned(holder["openAPIV3Schema"])
        except schemas.SchemaError as error:
            raise _refusal(str(error)) from None
        except RecursionError:
            raise _refusal("exceeded max depth") from None


def _cleaned(schema: Any) -> dict[str, Any]:
    # null is an empty schema, as in Go
    cleaned, _ = schemas.clean({} if schema is None else schema, _MODEL)
    for name in _OF_SCHEMAS:
        if name in cleaned:
            cleaned[name] = {key: _cleaned(part) for key, part in cleaned[name].items()}
    for name in _JUNCTORS:
        if name in cleaned:
            cleaned[name] = [_cleaned(part) for part in cleaned[name]]
    if "not" in cleaned:
        cleaned["not"] = _cleaned(cleaned["not"])
    if "items" in cleaned:
        items = cleaned["items"]
        cleaned["items"] = [_cleaned(part) for part in items] if isinstance(items, list) else _cleaned(items)
    for name in ("additionalProperties", "additionalItems"):
        if name in cleaned and not isinstance(cleaned[name], bool):
            cleaned[name] = _cleaned(cleaned[name])
    return cleaned


def _refusal(why: str) -> errors.BadRequest:
    kind = "CustomResourceDefinition"
    return errors.bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {why}')
