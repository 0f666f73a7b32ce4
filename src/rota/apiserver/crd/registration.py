"""Converts a definition to the kinds it defines: one `ResourceType` and one `CustomVersion` for each served version.

All versions are one resource without conversion: an object differs between them in its `apiVersion` only, and each
version applies its own schema.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.api import fields, fieldselectors
from rota.api.identifiers import GroupResource, GroupVersionKind
from rota.api.kinds import ResourceType, Subresource
from rota.api.patches import structural
from rota.api.patches.schemas import TypeSchema
from rota.apiserver.crd import (
    checks,
    embedded_objects,
    rule_checks,
    scales,
    shaping,
    structure,
    uniqueness,
    version_rules,
)
from rota.apiserver.crd.definitions import Definition
from rota.apiserver.crd.scales import ScalePaths
from rota.apiserver.crd.structure import JsonSchema, Structure

_READ_WRITE: Final = ("get", "patch", "update")
_CONNECT: Final = ("create", "delete", "get", "patch", "update")
_SCALE: Final = Subresource(
    name="scale",
    kind=GroupVersionKind("autoscaling", "v1", "Scale"),
    verbs=_READ_WRITE,
    model="autoscaling_v1.Scale",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CustomVersion:
    """One served version of a custom kind; implements the server's `CustomSchema`."""

    resource: ResourceType
    #: The `openAPIV3Schema`, as clients see it; None if the definition has none.
    openapi: JsonSchema | None
    shape: Structure
    #: `shape`, compiled.
    shaped: Callable[[dict[str, Any]], tuple[dict[str, Any], list[str]]]
    merge_schema: TypeSchema
    selectable_fields: Mapping[str, fieldselectors.Reader]
    #: The `additionalPrinterColumns`.
    printer_columns: Sequence[Mapping[str, Any]]
    scale: ScalePaths | None
    #: The deprecation warning; empty if the version is not deprecated.
    deprecation_warning: str

    def clean(self, obj: dict[str, Any], /) -> tuple[dict[str, Any], list[str]]:
        """A copy with defaults and without undeclared fields, and the paths of those; metadata is left as it is."""
        return self.shaped(obj)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WebhookSettings:
    """How a definition has its objects converted by a webhook."""

    #: The name of the definition.
    name: str
    client: Mapping[str, Any]
    review_versions: tuple[str, ...]
    #: The apiVersion in which objects are stored.
    storage_version: str
    #: Of all versions, served or not, by apiVersion.
    shapes: Mapping[str, Structure]


def webhook_settings(definition: Definition) -> WebhookSettings | None:
    """The conversion webhook of a definition that has been validated; None if its versions differ in name only."""
    spec = definition["spec"]
    if not _has_webhook(spec):
        return None
    webhook = spec["conversion"]["webhook"]
    return WebhookSettings(
        name=definition["metadata"]["name"],
        client=webhook["clientConfig"],
        review_versions=tuple(webhook.get("conversionReviewVersions") or ()),
        storage_version=_storage_version(spec),
        shapes={
            f"{spec['group']}/{one['name']}": structure.read(_schema(one) or _ANYTHING) for one in spec["versions"]
        },
    )


def _has_webhook(spec: Mapping[str, Any]) -> bool:
    # an empty `webhook` is valid with the other strategy
    return (spec.get("conversion") or {}).get("strategy") == "Webhook"


def _storage_version(spec: Mapping[str, Any]) -> str:
    return next(f"{spec['group']}/{one['name']}" for one in spec["versions"] if one.get("storage"))


def _schema(version: Mapping[str, Any]) -> JsonSchema | None:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def resource_of(definition: Definition) -> GroupResource:
    """The resource that a definition defines."""
    return GroupResource(definition["spec"]["group"], definition["spec"]["names"]["plural"])


def versions(definition: Definition) -> list[CustomVersion]:
    """The served versions of a definition that has been validated."""
    return [_version(definition["spec"], one) for one in definition["spec"]["versions"] if one.get("served")]


def connecting(version: CustomVersion, parts: Sequence[str]) -> CustomVersion:
    """The version with subresources that connect to another server."""
    kind = version.resource.gvk._replace(kind=f"{version.resource.kind}ProxyOptions")
    added = {name: Subresource(name=name, kind=kind, verbs=_CONNECT) for name in parts}
    return replace(version, resource=replace(version.resource, subresources={**version.resource.subresources, **added}))


def without_definition(resource: ResourceType) -> CustomVersion:
    """The version of a kind without a Struct and without a definition: its objects may hold anything."""
    return CustomVersion(
        resource=resource,
        openapi=None,
        shape=_SHAPELESS,
        shaped=_keep_all,
        merge_schema=structural.from_openapi(dict(_ANYTHING)),
        selectable_fields={},
        printer_columns=(),
        scale=None,
        deprecation_warning="",
    )


def _version(spec: Mapping[str, Any], version: Mapping[str, Any]) -> CustomVersion:
    declared = _schema(version)
    schema = declared or _ANYTHING
    shape = structure.read(schema)
    subresources = version.get("subresources") or {}
    return CustomVersion(
        resource=_resource_type(spec, version, SchemaValidator(schema, shape)),
        openapi=declared,
        shape=shape,
        shaped=shaping.compile_shape(shape),
        merge_schema=structural.from_openapi(dict(schema)),
        selectable_fields={
            path.removeprefix("."): fieldselectors.at(*version_rules.steps(path))
            for path in (one["jsonPath"] for one in version.get("selectableFields") or ())
        },
        printer_columns=version.get("additionalPrinterColumns") or (),
        scale=scales.from_definition(subresources.get("scale")),
        deprecation_warning=_deprecation(spec, version),
    )


_ANYTHING: Final[JsonSchema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SHAPELESS: Final = structure.read(_ANYTHING)
_keep_all: Final = shaping.compile_shape(_SHAPELESS)


class SchemaValidator:
    """Validates objects of a version by its schema; `rules` are its CEL rules, which also look at the old object."""

    def __init__(self, schema: JsonSchema, shape: Structure) -> None:
        self._check: Final = checks.compile_value(schema)
        self._shape: Final = shape
        self.rules: Final = rule_checks.compile_rules(schema)

    def __call__(self, obj: Mapping[str, Any], /) -> list[fields.FieldError]:
        """All errors but those of rules."""
        shape = self._shape
        return [*self._check(obj), *uniqueness.duplicates(obj, shape), *embedded_objects.errors(obj, shape)]


def _resource_type(spec: Mapping[str, Any], version: Mapping[str, Any], validator: SchemaValidator) -> ResourceType:
    names = spec["names"]
    kind = GroupVersionKind(spec["group"], version["name"], names["kind"])
    declared = version.get("subresources") or {}
    parts = [_SCALE] if declared.get("scale") is not None else []
    if declared.get("status") is not None:
        parts.append(Subresource(name="status", kind=kind, verbs=_READ_WRITE))
    return ResourceType(
        group=kind.group,
        version=kind.version,
        kind=kind.kind,
        plural=names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources={part.name: part for part in parts},
        validator=validator,
        stored_as="" if _has_webhook(spec) else _storage_version(spec),
    )


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if not version.get("deprecated"):
        return ""
    named = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    return version.get("deprecationWarning") or named
