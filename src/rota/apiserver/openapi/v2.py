"""OpenAPI v2: the whole API in one document, converted from the documents of version 3.

Version 2 has no alternatives and allows only a description beside a reference, so it is less precise than version 3. Go
clients ask for it in protobuf. They get an empty document, which is valid: kubectl before 1.29 requires a response, and
then reads version 3; it has the merge keys of built-in kinds in itself.
"""

from typing import Any, Final

from rota.api.identifiers import GroupVersion
from rota.api.scheme import Scheme
from rota.apiserver.http import cached_documents, negotiation
from rota.apiserver.http.cached_documents import Document
from rota.apiserver.openapi import components
from rota.apiserver.openapi.components import Schema
from rota.apiserver.openapi.v3 import OpenApiV3

_DEFINITIONS: Final = "#/definitions/"
#: The requested media type; the response has a dot for the `@`, which Go's parser of media types does not accept.
_PROTOBUF: Final = frozenset(
    {
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    }
)
_EMPTY: Final = Document(b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
#: Types that version 3 describes by alternatives.
_PLAINER: Final[dict[str, Schema]] = {
    components.QUANTITY: {"type": "string"},
    components.INT_OR_STRING: {"type": "string", "format": "int-or-string"},
}
#: Keywords that version 2 does not have.
_UNKNOWN: Final = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable"})
_METHODS: Final = ("get", "put", "post", "delete", "patch")


class OpenApiV2:
    """The document of a scheme, built from its documents of version 3 and cached until the scheme changes."""

    def __init__(self, scheme: Scheme, of_version_3: OpenApiV3) -> None:
        self._scheme: Final = scheme
        self._of_version_3: Final = of_version_3
        self._made: tuple[int, Document] | None = None

    def document(self, accept: str = "") -> Document:
        """The document for `/openapi/v2`, in the format that the client prefers.

        Building it in JSON takes about half a second; call it off the event loop.
        """
        if any(clause.media_type in _PROTOBUF for clause in negotiation.parse(accept)):
            return _EMPTY
        generation = self._scheme.generation
        if self._made is None or self._made[0] != generation:
            self._made = generation, cached_documents.encode(self.describe())
        return self._made[1]

    def describe(self) -> dict[str, Any]:
        """The content of the document."""
        paths: dict[str, Any] = {}
        definitions: dict[str, Schema] = {}
        info: dict[str, str] = {}
        for group, versions in self._scheme.groups().items():
            for version in versions:
                described = self._of_version_3.describe(GroupVersion(group, version))
                info = described["info"]
                paths |= {path: _path_item(item) for path, item in described["paths"].items()}
                fresh = described["components"]["schemas"].items()
                definitions |= {name: _definition(name, schema) for name, schema in fresh if name not in definitions}
        return {"swagger": "2.0", "info": info, "paths": paths, "definitions": dict(sorted(definitions.items()))}


def _path_item(item: dict[str, Any]) -> dict[str, Any]:
    rewritten: dict[str, Any] = {method: _operation(item[method]) for method in _METHODS if method in item}
    if "parameters" in item:
        rewritten["parameters"] = [_parameter(parameter) for parameter in item["parameters"]]
    return rewritten


def _operation(operation: dict[str, Any]) -> dict[str, Any]:
    rewritten = {name: fact for name, fact in operation.items() if name != "requestBody"}
    rewritten["parameters"] = [_parameter(parameter) for parameter in operation["parameters"]]
    body = operation.get("requestBody")
    if body is not None:
        consumed, schema = _content(body["content"])
        parameter = {"name": "body", "in": "body", "required": body.get("required", False), "schema": schema}
        rewritten["parameters"].insert(0, parameter)
        rewritten["consumes"] = consumed
    responses = {}
    for code, response in operation["responses"].items():
        rewritten["produces"], schema = _content(response["content"])
        responses[code] = {"description": response["description"], "schema": schema}
    return rewritten | {"responses": responses}


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    schema: Schema = parameter["schema"]
    return {name: fact for name, fact in parameter.items() if name != "schema"} | schema


def _content(content: dict[str, Any]) -> tuple[list[str], Schema]:
    """The media types, and their common schema; of alternatives the first."""
    schema: Schema = next(iter(content.values()))["schema"]
    return list(content), _schema(schema["anyOf"][0] if "anyOf" in schema else schema)


def _definition(name: str, schema: Schema) -> Schema:
    plainer = _PLAINER.get(name)
    return {"description": schema["description"], **plainer} if plainer else _schema(schema)


def _schema(schema: Schema) -> Schema:
    """A schema in the terms of version 2."""
    match schema:
        case {"$ref": str(target)}:
            return {"$ref": target.replace(components.REFERENCE, _DEFINITIONS)}
        case {"allOf": [{"$ref": str(target)}]}:
            others = {name: fact for name, fact in schema.items() if name != "allOf"}
            return {**others, "$ref": target.replace(components.REFERENCE, _DEFINITIONS)}
    rewritten = {name: fact for name, fact in schema.items() if name not in _UNKNOWN}
    for name in ("items", "additionalProperties"):
        if isinstance(rewritten.get(name), dict):
            rewritten[name] = _schema(rewritten[name])
    if "properties" in rewritten:
        rewritten["properties"] = {name: _schema(part) for name, part in rewritten["properties"].items()}
    return rewritten
