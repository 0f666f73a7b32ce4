"""Server-side apply, and the bookkeeping of every other write.

The API server calls `apply` for an apply patch and `update` for create, update and the other patches, each with the
object as stored and the object (or configuration) that came in. Both return the object to store, managedFields
included, and change neither argument. An apply that alters nothing returns the live object with unchanged times, so
comparing with the live object tells whether there is something to write.

`reset` names what the request cannot change (`.status` on the main resource, `.spec` on the status subresource):
no manager gets to own fields there.
"""

from __future__ import annotations

import json
from dataclasses import replace

from rota.api.patches import field_ownership, typed, validation
from rota.api.patches import managed as records
from rota.api.patches.errors import MalformedPatch, refuses_deep_nesting
from rota.api.patches.field_ownership import OwnershipConflict
from rota.api.patches.field_paths import path
from rota.api.patches.fieldsets import EMPTY, FieldSet
from rota.api.patches.json_values import JsonObject, copy, json_text, same
from rota.api.patches.managed import ManagedFields, Manager, Ownership
from rota.api.patches.schemas import TypeSchema
from rota.api.patches.versions import Versions

#: The annotation in which client-side apply keeps the last configuration.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
#: The manager of fields that were there before ownership was recorded.
BEFORE_FIRST_APPLY = "before-first-apply"
#: All annotations of an object together may be this long; last-applied gives way.
MAX_ANNOTATIONS_BYTES = 256 * 1024

#: What belongs to the system or to the request's path is never owned.
SYSTEM_FIELDS: FieldSet = frozenset(
    {path("apiVersion"), path("kind"), path("metadata")}
    | {
        path("metadata", name)
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    }
)

#: kubectl moves from client-side to server-side apply; the server helps this one manager along.
_KUBECTL = "kubectl"


@refuses_deep_nesting
def apply(
    live: JsonObject | None,
    config: JsonObject,
    *,
    manager: str,
    versions: Versions,
    now: str,
    force: bool = False,
    subresource: str = "",
    reset: FieldSet = EMPTY,
) -> JsonObject:
    """The object that results when `manager` applies `config`; `live` is None if the object does not exist.

    Raises ApplyConflict where others own fields with other values (unless forced), and MalformedPatch where the
    configuration does not fit the schema.
    """
    schema = _check(live, config, versions)
    before = _without_managed_fields(live) if live is not None else _empty(config)
    managed = _recorded(live, versions)
    if not managed:
        managed = _updated(
            _empty(config),
            before,
            managed=managed,
            manager=BEFORE_FIRST_APPLY,
            versions=versions,
            now=now,
            subresource=subresource,
            reset=reset,
        )
    before_then = versions.at(before, config["apiVersion"])
    assert before_then is not None, "the applied version is served"
    me = Manager(name=manager or "unknown", operation="Apply", subresource=subresource)

    def attempt(*, forced: bool) -> tuple[JsonObject, ManagedFields]:
        try:
            return field_ownership.applied(
                before_then, config, managed=managed, me=me, versions=versions, force=forced, reset=reset
            )
        except MalformedPatch as error:
            # The configuration was checked, so it is the stored object whose lists do not fit the schema.
            raise MalformedPatch(
                f"failed to create typed live object ({_identity(before_then)}): {error.message}"
            ) from error

    try:
        result, owners = attempt(forced=force)
    except OwnershipConflict as conflict:
        if manager != _KUBECTL:
            raise conflict.for_users() from None
        disallowed = conflict.without(_client_side_applied(before_then, schema=schema))
        if disallowed.fields:
            raise disallowed.for_users() from None
        result, owners = attempt(forced=True)

    unchanged = same(result, before_then) or same(typed.completed(result, schema), typed.completed(before_then, schema))
    if unchanged:
        result = before_then
    if me in owners:
        mine = owners[me].fields - SYSTEM_FIELDS
        owners[me] = replace(owners[me], fields=mine, time=owners[me].time if unchanged else now)
        if not mine:
            del owners[me]
    result = copy(result)
    if manager == _KUBECTL:
        _renew_last_applied(result, config)
    return _with_managed_fields(result, owners)


@refuses_deep_nesting
def update(
    live: JsonObject | None,
    new: JsonObject,
    *,
    manager: str,
    versions: Versions,
    now: str,
    subresource: str = "",
    reset: FieldSet = EMPTY,
) -> JsonObject:
    """The object `new` with its managedFields brought up to date: what `manager` changed is its own from now on.

    `live` is None for a create. A client may edit managedFields itself, or reset them by sending an empty list; through
    a subresource it may not.
    """
    result = _without_managed_fields(copy(new))
    try:
        managed = _sent_or_recorded(live, new, versions=versions, subresource=subresource)
        if not managed and live is not None and _metadata(live).get("uid"):
            # It was created without recorded owners; recording starts with the first apply.
            return result
        before = _empty(new) if live is None else _without_managed_fields(live)
        before = versions.at(before, new["apiVersion"]) or before
        managed = _updated(
            before,
            result,
            managed=managed,
            manager=manager,
            versions=versions,
            now=now,
            subresource=subresource,
            reset=reset,
        )
    except MalformedPatch:
        # An update is not refused for its bookkeeping: lists that cannot be told apart keep their owners.
        kept = None if live is None else _metadata(live).get("managedFields")
        return result if kept is None else _with_entries(result, copy(kept))
    return _with_managed_fields(result, records.fold_updaters(managed))


def _check(live: JsonObject | None, config: JsonObject, versions: Versions) -> TypeSchema:
    """The schema of the applied version, once it is clear that the configuration fits it."""
    version = config.get("apiVersion")
    schema = versions.schemas.get(version) if isinstance(version, str) else None
    if schema is None or (live is not None and live.get("kind") != config.get("kind")):
        raise MalformedPatch(f"invalid object type: {_type_text(config)}")
    if _metadata(config).get("managedFields") is not None:
        raise MalformedPatch("metadata.managedFields must be nil")
    if found := validation.problems(config, schema):
        raise MalformedPatch(f"failed to create typed patch object ({_identity(config)}): {validation.summary(found)}")
    return schema


def _identity(obj: JsonObject) -> str:
    metadata = _metadata(obj)
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {_type_text(obj)}"


def _type_text(obj: JsonObject) -> str:
    version = str(obj.get("apiVersion", ""))
    return f"{version if '/' in version else '/' + version}, Kind={obj.get('kind', '')}"


def _empty(obj: JsonObject) -> JsonObject:
    return {"apiVersion": obj["apiVersion"], "kind": obj.get("kind", "")}


def _metadata(obj: JsonObject) -> JsonObject:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _without_managed_fields(obj: JsonObject) -> JsonObject:
    metadata = _metadata(obj)
    if "managedFields" not in metadata:
        return obj
    kept = {name: item for name, item in metadata.items() if name != "managedFields"}
    return {**obj, "metadata": kept}


def _with_managed_fields(obj: JsonObject, managed: ManagedFields) -> JsonObject:
    return _with_entries(obj, records.encode(managed)) if managed else obj


def _with_entries(obj: JsonObject, entries: list[JsonObject]) -> JsonObject:
    return {**obj, "metadata": {**_metadata(obj), "managedFields": entries}}


def _recorded(live: JsonObject | None, versions: Versions) -> ManagedFields:
    try:
        return records.decode(_metadata(live or {}).get("managedFields"), versions.schemas)
    except MalformedPatch as error:
        raise MalformedPatch(f"failed to decode managed fields: {error.message}") from error


def _sent_or_recorded(
    live: JsonObject | None, new: JsonObject, *, versions: Versions, subresource: str
) -> ManagedFields:
    """The owners that the client sent, if it sent any that can be read; else those on record."""
    if not subresource:
        sent = _metadata(new).get("managedFields")
        if sent in ([], [{}]):
            return {}
        try:
            if managed := records.decode(sent, versions.schemas):
                return managed
        except MalformedPatch:
            pass  # a client that mangles the record does not get to destroy it
    try:
        return _recorded(live, versions)
    except MalformedPatch:
        return {}


def _updated(
    old: JsonObject,
    new: JsonObject,
    *,
    managed: ManagedFields,
    manager: str,
    versions: Versions,
    now: str,
    subresource: str = "",
    reset: FieldSet = EMPTY,
) -> ManagedFields:
    """The owners after a write that is not an apply."""
    version = new["apiVersion"]
    owners, difference = field_ownership.changed(
        old,
        new,
        managed=managed,
        me=None,
        versions=versions,
        force=True,
        reset=reset,
    )
    taken = (difference.modified | difference.added) - SYSTEM_FIELDS
    if taken:
        me = Manager(name=manager or "unknown", operation="Update", api_version=version, subresource=subresource)
        previous = owners[me].fields if me in owners else EMPTY
        owners[me] = Ownership(fields=taken | previous, api_version=version, time=now)
    return owners


def _client_side_applied(live: JsonObject, *, schema: TypeSchema) -> FieldSet:
    """What client-side apply set and what is still as it set it: taking that over is no conflict."""
    annotation = (_metadata(live).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(annotation) if annotation else None
    except (TypeError, ValueError):
        return EMPTY
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
        return EMPTY
    if validation.problems(last, schema) or validation.problems(live, schema):
        return EMPTY
    found = typed.compare(last, live, schema)
    return typed.fields_of(last, schema) - found.modified - found.added - found.removed


def _renew_last_applied(result: JsonObject, config: JsonObject) -> None:
    """Keep client-side apply's annotation true where there is one, so that the user can go back."""
    annotations = _metadata(result).get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return
    applied: JsonObject = copy(config)
    metadata = _metadata(applied)
    if metadata.get("annotations") is None:
        metadata.pop("annotations", None)
    else:
        metadata["annotations"].pop(LAST_APPLIED, None)
    annotations[LAST_APPLIED] = json_text(applied) + "\n"
    if sum(len(key.encode()) + len(str(text).encode()) for key, text in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        del annotations[LAST_APPLIED]
