"""Validation and defaulting of CustomResourceDefinitions.

Rules and messages are upstream's. As upstream, fields that are equal in all versions are named in errors as if they
were above them (`spec.validation`, not `spec.versions[0].schema`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from rota.api import fields, names, webhook_clients
from rota.api.fields import FieldError, Path
from rota.apiserver.crd import default_rules, formats, rule_errors, schema_rules, support_rules, version_rules
from rota.apiserver.crd.structure import JsonSchema

Definition: TypeAlias = Mapping[str, Any]

#: Schemas are walked recursively; those of real kinds are a few dozen levels deep.
MAX_DEPTH: Final = 100
_SPEC: Final = Path("spec")
_APPROVAL: Final = "api-approved.kubernetes.io"
_DISCUSSION: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_IMMUTABLE: Final = "field is immutable"
_STRATEGIES: Final = ("None", "Webhook")
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
#: Fields that the root of a schema may have together with the status subresource.
_AT_ROOT: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


def set_defaults(definition: dict[str, Any]) -> None:
    """Set the names that follow from the kind, the conversion strategy None, and the port of a webhook's service."""
    spec = definition.setdefault("spec", {})
    given = spec.setdefault("names", {})
    kind = given.get("kind") or ""
    if not given.get("singular") and kind:
        given["singular"] = kind.lower()
    if not given.get("listKind") and kind:
        given["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def storage_version(definition: Definition) -> str:
    """The version in which objects are stored; empty if none is marked."""
    return next((one.get("name") or "" for one in _versions(definition) if one.get("storage")), "")


def validate(definition: Definition) -> list[FieldError]:
    """All errors of a new definition, except for its metadata."""
    return [
        *_name_errors(definition),
        *_spec_errors(definition["spec"]),
        *_stored_version_errors(definition),
        *_approval_errors(definition),
    ]


def validate_update(new: Definition, old: Definition) -> list[FieldError]:
    """All errors of a changed definition, except for its metadata."""
    found = [*_spec_errors(new["spec"]), *_stored_version_errors(new)]
    fixed: list[tuple[str, ...]] = [("group",), ("names", "plural")]
    if is_established(old):
        fixed = [("scope",), ("names", "kind"), *fixed]
    for steps in fixed:
        value = _at(new["spec"], steps)
        if value != _at(old["spec"], steps):
            found.append(fields.invalid(_SPEC.child(*steps), value, _IMMUTABLE))
    return found


def is_established(definition: Definition) -> bool:
    """Whether the kind is served."""
    return condition(definition, "Established").get("status") == "True"


def condition(definition: Definition, type_: str) -> Mapping[str, Any]:
    """A condition of the status; empty if it is not there."""
    listed = (definition.get("status") or {}).get("conditions") or ()
    return next((one for one in listed if one.get("type") == type_), {})


def warnings(definition: Definition) -> list[str]:
    """Warnings about an accepted definition."""
    found: dict[str, None] = {}
    for version in _versions(definition):
        root = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for schema in _all_schemas(root) if _is_shallow(root) else ():
            name = schema.get("format")
            if name and not _is_known_format(name, schema.get("type")):
                found[f'unrecognized format "{name}"'] = None
    return list(found)


def schema_errors(schema: JsonSchema, path: Path, *, has_status: bool) -> Iterator[FieldError]:
    """All errors of the schema of a version."""
    if not _is_shallow(schema):
        yield fields.invalid(path, "", f"must not be nested more than {MAX_DEPTH} levels deep")
        return
    if has_status:
        yield from _root_errors(schema, path)
    if schema.get("nullable"):
        yield fields.forbidden(path.child("nullable"), "nullable cannot be true at the root")
    broken: list[FieldError] = []
    supported = not support_rules.unsupported(schema)
    if supported:
        broken = schema_rules.structural_errors(schema, path)
        yield from broken or default_rules.default_errors(schema, path)
    others = support_rules.support_errors(schema, path)
    yield from others
    # Rules are compiled only if their schema is in order: else their errors would say nothing.
    if supported and not broken and not others:
        yield from rule_errors.rule_errors(schema, path)


def _name_errors(definition: Definition) -> Iterator[FieldError]:
    spec = definition["spec"]
    name = definition["metadata"].get("name") or ""
    if name != f"{_at(spec, ('names', 'plural'))}.{spec.get('group') or ''}":
        why = 'must be spec.names.plural+"."+spec.group'
        yield fields.invalid(Path("metadata").child("name"), name, why)


def _spec_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from _group_errors(spec.get("group") or "")
    scope = spec.get("scope") or ""
    if not scope:
        yield fields.required(_SPEC.child("scope"))
    elif scope not in {"Cluster", "Namespaced"}:
        yield fields.not_supported(_SPEC.child("scope"), scope, ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield fields.invalid(_SPEC.child("preserveUnknownFields"), True, why)
    yield from _version_list_errors(spec.get("versions") or [])
    yield from _names_errors(spec.get("names") or {}, _SPEC.child("names"))
    yield from _conversion_errors(spec.get("conversion") or {}, _SPEC.child("conversion"))


def _group_errors(group: str) -> Iterator[FieldError]:
    path = _SPEC.child("group")
    if not group:
        yield fields.required(path)
    elif messages := names.check_dns1123_subdomain(group):
        yield fields.invalid(path, group, ",".join(messages))
    elif "." not in group:
        yield fields.invalid(path, group, "should be a domain with at least one dot")


def _version_list_errors(versions: list[Mapping[str, Any]]) -> Iterator[FieldError]:
    path = _SPEC.child("versions")
    for position, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield fields.required(path.index(position).child("schema", "openAPIV3Schema"))
    for position, version in enumerate(versions):
        name = version.get("name") or ""
        if messages := names.check_dns1035_label(name):
            yield fields.invalid(path.index(position).child("name"), name, ",".join(messages))
        yield from version_rules.deprecation_errors(version, path.index(position).child("deprecationWarning"))
    for schema_path, version in _distinct(versions, "schema", "validation"):
        schema = version["schema"].get("openAPIV3Schema")
        if schema is not None:
            has_status = (version.get("subresources") or {}).get("status") is not None
            yield from schema_errors(schema, schema_path.child("openAPIV3Schema"), has_status=has_status)
    for part_path, version in _distinct(versions, "subresources", "subresources"):
        yield from version_rules.scale_errors(version["subresources"].get("scale"), part_path)
    for columns_path, version in _distinct(versions, "additionalPrinterColumns", "additionalPrinterColumns"):
        yield from version_rules.column_errors(version["additionalPrinterColumns"], columns_path)
    for fields_path, version in _distinct(versions, "selectableFields", "selectableFields"):
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        yield from version_rules.selectable_errors(version["selectableFields"], schema, fields_path)
    listed = [version.get("name") for version in versions]
    if len(set(listed)) != len(listed):
        yield fields.invalid(path, listed, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield fields.invalid(path, listed, "must have exactly one version marked as storage version")


def _distinct(versions: list[Mapping[str, Any]], name: str, above: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The versions that have a field; just one, under the top-level name, if all are equal."""
    saying = [(position, version) for position, version in enumerate(versions) if version.get(name) is not None]
    if len(saying) == len(versions) and all(version[name] == versions[0][name] for version in versions):
        yield from ((_SPEC.child(above), version) for version in versions[:1])
        return
    for position, version in saying:
        yield _SPEC.child("versions").index(position).child(name), version


def _root_errors(schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    type_ = schema.get("type")
    if type_ and type_ != "object":
        why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield fields.invalid(path.child("type"), type_, why)
    elif any(part not in (None, "", False, [], {}) and name not in _AT_ROOT for name, part in schema.items()):
        allowed = " ".join(_AT_ROOT.values())
        why = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield fields.invalid(path, schema, why)


def _names_errors(given: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not given.get(name):
            yield fields.required(path.child(name))
    for name in ("plural", "singular"):
        yield from _label_errors(given.get(name) or "", path.child(name))
    for name in ("kind", "listKind"):
        value = given.get(name) or ""
        messages = names.check_dns1035_label(value.lower()) if value else []
        if messages:
            why = f"may have mixed case, but should otherwise match: {','.join(messages)}"
            yield fields.invalid(path.child(name), value, why)
    for name in ("shortNames", "categories"):
        for position, value in enumerate(given.get(name) or ()):
            yield from _label_errors(value, path.child(name).index(position))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield fields.invalid(path.child("listKind"), given["listKind"], "kind and listKind may not be the same")


def _label_errors(value: str, path: Path) -> Iterator[FieldError]:
    messages = names.check_dns1035_label(value) if value else []
    if messages:
        yield fields.invalid(path, value, ",".join(messages))


def _conversion_errors(conversion: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook")
    if not strategy:
        yield fields.required(path.child("strategy"))
    elif strategy not in _STRATEGIES:
        yield fields.not_supported(path.child("strategy"), strategy, _STRATEGIES)
    # upstream names the fields as its internal version has them: there is nothing between them and the conversion
    client, versions = path.child("webhookClientConfig"), path.child("conversionReviewVersions")
    given = webhook or {}
    if strategy == "Webhook":
        if given.get("clientConfig") is None:
            yield fields.required(client, "required when strategy is set to Webhook")
        else:
            yield from webhook_clients.validate(given["clientConfig"], client)
        yield from _review_version_errors(given.get("conversionReviewVersions") or [], versions)
        return
    why = "should not be set when strategy is not set to Webhook"
    if given.get("clientConfig") is not None:
        yield fields.forbidden(client, why)
    if given.get("conversionReviewVersions"):
        yield fields.forbidden(versions, why)


def _review_version_errors(versions: list[str], path: Path) -> Iterator[FieldError]:
    if not versions:
        yield fields.required(path)
        return
    for position, one in enumerate(versions):
        if one in versions[:position]:
            yield fields.invalid(path.index(position), one, "duplicate version")
            continue
        for why in names.check_dns1035_label(one):
            yield fields.invalid(path.index(position), one, why)
    if not {*versions} & {*_REVIEW_VERSIONS}:
        yield fields.invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def _stored_version_errors(definition: Definition) -> Iterator[FieldError]:
    path = Path("status").child("storedVersions")
    stored: list[str] = (definition.get("status") or {}).get("storedVersions") or []
    if not stored:
        yield fields.invalid(path, stored, "must have at least one stored version")
        return
    served = {version.get("name") for version in _versions(definition)}
    storage = storage_version(definition)
    if storage and storage not in stored:
        yield fields.invalid(path, stored, f"must have the storage version {storage}")
    for position, version in enumerate(stored):
        if version not in served:
            why = (
                f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {version} and removes "
                f"{version} from status.storedVersions"
            )
            yield fields.invalid(path.index(position), version, why)


def _approval_errors(definition: Definition) -> Iterator[FieldError]:
    """Groups of the Kubernetes community need an approval annotation."""
    group = definition["spec"].get("group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    approval = (definition["metadata"].get("annotations") or {}).get(_APPROVAL) or ""
    path = Path("metadata").child("annotations").key(_APPROVAL)
    if not approval:
        why = f'protected groups must have approval annotation "{_APPROVAL}", {_DISCUSSION}'
        yield fields.required(path, why)
    elif not approval.startswith(("unapproved", "https://", "http://")):
        why = (
            f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason starting '
            f'with "unapproved", {_DISCUSSION}'
        )
        yield fields.invalid(path, approval, why)


def _versions(definition: Definition) -> list[Mapping[str, Any]]:
    listed: list[Mapping[str, Any]] = definition["spec"].get("versions") or []
    return listed


def _at(spec: Mapping[str, Any], steps: tuple[str, ...]) -> Any:
    value: Any = spec
    for step in steps:
        value = (value or {}).get(step)
    return value or ""


def _all_schemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    yield schema
    for _, part in support_rules.parts(schema):
        yield from _all_schemas(part)


def _is_shallow(schema: JsonSchema) -> bool:
    level = [schema]
    for _ in range(MAX_DEPTH):
        level = [part for one in level for _, part in support_rules.parts(one)]
        if not level:
            return True
    return False


def _is_known_format(name: str, type_: str | None) -> bool:
    match type_:
        case "integer":
            return name in {"int32", "int64"}
        case "number":
            return name in {"float", "double"}
        case None | "" | "string":
            return formats.lookup(name) is not None
    return False
