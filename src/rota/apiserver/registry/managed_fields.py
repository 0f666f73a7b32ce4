"""managedFields: which manager set which field, updated by every write.

Built-in kinds merge by Kubernetes' own schemas, custom ones by their definitions'. A request does not own fields that
it cannot change (the status through the main resource, everything else through the status subresource).
"""

import functools
import re
from collections.abc import Hashable
from typing import Any, Final

import msgspec

from rota.api import times
from rota.api.identifiers import GroupVersion
from rota.api.kinds import ResourceType
from rota.api.patches import apply, field_paths, fieldsets, schemas, versions
from rota.api.scheme import Scheme
from rota.apiserver import conversions
from rota.apiserver.interfaces import Attributes, Object, SchemaLookup

_STATUS: Final = field_paths.path("status")
_SPEC: Final = field_paths.path("spec")
_METADATA: Final = field_paths.path("metadata")


def versions_of(resource: ResourceType, scheme: Scheme, custom_schema: SchemaLookup) -> versions.Versions:
    """All versions of a kind that are served, with the data for merging."""
    if not resource.custom:
        return _builtin_versions(tuple(one.gvk for one in scheme.versions(resource.group_resource)) or (resource.gvk,))
    served = scheme.versions(resource.group_resource) or (resource,)
    return versions.Versions(schemas={one.api_version: custom_schema(one).merge_schema for one in served})


@functools.lru_cache(maxsize=512)
def _builtin_versions(kinds: tuple[tuple[str, str, str], ...]) -> versions.Versions:
    found = {}
    for group, version, kind in kinds:
        api_version = str(GroupVersion(group, version))
        found[api_version] = schemas.for_kind(api_version, kind) or schemas.DEDUCED
    return versions.Versions(schemas=found, convert=lambda obj, version: conversions.convert(dict(obj), version))


def untouchable(at: Attributes) -> fieldsets.FieldSet:
    """The fields that this request cannot change."""
    if at.subresource == "status":
        return frozenset({_SPEC, _METADATA} if at.resource.custom else {_SPEC})
    return frozenset({_STATUS}) if "status" in at.resource.subresources else fieldsets.EMPTY


def record(live: Object | None, new: Object, at: Attributes, known: versions.Versions) -> Object:
    """The new object with updated managedFields."""
    if live is None and not at.resource.custom and "managedFields" not in new["metadata"]:
        return _created.record(new, at, known)
    if live is not None and at.subresource == "status" and not at.resource.custom:
        return _statuses.record(live, new, at, known)
    return _record(live, new, at, known)


def _record(live: Object | None, new: Object, at: Attributes, known: versions.Versions) -> Object:
    return apply.update(
        live,
        new,
        manager=at.field_manager,
        versions=known,
        now=times.format_time(at.now),
        subresource=at.subresource,
        reset=untouchable(at),
    )


class _Created:
    """The first managedFields of objects of built-in kinds.

    They depend on the fields that a new object has, not on their values, except for the keys of list elements; so
    objects of one template have the same entries except for the time, and for the uid of their owner.
    """

    _MOST: Final = 512

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Entries] = {}

    def record(self, new: Object, at: Attributes, known: versions.Versions) -> Object:
        """The new object with its first managedFields."""
        key = self._key(new, at, known.schemas[new["apiVersion"]])
        entries = self._known.get(key)
        if entries is None:
            result = _record(None, new, at, known)
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[key] = _Entries(result["metadata"].get("managedFields", []), _belongs_to(new))
            return result
        time = times.format_time(at.now)
        if found := entries.of(_belongs_to(new)):
            new["metadata"]["managedFields"] = [{**entry, "time": time} for entry in found]
        return new

    def _key(self, new: Object, at: Attributes, schema: schemas.TypeSchema) -> tuple[object, ...]:
        metadata = new["metadata"]
        references = metadata.get("ownerReferences") or []
        parts = {name: part for name, part in new.items() if name != "metadata"}
        return (
            at.field_manager,
            at.subresource,
            new["apiVersion"],
            new["kind"],
            _outline(parts, schema),
            _encode(metadata.get("finalizers")),
            tuple(references[0]) if _belongs_to(new) else _encode(references),
            tuple(metadata),
            tuple(metadata.get("labels") or ()),
            tuple(metadata.get("annotations") or ()),
        )


class _Statuses:
    """The managedFields of built-in kinds after a write through the status subresource.

    They depend on the previous owners, on the fields that the status had and has, and on which of them changed; so pods
    of one template in the same state have the same entries except for times and for the uid of their owner.
    """

    _MOST: Final = 1024
    #: With more managers than this the oldest may be merged, which depends on their times.
    _MOST_OWNERS: Final = 4

    def __init__(self) -> None:
        #: Entries without times, and the index of each among the previous ones; None for one that is written now.
        self._known: dict[tuple[object, ...], tuple[_Entries, list[int | None]]] = {}

    def record(self, live: Object, new: Object, at: Attributes, known: versions.Versions) -> Object:
        """The new object with updated managedFields."""
        before = live["metadata"].get("managedFields") or []
        key = self._key(live, new, at, known) if 0 < len(before) <= self._MOST_OWNERS else None
        if key is None:
            return _record(live, new, at, known)
        now = times.format_time(at.now)
        found = self._known.get(key)
        if found is None:
            result = _record(live, new, at, known)
            # In the second in which an entry was written it cannot be distinguished from one that is written now.
            if not any(one.get("time") == now for one in before):
                self._learn(key, before, result)
            return result
        entries, places = found
        timed = [
            {**entry, "time": now} if place is None else {**entry, "time": before[place]["time"]}
            for entry, place in zip(entries.of(_belongs_to(live)), places, strict=True)
        ]
        timed.sort(key=_order)
        return {**new, "metadata": {**new["metadata"], "managedFields": timed}}

    def _key(self, live: Object, new: Object, at: Attributes, known: versions.Versions) -> tuple[object, ...] | None:
        """What the entries depend on; None if that is more than the status."""
        if not all("time" in one for one in live["metadata"]["managedFields"]):
            return None
        if {**live, "status": None, "metadata": None} != {**new, "status": None, "metadata": None}:
            return None
        if _unrecorded(live["metadata"]) != _unrecorded(new["metadata"]):
            return None
        schema = known.schemas[new["apiVersion"]]
        fields = schema.map
        if fields is None:
            return None
        status = fields.child("status")
        old, fresh = live.get("status"), new.get("status")
        return (
            at.field_manager,
            new["apiVersion"],
            new["kind"],
            _anyones(_encode([_timeless(one) for one in live["metadata"]["managedFields"]]), _belongs_to(live)),
            _outline(old, status),
            _outline(fresh, status),
            _differences(old, fresh, status),
        )

    def _learn(self, key: tuple[object, ...], before: list[Object], result: Object) -> None:
        known = {_owner(one): place for place, one in enumerate(before)}
        entries: list[Object] = []
        places: list[int | None] = []
        for entry in result["metadata"].get("managedFields") or []:
            place = known.get(_owner(entry))
            kept = place is not None and before[place]["time"] == entry.get("time")
            entries.append(_timeless(entry))
            places.append(place if kept else None)
        if len(self._known) >= self._MOST:
            self._known.clear()
        self._known[key] = _Entries(entries, _belongs_to(result)), places


class _Entries:
    """Entries that objects of several owners have in common: a placeholder is in the place of the owner's uid."""

    __slots__ = ("_entries", "_marked")

    def __init__(self, entries: list[Object], owner: bytes) -> None:
        self._entries: Final = entries
        self._marked: Final = _anyones(_encode(entries), owner) if owner else b""

    def of(self, owner: bytes) -> list[Object]:
        """The entries for an object with this owner."""
        if not owner:
            return self._entries
        found: list[Object] = _decode(self._marked.replace(_ANYBODY, owner))
        return found


#: The placeholder of an owner's uid; no uid looks like this. It is replaced only where it is the key of a list element:
#: a label may have a uid as its name, and keeps it.
_ANYBODY: Final = b"\0owner\0"
_KEY: Final = rb'"k:{\"uid\":\"'


def _belongs_to(obj: Object) -> bytes:
    """The uid of an object's owner, as in JSON; empty if there is none, or several."""
    references: list[Object] = obj["metadata"].get("ownerReferences") or []
    uid = str(references[0].get("uid") or "") if len(references) == 1 else ""
    return uid.encode() if _UID.fullmatch(uid) else b""


def _anyones(encoded: bytes, owner: bytes) -> bytes:
    return encoded.replace(_KEY + owner, _KEY + _ANYBODY) if owner else encoded


def _unrecorded(metadata: Object) -> Object:
    return {name: value for name, value in metadata.items() if name != "managedFields"}


def _owner(entry: Object) -> tuple[object, ...]:
    return tuple(entry.get(name) for name in ("manager", "operation", "apiVersion", "subresource"))


def _order(entry: Object) -> tuple[str, ...]:
    """The order of entries on the wire; see `managed.encode`."""
    return tuple(str(entry.get(name) or "") for name in ("operation", "time", "manager", "apiVersion", "subresource"))


def _differences(old: Any, new: Any, schema: schemas.TypeSchema) -> Hashable:
    """Which common fields of two values differ; together with their outlines that describes all changes."""
    if old == new:
        return False
    if old.__class__ is dict and new.__class__ is dict:
        fields = schema.map
        if fields is None or fields.atomic:
            return True
        return tuple([(name, _differences(old[name], new[name], fields.child(name))) for name in old if name in new])
    if old.__class__ is list and new.__class__ is list:
        items = schema.items
        if items is None or items.relation in {"set", "atomic"}:
            return True
        before, after = _by_key(old, items.keys), _by_key(new, items.keys)
        return tuple([(key, _differences(before[key], after[key], items.element)) for key in before if key in after])
    return True


def _by_key(values: list[Any], keys: tuple[str, ...]) -> dict[bytes, Any]:
    return {_encode([one.get(key) for key in keys] if one.__class__ is dict else one): one for one in values}


def _outline(value: Any, schema: schemas.TypeSchema) -> Hashable:
    """Which fields a value has: equal outlines mean the same set of fields, whatever their values."""
    if value.__class__ is dict:
        fields = schema.map
        if fields is None:
            return _encode(value)
        if fields.atomic:
            return bool(value)
        return tuple([(name, _outline(item, fields.child(name))) for name, item in value.items()])
    if value.__class__ is list:
        items = schema.items
        if items is None or items.relation == "set":
            return _encode(value)
        if items.relation == "atomic":
            return bool(value)
        keys, element = items.keys, items.element
        return tuple(
            [
                (_encode([one.get(key) for key in keys] if one.__class__ is dict else one), _outline(one, element))
                for one in value
            ]
        )
    return None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
#: Long enough to be unique, and not escaped in JSON, nor in JSON inside a JSON string.
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_created: Final = _Created()
_statuses: Final = _Statuses()


def keep_times(new: Object, live: Object) -> None:
    """Keep the old times in the entries of a write that, once defaults are set, changes nothing else."""
    fresh, known = new["metadata"].get("managedFields"), live["metadata"].get("managedFields")
    if fresh == known or not fresh or not known or list(map(_timeless, fresh)) != list(map(_timeless, known)):
        return
    if {**new, "metadata": {**new["metadata"], "managedFields": known}} == live:
        new["metadata"]["managedFields"] = known


def _timeless(entry: Object) -> Object:
    return {name: value for name, value in entry.items() if name != "time"}


def applied(live: Object | None, config: Object, at: Attributes, known: versions.Versions, *, force: bool) -> Object:
    """The result of server-side apply on the live object, managedFields included."""
    return apply.apply(
        live,
        config,
        manager=at.field_manager,
        versions=known,
        now=times.format_time(at.now),
        force=force,
        subresource=at.subresource,
        reset=untouchable(at),
    )
