"""managedFields: which manager set which field, updated by every write.

Built-in kinds merge by Kubernetes' own schemas, custom ones by their definitions'. A request does not own fields that
it cannot change (the status through the main resource, everything else through the status subresource).
"""

import functools
import re
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from rota.api import times
from rota.api.identifiers import GroupVersion
from rota.api.kinds import ResourceType
from rota.api.patches import apply, field_paths, fieldsets, json_values, schemas, versions
from rota.api.scheme import Scheme
from rota.apiserver import conversions
from rota.apiserver.interfaces import Attributes, Object, SchemaLookup

_sorted: Final = msgspec.json.Encoder(order="sorted").encode
_STATUS: Final = field_paths.path("status")
_SPEC: Final = field_paths.path("spec")
_METADATA: Final = field_paths.path("metadata")


class Unconverted(Exception):
    """An object is needed in another version; the caller converts it and tries again."""

    def __init__(self, obj: Object, api_version: str) -> None:
        super().__init__(api_version)
        self.object: Final = obj
        self.api_version: Final = api_version

    @property
    def key(self) -> tuple[str, bytes]:
        """Of the object in `Attributes.converted`."""
        return self.api_version, _sorted(self.object)


def versions_of(
    resource: ResourceType,
    scheme: Scheme,
    custom_schema: SchemaLookup,
    converted: Mapping[tuple[str, bytes], Object] | None = None,
) -> versions.Versions:
    """All versions of a kind that are served, with the data for merging.

    `converted` are known conversions of a kind whose versions differ in more than their names. Of such a kind, a
    conversion that is not among them raises Unconverted.
    """
    if not resource.custom:
        return _builtin_versions(tuple(one.gvk for one in scheme.versions(resource.group_resource)) or (resource.gvk,))
    served = scheme.versions(resource.group_resource) or (resource,)
    found = {one.api_version: custom_schema(one).merge_schema for one in served}
    if converted is None:
        return versions.Versions(schemas=found)

    def convert(obj: Mapping[str, Any], api_version: str) -> Object:
        needed = Unconverted(dict(obj), api_version)
        known = converted.get(needed.key)
        if known is None:
            raise needed
        return json_values.copy(known)  # type: ignore[no-any-return]  # a copy of a dict is one

    return versions.Versions(schemas=found, convert=convert)


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
    if live is not None:
        return _changed.record(live, new, at, known)
    if "managedFields" in new["metadata"]:
        return _record(live, new, at, known, now=times.format_time(at.now))
    return _created.record(new, at, known)


def _record(live: Object | None, new: Object, at: Attributes, known: versions.Versions, *, now: str) -> Object:
    return apply.update(
        live,
        new,
        manager=at.field_manager,
        versions=known,
        now=now,
        subresource=at.subresource,
        reset=untouchable(at),
    )


class _Created:
    """The first managedFields of objects.

    They depend on the fields that a new object has, not on their values, except for the keys of list elements; so
    objects of one template have the same entries except for the time, and for the uid of their owner.
    """

    _MOST: Final = 512

    def __init__(self) -> None:
        #: With each the schema, whose identity is part of the key: a definition may change.
        self._known: dict[tuple[object, ...], tuple[_Entries, schemas.TypeSchema]] = {}

    def record(self, new: Object, at: Attributes, known: versions.Versions) -> Object:
        """The new object with its first managedFields."""
        schema = known.schemas[new["apiVersion"]]
        key = self._key(new, at, schema)
        kept = self._known.get(key)
        time = times.format_time(at.now)
        if kept is None:
            result = _record(None, new, at, known, now=time)
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[key] = _Entries(result["metadata"].get("managedFields", []), _belongs_to(new)), schema
            return result
        if found := kept[0].of(_belongs_to(new)):
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
            id(schema),
            _outline(parts, schema),
            _encode(metadata.get("finalizers")),
            tuple(references[0]) if _belongs_to(new) else _encode(references),
            tuple(metadata),
            tuple(metadata.get("labels") or ()),
            tuple(metadata.get("annotations") or ()),
        )


class _Changed:
    """The managedFields after a change of an object.

    They depend on the previous owners, and on which fields were added, changed and removed; so objects of one template
    that change in the same way have the same entries except for times and for the uid of their owner.
    """

    _MOST: Final = 1024
    #: With more managers than this the oldest may be merged, which depends on their times.
    _MOST_OWNERS: Final = 4
    #: The time of what is written now while entries are worked out; no write has it.
    _NOW: Final = "9999-12-31T23:59:59Z"

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Change] = {}

    def record(self, live: Object, new: Object, at: Attributes, known: versions.Versions) -> Object:
        """The new object with updated managedFields."""
        before = live["metadata"].get("managedFields") or []
        now = times.format_time(at.now)
        key = self._key(live, new, at, known) if 0 < len(before) <= self._MOST_OWNERS else None
        if key is None:
            return _record(live, new, at, known, now=now)
        found = self._known.get(key)
        if found is None:
            found = self._worked_out(before, _record(live, new, at, known, now=self._NOW), new, known)
            if found is None:
                return _record(live, new, at, known, now=now)
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[key] = found
        timed = [
            {**entry, "time": now} if place is None else {**entry, "time": before[place]["time"]}
            for entry, place in zip(found.entries.of(_belongs_to(live)), found.places, strict=True)
        ]
        if not timed:
            return {**new, "metadata": _unrecorded(new["metadata"])}
        timed.sort(key=_order)
        return {**new, "metadata": {**new["metadata"], "managedFields": timed}}

    def _key(self, live: Object, new: Object, at: Attributes, known: versions.Versions) -> tuple[object, ...] | None:
        """What the entries depend on; None if that is more than the change."""
        version, before = new["apiVersion"], live["metadata"]["managedFields"]
        schema = known.schemas.get(version)
        if schema is None or live["apiVersion"] != version or _belongs_to(live) != _belongs_to(new):
            return None
        sent = new["metadata"].get("managedFields")
        if sent is not before and sent != before and not (at.subresource and sent is None):
            return None  # the client has edited them
        if not all(one.get("apiVersion") == version and one.get("time", self._NOW) != self._NOW for one in before):
            return None
        old, fresh = ({**obj, "metadata": _unrecorded(obj["metadata"])} for obj in (live, new))
        return (
            at.field_manager,
            at.subresource,
            version,
            new["kind"],
            id(schema),
            _anyones(_encode([_timeless(one) for one in before]), _belongs_to(live)),
            _delta(old, fresh, schema),
        )

    def _worked_out(
        self, before: list[Object], result: Object, new: Object, known: versions.Versions
    ) -> "_Change | None":
        """The entries of a change; None if one of them cannot be found among the former ones, as they were written."""
        indexes = {_owner(one): place for place, one in enumerate(before)}
        recorded = result["metadata"].get("managedFields") or []
        if not all(one.get("time") == self._NOW or _owner(one) in indexes for one in recorded):
            return None
        return _Change(
            entries=_Entries([_timeless(one) for one in recorded], _belongs_to(result)),
            places=[None if one.get("time") == self._NOW else indexes[_owner(one)] for one in recorded],
            schema=known.schemas[new["apiVersion"]],
        )


class _Change(NamedTuple):
    """Entries without times, and the index of each among the previous ones; None for one that is written now."""

    entries: "_Entries"
    places: list[int | None]
    #: Its identity is part of the key: a definition may change.
    schema: schemas.TypeSchema


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


def _delta(old: Any, new: Any, schema: schemas.TypeSchema) -> Hashable:
    """Which fields were added, changed and removed: values with equal deltas change the owners in the same way."""
    if old is new or (old == new and _identical(old) == _identical(new)):
        return False
    if old.__class__ is dict and new.__class__ is dict:
        fields = schema.map
        if fields is not None and not fields.atomic:
            return (
                # An empty map is a leaf.
                (bool(old), bool(new)),
                *[(name, _delta_at(name, old, new, fields.child(name))) for name in old],
                *[(name, "added", _outline(item, fields.child(name))) for name, item in new.items() if name not in old],
            )
    elif old.__class__ is list and new.__class__ is list:
        items = schema.items
        if items is not None and items.relation == "map":
            before, after = _by_key(old, items.keys), _by_key(new, items.keys)
            if len(before) < len(old) or len(after) < len(new):
                return _encode(old), _encode(new)  # elements that cannot be told apart
            return (
                (bool(old), bool(new)),
                *[(key, _delta_at(key, before, after, items.element)) for key in before],
                *[(key, "added", _outline(item, items.element)) for key, item in after.items() if key not in before],
            )
    return (
        json_values.same(old, new),
        (_outline(old, schema), old.__class__.__name__, bool(old)),
        (_outline(new, schema), new.__class__.__name__, bool(new)),
    )


def _delta_at(name: Any, old: Mapping[Any, Any], new: Mapping[Any, Any], schema: schemas.TypeSchema) -> Hashable:
    return _delta(old[name], new[name], schema) if name in new else ("removed", _outline(old[name], schema))


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
        # Most fields are scalars, which have no outline: neither a call nor their schema is needed.
        return tuple(
            [
                (name, _outline(item, fields.child(name)) if item.__class__ in _WITH_PARTS else None)
                for name, item in value.items()
            ]
        )
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


_WITH_PARTS: Final[frozenset[type[object]]] = frozenset({dict, list})
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
#: For comparisons: Python says that True equals 1.
_identical: Final = msgspec.json.Encoder(order="deterministic").encode
#: Long enough to be unique, and not escaped in JSON, nor in JSON inside a JSON string.
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_created: Final = _Created()
_changed: Final = _Changed()


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
