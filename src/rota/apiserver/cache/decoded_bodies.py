"""Bodies that were read before, but for their metadata: what is made from one template is understood once.

Most objects are made by programs that make many alike, so all of a body but its metadata has often been seen, byte for
byte. Then it is not taken apart, checked for unknown and repeated fields and put together again: the outcome is
remembered. Only bodies that gave no reason to complain are remembered, and whatever is unusual about one is left to
`bodies`, so that refusals and warnings have one source.
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

#: How many are remembered, and how large one may be: some megabytes at most.
_MOST: Final = 512
_LARGEST: Final = 8192
#: A name in JSON ends like this, unless somebody writes a space there.
_NAME_END: Final = b'":'
_SPACED: Final = re.compile(rb'"[ \t\r\n]+:')

_top: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any: Final = msgspec.json.Decoder()
_dict: Final = msgspec.json.Decoder(dict[str, Any])
_encode: Final = msgspec.json.Encoder().encode
_Key: TypeAlias = tuple[GroupVersionKind, tuple[tuple[str, bytes], ...]]
#: The cleaned object without its metadata, as JSON: decoding it is the fastest way to a copy.
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
    """As `bodies.parse` and `bodies.as_object` one after the other; Unreadable if the bytes are no values at all."""
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
    """A body's metadata and the rest; None if it is no JSON object with metadata, or a name may occur twice in it."""
    if bodies.media_type(content_type) != bodies.JSON or _SPACED.search(body):
        return None
    try:
        parts = _top.decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None
    # repeated names at the top leave names that none of the parts accounts for
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
    """The object, if all but its metadata is known and that is as usual."""
    rest = _known.get(split.key)
    # an escaped quote in disguise would be counted in one of the two texts only
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
