"""Decoded-body cache: bodies that differ in metadata only are decoded once.

Most objects are created from templates, so often all of a body but its metadata has been seen before, byte for byte.
Then decoding, checks for unknown and repeated fields, and encoding are skipped: the result is cached. Only bodies
without errors and warnings are cached, and unusual ones are left to `bodies`, so that messages have one source.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from rota.api import schemas
from rota.api.identifiers import GroupVersionKind
from rota.api.kinds import ResourceType
from rota.apiserver import bodies
from rota.apiserver.interfaces import CustomSchema, Object

#: Number and size of cached bodies: some megabytes at most.
_MOST: Final = 512
_LARGEST: Final = 8192
#: A key in JSON ends like this, unless there is a space.
_NAME_END: Final = b'":'
_SPACED: Final = re.compile(rb'"[ \t\r\n]+:')

_top: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any: Final = msgspec.json.Decoder()
_dict: Final = msgspec.json.Decoder(dict[str, Any])
_encode: Final = msgspec.json.Encoder().encode
_Key: TypeAlias = tuple[GroupVersionKind, tuple[tuple[str, bytes], ...]]
#: The decoded object without its metadata, as JSON: decoding it is the fastest way to a copy.
_known: Final[dict[_Key, bytes]] = {}


class _SplitBody(NamedTuple):
    key: _Key
    metadata: bytes


def read(
    body: bytes,
    content_type: str,
    resource: ResourceType,
    *,
    gvk: GroupVersionKind,
    model: str | None,
    schema: CustomSchema | None,
    strictness: bodies.Strictness,
    warn: Callable[[str], None],
) -> Object:
    """As `bodies.parse` followed by `bodies.as_object`; Unreadable if the bytes cannot be parsed."""
    split = None
    if model is not None and len(body) <= _LARGEST and strictness is not bodies.Strictness.IGNORE:
        split = _split(body, content_type, gvk)
    if split is not None:
        obj = _with_metadata(split)
        if obj is not None:
            return obj
    complaints: list[str] = []
    parsed = bodies.parse(body, content_type, find_duplicates=strictness is not bodies.Strictness.IGNORE)
    obj = bodies.as_object(
        parsed,
        resource,
        gvk=gvk,
        model=model,
        schema=schema,
        strictness=strictness,
        warn=complaints.append,
        found=[],
    )
    for complaint in complaints:
        warn(complaint)
    if split is not None and not complaints:
        if len(_known) >= _MOST:
            _known.clear()
        _known[split.key] = _encode({name: part for name, part in obj.items() if name != "metadata"})
    return obj


def _split(body: bytes, content_type: str, gvk: GroupVersionKind) -> _SplitBody | None:
    """A body's metadata and the rest; None if it is not a JSON object with metadata, or a key may occur twice."""
    if bodies.media_type(content_type) != bodies.JSON or _SPACED.search(body):
        return None
    try:
        parts = _top.decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None
    # repeated keys at the top level leave keys that no part accounts for
    accounted = len(parts)
    found = []
    for name, raw in parts.items():
        part = bytes(raw)
        accounted += part.count(_NAME_END)
        found.append((name, part))
    if accounted != body.count(_NAME_END):
        return None
    metadata = [part for name, part in found if name == "metadata"]
    if not metadata:
        return None
    return _SplitBody((gvk, tuple(pair for pair in found if pair[0] != "metadata")), metadata[0])


def _with_metadata(split: _SplitBody) -> Object | None:
    """The object, if all but its metadata is cached and the metadata is as usual."""
    rest = _known.get(split.key)
    # an encoded escaped quote would be counted in one of the two texts only
    if rest is None or b"\\u" in split.metadata:
        return None
    try:
        given = _any.decode(split.metadata)
        metadata, unknown = schemas.clean(given, bodies.META_MODEL)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if unknown or _encode(given).count(_NAME_END) != split.metadata.count(_NAME_END):
        return None
    bodies.tidy(metadata)
    obj = _dict.decode(rest)
    obj["metadata"] = metadata
    return obj
