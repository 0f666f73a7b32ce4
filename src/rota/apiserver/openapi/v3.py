"""OpenAPI v3: one document for each group and version, and an index of them.

The index has the URLs of the documents; the hash of a document is part of its URL, so a client can cache it. Documents
are built on demand and cached until the scheme changes; those of groups without custom kinds are cached for good.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from rota.api.identifiers import GroupVersion, GroupVersionKind
from rota.api.kinds import ResourceType
from rota.api.scheme import Scheme
from rota.apiserver.http import cached_documents
from rota.apiserver.http.cached_documents import Document
from rota.apiserver.openapi import components, custom_components, operations
from rota.apiserver.openapi.components import Schema

#: The structural schema of a custom kind as its definition has it; None if it is unknown.
SchemaOf: TypeAlias = Callable[[ResourceType], Mapping[str, Any] | None]

_VERSION: Final = "3.0.0"
_INFO_TITLE: Final = "Kubernetes"


class OpenApiV3:
    """The documents of a scheme. `schema_of` returns the schemas of custom kinds."""

    def __init__(self, scheme: Scheme, *, schema_of: SchemaOf, version: str) -> None:
        self._scheme: Final = scheme
        self._schema_of: Final = schema_of
        self._version: Final = version
        self._made: dict[GroupVersion, tuple[tuple[ResourceType, ...], Document]] = {}
        self._index: tuple[int, Document] | None = None

    def document(self, path: str) -> Document | None:
        """The document for `/openapi/v3` or a path below it; None if there is none."""
        match path.strip("/").split("/")[2:]:
            case []:
                return self.index()
            case ["api", version]:
                return self.of_group_version(GroupVersion("", version))
            case ["apis", group, version] if group:
                return self.of_group_version(GroupVersion(group, version))
        return None

    def index(self) -> Document:
        """The URLs of the documents. The first call builds all of them, which takes half a second."""
        generation = self._scheme.generation
        if self._index is None or self._index[0] != generation:
            self._index = generation, cached_documents.encode({"paths": dict(sorted(self._addresses().items()))})
        return self._index[1]

    def of_group_version(self, at: GroupVersion) -> Document | None:
        """The document of a group and version; None if there are no kinds."""
        types = self._scheme.in_group_version(at)
        if not types:
            return None
        made = self._made.get(at)
        # compared one by one by identity: another schema does not make the types unequal
        if made is None or len(made[0]) != len(types) or any(a is not b for a, b in zip(made[0], types, strict=True)):
            made = types, cached_documents.encode(self.describe(at))
            self._made[at] = made
        return made[1]

    def describe(self, at: GroupVersion) -> dict[str, Any]:
        """The content of the document of a group and version."""
        types = self._scheme.in_group_version(at)
        schemas = _schemas(types, self._schema_of, _kinds_of_models(self._scheme))
        paths = {path: item for one in types for path, item in operations.paths_of(one).items()}
        return {
            "openapi": _VERSION,
            "info": {"title": _INFO_TITLE, "version": self._version},
            "paths": dict(sorted(paths.items())),
            "components": {"schemas": schemas},
        }

    def _addresses(self) -> dict[str, dict[str, str]]:
        found = {}
        for group, versions in self._scheme.groups().items():
            for version in versions:
                document = self.of_group_version(GroupVersion(group, version))
                assert document is not None, "a version that the scheme lists has kinds"
                place = f"apis/{group}/{version}" if group else f"api/{version}"
                found[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={document.digest}"}
        return found


def _schemas(
    types: tuple[ResourceType, ...], schema_of: SchemaOf, kinds: Mapping[str, tuple[GroupVersionKind, ...]]
) -> dict[str, Schema]:
    """The components of these types with all that they refer to, and their kinds."""
    built_in = {components.DELETE_OPTIONS, components.STATUS, components.PATCH}
    found: dict[str, Schema] = {}
    for one in types:
        built_in.update(filter(None, (custom_components.part_name(one, part) for part in one.subresources.values())))
        if one.custom:
            found[custom_components.component_name(one)] = custom_components.component(one, schema_of(one))
        else:
            built_in.add(custom_components.component_name(one))
        if "list" in one.verbs:
            found[custom_components.list_name(one)] = custom_components.list_component(one)
    needed = built_in.union(*(components.references(schema) for schema in found.values())) - set(found)
    for name, schema in components.closure(needed).items():
        listed = kinds.get(name)
        found[name] = schema | {"x-kubernetes-group-version-kind": [*map(operations.gvk, listed)]} if listed else schema
    return dict(sorted(found.items()))


def _kinds_of_models(scheme: Scheme) -> dict[str, tuple[GroupVersionKind, ...]]:
    """The kinds of a component, for built-in ones."""
    found: dict[str, dict[GroupVersionKind, None]] = {
        components.STATUS: {GroupVersionKind("", "v1", "Status"): None},
        components.DELETE_OPTIONS: {GroupVersionKind("", "v1", "DeleteOptions"): None},
    }
    for one in scheme:
        kinds = [(one.model, one.gvk), *((part.model, part.kind) for part in one.subresources.values())]
        for model, kind in kinds:
            if model is not None:
                found.setdefault(components.name_of_model(model), {})[kind] = None
    return {name: tuple(kinds) for name, kinds in found.items()}
