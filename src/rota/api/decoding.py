"""From the bytes of a request to an object of a known kind, and to typed views of stored objects.

`decode` is for what clients send: the result is a plain dict in the shape of its kind, with the warnings that
`fieldValidation` asks for; what cannot be understood is a `BadRequest` in upstream's words. `typed` is for reading
fields of objects that were decoded before: it goes straight from stored bytes to the kind's Struct.
"""

import enum
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.api import errors, gotext, identifiers, schemas
from rota.api.identifiers import GroupVersionKind
from rota.api.kinds import ResourceType, Subresource

_META_MODEL: Final = "meta_v1.ObjectMeta"


class FieldValidation(enum.Enum):
    """What happens to unknown and duplicate fields: they are refused, warned of, or dropped in silence."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object in the shape of its kind, and what is to be said about the way it was written."""

    obj: dict[str, Any]
    warnings: tuple[str, ...] = ()


def decode(
    body: bytes | Mapping[str, Any],
    resource: ResourceType | Subresource,
    *,
    validation: FieldValidation = FieldValidation.WARN,
) -> Decoded:
    """The object that a client sent for a resource; `apiVersion` and `kind` may be left out for built-in kinds.

    Unknown fields of built-in kinds are dropped. Those of custom kinds are kept, except in the metadata: only their
    schema can tell. Duplicate fields can only be seen in bytes.
    """
    kind = resource.gvk if isinstance(resource, ResourceType) else resource.kind
    try:
        return _decode(body, resource, kind, validation)
    except RecursionError:
        shown = body if isinstance(body, bytes) else b"..."
        raise _unrecognized(kind, shown, "exceeded max depth") from None


def typed(stored: bytes, resource: ResourceType) -> Any:
    """The Struct of a stored object of a built-in kind."""
    if resource.model is None:
        raise TypeError(f"{resource} is a custom kind and has no Struct; read it as plain JSON")
    return _decoder(resource.model).decode(stored)


def typed_from_object(obj: Mapping[str, Any], resource: ResourceType) -> Any:
    """The Struct of an object of a built-in kind that is in memory as a dict."""
    if resource.model is None:
        raise TypeError(f"{resource} is a custom kind and has no Struct; read it as it is")
    return msgspec.convert(obj, schemas.struct_of(resource.model))


def _decode(
    body: bytes | Mapping[str, Any],
    resource: ResourceType | Subresource,
    kind: GroupVersionKind,
    validation: FieldValidation,
) -> Decoded:
    found = _object(body, kind)
    claimed = _claimed_kind(found, kind)
    try:
        cleaned, unknown = _clean(found, resource)
    except schemas.SchemaError as error:
        raise _cannot_be_handled(claimed, kind, str(error)) from None
    warnings: list[str] = []
    if validation is not FieldValidation.IGNORE:
        duplicates = _duplicates(body, found) if isinstance(body, bytes) else []
        warnings = [f"duplicate field {gotext.quote(path)}" for path in duplicates]
        warnings += [f"unknown field {gotext.quote(path)}" for path in unknown]
    if warnings and validation is FieldValidation.STRICT:
        raise _cannot_be_handled(claimed, kind, f"strict decoding error: {', '.join(warnings)}")
    cleaned.pop("apiVersion", None)
    cleaned.pop("kind", None)
    return Decoded({"apiVersion": kind.api_version, "kind": kind.kind, **cleaned}, tuple(warnings))


@functools.cache
def _decoder(model: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(schemas.struct_of(model))


def _object(body: bytes | Mapping[str, Any], kind: GroupVersionKind) -> dict[str, Any]:
    if not isinstance(body, bytes):
        return dict(body)
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unrecognized(kind, body, str(error)) from None
    if not isinstance(found, dict):
        raise _unrecognized(kind, body, "json: cannot unmarshal into Go value: an object is expected")
    return found


def _clean(found: dict[str, Any], resource: ResourceType | Subresource) -> tuple[dict[str, Any], list[str]]:
    if resource.model is not None:
        return schemas.clean(found, resource.model)
    metadata = found.get("metadata")
    if metadata is None:
        return found, []
    try:
        cleaned, unknown = schemas.clean(metadata, _META_MODEL)
    except schemas.SchemaError as error:
        raise schemas.SchemaError(str(error).replace("ObjectMeta.", "ObjectMeta.metadata.", 1)) from None
    return {**found, "metadata": cleaned}, [f"metadata.{path}" for path in unknown]


def _claimed_kind(found: dict[str, Any], expected: GroupVersionKind) -> GroupVersionKind:
    """What the object says it is; a `BadRequest` if that is not what is expected here."""
    api_version, kind = found.get("apiVersion") or "", found.get("kind") or ""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise errors.bad_request("couldn't get version/kind; json parse error: apiVersion and kind must be strings")
    version = identifiers.parse_api_version(api_version) if api_version else None
    if api_version and version is None:
        raise errors.bad_request(f"unexpected GroupVersion string: {api_version}")
    claimed = GroupVersionKind(*(version or expected[:2]), kind or expected.kind)
    if claimed.kind != expected.kind:
        why = f"no kind {gotext.quote(claimed.kind)} is registered for version {gotext.quote(claimed.api_version)}"
        raise _cannot_be_handled(claimed, expected, f"{why} at this path")
    if claimed != expected:
        raise errors.bad_request(
            f"the API version in the data ({claimed.api_version}) "
            f"does not match the expected API version ({expected.api_version})"
        )
    return claimed


def _cannot_be_handled(claimed: GroupVersionKind, expected: GroupVersionKind, why: str) -> errors.BadRequest:
    version = gotext.quote(claimed.version)
    return errors.bad_request(f"{claimed.kind} in version {version} cannot be handled as a {expected.kind}: {why}")


def _unrecognized(expected: GroupVersionKind, body: bytes, why: str) -> errors.BadRequest:
    text = body.decode(errors="replace")
    summary = "<empty>" if not body else text if len(text) <= 30 else f"{text[:30]} ..."
    return errors.bad_request(
        f"the object provided is unrecognized (must be of type {expected.kind}): {why} ({summary})"
    )


def _duplicates(body: bytes, found: dict[str, Any]) -> list[str]:
    """The paths of fields that occur twice in one object.

    A body that is what the decoded object looks like when written out again has none; that clears most bodies, for
    Go's clients send compact JSON. Only the rest is parsed with an eye on every key.
    """
    if msgspec.json.encode(found) == body.rstrip():
        return []
    return _duplicate_paths(json.loads(body, object_pairs_hook=_Pairs), "")


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as it is written, with repeated keys."""


def _duplicate_paths(value: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, item in value:
            below = f"{path}.{name}" if path else name
            if name in seen:
                found.append(below)
            seen.add(name)
            found += _duplicate_paths(item, below)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            found += _duplicate_paths(item, f"{path}[{position}]")
    return list(dict.fromkeys(found))
