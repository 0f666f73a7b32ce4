"""Request bodies: from bytes and a content type to plain values, and from those to an object of the requested kind.

Two steps, because patches need only the first. `parse` handles formats (JSON, YAML, protobuf); `as_object` handles
kinds: it checks apiVersion and kind, and decodes the object by its schema, reporting unknown and duplicate fields as
the client asked for (`Strictness`). Errors are 400 and 415 with upstream's messages.
"""

import enum
import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rota.api import errors, fields, gotext, schemas, scheme
from rota.api.identifiers import GroupVersionKind, parse_api_version
from rota.api.kinds import ResourceType
from rota.apiserver import yaml_values
from rota.apiserver.interfaces import CustomSchema, Object
from rota.apiserver.protobuf import decoding

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
READ: Final = (JSON, YAML, PROTOBUF)

#: Go writes these only if they are not empty.
_DROPPED_IF_EMPTY: Final = ("annotations", "finalizers", "labels", "ownerReferences")
META_MODEL: Final = "meta_v1.ObjectMeta"


class Strictness(enum.Enum):
    """How unknown fields are handled: the values of the `fieldValidation` parameter."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


def strictness(parameter: str) -> Strictness:
    """The requested strictness, which `wrong_strictness` has accepted; built-in and custom kinds warn by default."""
    return Strictness(parameter) if parameter else Strictness.WARN


def wrong_strictness(parameter: str) -> list[fields.FieldError]:
    """What is wrong with a `fieldValidation` parameter."""
    known = ["", *sorted(one.value for one in Strictness)]
    return [] if parameter in known else [fields.not_supported(fields.Path("fieldValidation"), parameter, known)]


@dataclass(slots=True)
class Parsed:
    """A body as plain values, before its kind is checked."""

    value: Any
    #: Paths of fields that occur more than once.
    duplicates: list[str] = field(default_factory=list)


class Unreadable(ValueError):
    """The bytes do not match the content type."""


class NotText(Unreadable):
    """The bytes are not text, so version and kind were not looked for."""


def media_type(content_type: str) -> str:
    """The content type without its parameters; JSON if there is none. One that cannot be parsed is unknown."""
    plain, _, parameters = content_type.partition(";")
    if parameters.strip() and not all("=" in one for one in parameters.split(";") if one.strip()):
        return content_type
    return plain.strip().lower() or JSON


def parse(body: bytes, content_type: str, *, find_duplicates: bool = True) -> Parsed:
    """The values in a body; UnsupportedMediaType for unknown formats, Unreadable for broken ones."""
    kind = media_type(content_type)
    if kind == PROTOBUF:
        return Parsed(decoding.decode(body))
    if kind == JSON:
        return parse_json(body, find_duplicates=find_duplicates)
    if kind == YAML:
        return parse_yaml(body)
    raise errors.unsupported_media_type(READ)


def parse_json(body: bytes, *, find_duplicates: bool = True) -> Parsed:
    """JSON, with the paths of repeated keys."""
    try:
        value = msgspec.json.decode(body)
        return Parsed(value, _duplicates(body) if find_duplicates and _may_repeat(body, value) else [])
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise Unreadable(f"json parse error: {error}") from None
    except RecursionError:
        raise Unreadable("json parse error: exceeded max depth") from None


def parse_yaml(body: bytes) -> Parsed:
    """The JSON subset of YAML; a body that is JSON is parsed as such, which is much faster."""
    if body.lstrip()[:1] == b"{":
        try:
            return parse_json(body)
        except Unreadable:
            pass  # a YAML flow mapping looks the same
    try:
        return Parsed(*yaml_values.load(body))
    except yaml_values.NotText as error:
        raise NotText(f"yaml: {error}") from error
    except yaml_values.YamlError as error:
        raise Unreadable(f"error converting YAML to JSON: yaml: {error}") from None


def as_object(
    parsed: Parsed,
    resource: ResourceType,
    *,
    gvk: GroupVersionKind,
    model: str | None,
    schema: CustomSchema | None,
    strictness: Strictness,
    warn: Callable[[str], None],
    found: list[str],
) -> Object:
    """The object in the shape of its kind, which is `gvk` (a subresource's may differ from its resource's).

    `schema` is that of a custom kind. Defaults of built-in kinds are not set here. Unknown fields are added to `found`.
    """
    obj = _with_type(parsed.value, gvk, custom=resource.custom)
    unknown: list[str] = []
    try:
        if model is not None:
            obj, unknown = schemas.clean(obj, model)
        elif schema is not None:
            obj, unknown = clean_custom(obj, schema)
    except schemas.SchemaError as error:
        raise cannot_handle(gvk, str(error)) from None
    except RecursionError:
        raise cannot_handle(gvk, "exceeded max depth") from None
    found += unknown
    complaints = [f"unknown field {gotext.quote(path)}" for path in unknown]
    complaints += [f"duplicate field {gotext.quote(path)}" for path in parsed.duplicates]
    if complaints and strictness is Strictness.STRICT:
        raise cannot_handle(gvk, f"strict decoding error: {', '.join(complaints)}")
    if strictness is Strictness.WARN:
        for complaint in complaints:
            warn(complaint)
    tidy(obj.setdefault("metadata", {}))
    return obj


def tidy(metadata: Object) -> None:
    """Remove fields without meaning."""
    for name in _DROPPED_IF_EMPTY:
        if name in metadata and not metadata[name]:
            del metadata[name]


def unrecognized(kind: str, why: Unreadable | str, body: bytes) -> errors.BadRequest:
    """The error for a body that is not an object; it shows the first bytes."""
    shown = body[:10].hex()
    summary = f"{shown} ..." if len(body) > 10 else shown
    what = str(why) if isinstance(why, NotText) else f"couldn't get version/kind; {why}"
    return errors.bad_request(f"the object provided is unrecognized (must be of type {kind}): {what} ({summary})")


class Misshapen(errors.BadRequest):
    """An object does not have the shape of its kind; `why` names the place."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why: Final = why


def cannot_handle(gvk: GroupVersionKind, why: str) -> Misshapen:
    """The error for an object that does not have the shape of its kind."""
    return Misshapen(f"{gvk.kind} in version {gotext.quote(gvk.version)} cannot be handled as a {gvk.kind}: {why}", why)


@functools.cache
def _known_kinds() -> frozenset[GroupVersionKind]:
    return frozenset(one.gvk for one in scheme.builtin())


def _with_type(value: Any, gvk: GroupVersionKind, *, custom: bool) -> Object:
    """The object with apiVersion and kind filled in if missing; BadRequest if they differ."""
    if value is None:
        value = {}  # as Go reads it
    if not isinstance(value, dict):
        raise unrecognized(gvk.kind, "json parse error: not an object", msgspec.json.encode(value))
    version, kind = value.get("apiVersion"), value.get("kind")
    if not kind or not version:
        if custom:
            missing = "Kind" if not kind else "apiVersion"
            shown = msgspec.json.encode(value).decode()
            raise errors.bad_request(
                f"the object provided is unrecognized (must be of type {gvk.kind}): Object '{missing}' is missing in "
                f"'{shown[:512]}'"
            )
    elif not isinstance(version, str) or not isinstance(kind, str):
        raise cannot_handle(gvk, "json: cannot unmarshal apiVersion and kind into strings")
    elif version != gvk.api_version:
        parsed = parse_api_version(version)
        shown = str(parsed) if parsed else version
        if not custom and (parsed is None or GroupVersionKind(*parsed, kind) not in _known_kinds()):
            raise errors.bad_request(
                f"{kind} in version {gotext.quote(parsed.version if parsed else version)} cannot be handled as a "
                f"{gvk.kind}: no kind {gotext.quote(kind)} is registered for version {gotext.quote(shown)}"
            )
        raise errors.bad_request(
            f"the API version in the data ({shown}) does not match the expected API version ({gvk.api_version})"
        )
    elif kind != gvk.kind:
        raise errors.bad_request(
            f"{kind} in version {gotext.quote(gvk.version)} cannot be handled as a {gvk.kind}: "
            f"no kind {gotext.quote(kind)} is registered for version {gotext.quote(gvk.api_version)}"
        )
    return {**value, "apiVersion": gvk.api_version, "kind": gvk.kind}


def clean_custom(obj: Object, schema: CustomSchema) -> tuple[Object, list[str]]:
    """An object of a custom kind in its shape, and the paths of its unknown fields."""
    metadata, unknown = schemas.clean(obj.get("metadata") or {}, META_MODEL)
    cleaned, undeclared = schema.clean({**obj, "metadata": metadata})
    return cleaned, [*(f"metadata.{path}" for path in unknown), *undeclared]


_NAME_END: Final = b'":'
_SPACED: Final = re.compile(rb'"[ \t\r\n]+:')


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its repeated keys."""


def _may_repeat(body: bytes, value: Any) -> bool:
    """Whether a key may occur twice in an object: if none does, the body has as many keys as its values.

    A key in JSON ends with a quote and a colon. If there is a space between the two, or there are escaped quotes, the
    count says nothing.
    """
    if b"\\" in body or _SPACED.search(body):
        return True
    return body.count(_NAME_END) != msgspec.json.encode(value).count(_NAME_END)


def _duplicates(body: bytes) -> list[str]:
    """Paths of repeated keys. The first pass only checks whether there are any, which is cheap."""
    repeated = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        if len(pairs) > 1 and len({name for name, _ in pairs}) != len(pairs):
            repeated = True

    json.loads(body, object_pairs_hook=look)
    if not repeated:
        return []
    found: list[str] = []
    _find_repeated(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return found


def _find_repeated(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, item in value:
            below = f"{path}.{name}" if path else name
            if name in seen and below not in found:
                found.append(below)
            seen.add(name)
            _find_repeated(item, below, found)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _find_repeated(item, f"{path}[{position}]", found)
