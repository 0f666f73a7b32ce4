"""The stored form of objects: the bytes are encoded once, when an object is written.

A stored object begins with apiVersion, kind and metadata and has no resourceVersion: that is the store's revision,
which is spliced in when it is sent. All versions of an object are stored once, so the apiVersion is replaced as well if
another version is requested. None of this decodes the object, except for the few kinds whose versions differ in more
than their names (`conversions`).
"""

import functools
from typing import Any, Final

import msgspec

from rota.api import errors, keys
from rota.api.identifiers import GroupVersion
from rota.api.kinds import ResourceType
from rota.apiserver import conversions
from rota.apiserver.interfaces import Damaged, Object
from rota.kit import logs
from rota.store.store_interface import Entry

log = logs.get(__name__)

_METADATA: Final = b'"metadata":{'
#: etcd's default limit, and so that of a stock server.
MAX_BYTES: Final = 1536 * 1024
_NOT_STORED: Final = frozenset({"resourceVersion", "selfLink"})
_MOST_LEFT_OUT: Final = 1000
_left_out: Final[set[tuple[str, int]]] = set()
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


class NotStoredForm(ValueError):
    """Bytes that are not a stored object; code that knows their key raises `interfaces.Damaged`."""


class Metadata(msgspec.Struct, gc=False):
    """The fields that label selectors need."""

    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct, gc=False):
    metadata: Metadata


_labelled: Final = msgspec.json.Decoder(_Labelled)


def key(resource: ResourceType, namespace: str, name: str) -> str:
    """The storage key of an object."""
    return keys.for_object(conversions.home(resource), namespace, name)


def prefix(resource: ResourceType, namespace: str | None) -> str:
    """The storage prefix of a resource's objects, all or those of one namespace."""
    return keys.prefix(conversions.home(resource), namespace)


def encode(obj: Object, resource: ResourceType, *, limited: bool = True) -> bytes:
    """The stored form of an object; RequestEntityTooLarge if it is too large and `limited`."""
    if conversions.is_rewritten(resource):
        obj = conversions.convert(dict(obj), conversions.stored_version(resource))
    metadata = {name: item for name, item in obj["metadata"].items() if name not in _NOT_STORED}
    ordered = {"apiVersion": resource.stored_as or obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    value = _encoder.encode(ordered | {name: item for name, item in obj.items() if name not in ordered})
    if limited and len(value) > MAX_BYTES:
        why = f"the object has {len(value)} bytes with its defaults and managed fields, the limit is {MAX_BYTES}"
        raise errors.request_entity_too_large(why)
    return value


def entry_object(entry: Entry, resource: ResourceType) -> Object:
    """The object of an entry; Damaged if it cannot be decoded."""
    try:
        return decode(entry.value, entry.revision, resource)
    except NotStoredForm:
        raise Damaged(entry.key) from None


def leave_out(key: str, revision: int) -> str:
    """Log, once, that a damaged value is left out of lists; returns the warning for the client."""
    if (key, revision) not in _left_out:
        if len(_left_out) >= _MOST_LEFT_OUT:
            _left_out.clear()
        _left_out.add((key, revision))
        log.error("the value of an object in the store is damaged; lists leave it out until it is deleted", key=key)
    return f"the value of {key} in the store is damaged and left out; delete the object or restore a backup"


def pack(obj: Object) -> bytes:
    """An object packed, to get another copy of it later."""
    return _encoder.encode(obj)


def unpack(value: bytes) -> Object:
    """What was packed."""
    return _decoder.decode(value)


def decode(value: bytes, revision: int, resource: ResourceType) -> Object:
    """The decoded object in the requested version; NotStoredForm if it cannot be decoded."""
    try:
        obj = _decoder.decode(value)
        obj["metadata"]["resourceVersion"] = str(revision)
        obj["apiVersion"]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError):
        raise NotStoredForm from None
    return obj if obj["apiVersion"] == resource.api_version else conversions.convert(obj, resource.api_version)


def is_in_version(value: bytes, api_version: str) -> bool:
    """Whether an object is stored in this version."""
    return value.startswith(_version_head(api_version))


@functools.lru_cache(maxsize=4096)  # every watcher reads a change, one right after the other
def labels(value: bytes) -> dict[str, str] | None:
    """The labels of an object, without decoding the rest."""
    try:
        return _labelled.decode(value).metadata.labels
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise NotStoredForm from None


def wire(value: bytes, revision: int, resource: ResourceType) -> bytes:
    """An object as clients see it."""
    head = _head(resource.group, resource.version, resource.kind)
    if not value.endswith(b"}"):
        raise NotStoredForm
    if value.startswith(head):
        return b'%b"resourceVersion":"%d",%b' % (head, revision, value[len(head) :])
    if conversions.is_rewritten(resource):
        return _encoder.encode(decode(value, revision, resource))
    start = value.find(_METADATA) + len(_METADATA)
    if start < len(_METADATA):
        raise NotStoredForm
    return b'%b"resourceVersion":"%d",%b' % (head, revision, value[start:])


def item(value: bytes, revision: int, resource: ResourceType) -> bytes:
    """An object in a list: kind and version of built-in ones are in the list only."""
    if resource.custom:
        return wire(value, revision, resource)
    head = _head(resource.group, resource.version, resource.kind)
    if not value.startswith(head) or not value.endswith(b"}"):
        return b'{"metadata":{' + wire(value, revision, resource)[len(head) :]
    return b'{"metadata":{"resourceVersion":"%d",%b' % (revision, value[len(head) :])


@functools.lru_cache(maxsize=1024)
def _head(group: str, version: str, kind: str) -> bytes:
    start = _encoder.encode({"apiVersion": str(GroupVersion(group, version)), "kind": kind})
    return start[:-1] + b"," + _METADATA


@functools.lru_cache(maxsize=1024)
def _version_head(api_version: str) -> bytes:
    return _encoder.encode({"apiVersion": api_version})[:-1] + b","
