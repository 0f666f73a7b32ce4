"""Owners of fields after a change: the rules of server-side apply, without the wire format.

Pure functions over an object, its next state and `ManagedFields`. There are three rules: an applier owns what its
configuration sets; a manager that changes a value takes it from its owners (an applier must force that); and what an
applier stops setting disappears unless another manager owns it. `rota.api.patches.apply` wraps these into the two
operations that the API server calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rota.api.patches import fieldsets, typed
from rota.api.patches.errors import ApplyConflict, Conflict
from rota.api.patches.field_paths import text
from rota.api.patches.fieldsets import EMPTY, FieldSet
from rota.api.patches.json_values import Json, JsonObject
from rota.api.patches.managed import ManagedFields, Manager, Ownership
from rota.api.patches.schemas import TypeSchema
from rota.api.patches.versions import Versions


class OwnershipConflict(Exception):
    """Others own what the configuration changes; carries their fields."""

    def __init__(self, fields: Mapping[Manager, FieldSet]) -> None:
        super().__init__("fields are owned by other managers")
        self.fields = fields

    def without(self, allowed: FieldSet) -> OwnershipConflict:
        """The conflict that is left when some fields do not count."""
        left = {manager: fields - allowed for manager, fields in self.fields.items()}
        return OwnershipConflict({manager: fields for manager, fields in left.items() if fields})

    def for_users(self) -> ApplyConflict:
        """The same as an answer to the request."""
        managers = sorted(self.fields, key=lambda manager: manager.order)
        return ApplyConflict(
            [
                Conflict(manager=str(manager), field=text(path))
                for manager in managers
                for path in fieldsets.in_order(self.fields[manager])
            ]
        )


def applied(
    live: JsonObject,
    config: JsonObject,
    *,
    managed: ManagedFields,
    me: Manager,
    versions: Versions,
    force: bool,
    reset: FieldSet,
) -> tuple[JsonObject, ManagedFields]:
    """The object with the configuration in it, and the owners of its fields; OwnershipConflict unless forced."""
    version = config["apiVersion"]
    schema = versions.schema(version)
    merged = typed.merge(live, config, schema)
    assert isinstance(merged, dict), "an object merged into an object is an object"
    last = managed.get(me)
    mine = fieldsets.without_subtrees(typed.fields_of(config, schema), reset)
    managed = {**managed, me: Ownership(fields=mine, api_version=version, time=last.time if last else None)}
    pruned = _prune(merged, managed=managed, me=me, last=last, versions=versions)
    managed, _ = changed(live, pruned, managed=managed, me=me, versions=versions, force=force, reset=reset)
    return _without_emptied(pruned, merged), managed


def changed(
    old: JsonObject,
    new: JsonObject,
    *,
    managed: ManagedFields,
    me: Manager | None,
    versions: Versions,
    force: bool,
    reset: FieldSet,
) -> tuple[ManagedFields, typed.Comparison]:
    """Take what changed from all managers but `me`; returns the owners and the changes, in the new object's version."""
    version = new["apiVersion"]
    comparisons = {version: _compare(old, new, schema=versions.schema(version), reset=reset)}
    kept: ManagedFields = {}
    conflicts: dict[Manager, FieldSet] = {}
    for manager, own in managed.items():
        if manager == me:
            kept[manager] = own
            continue
        if own.api_version not in comparisons:
            before, after = versions.at(old, own.api_version), versions.at(new, own.api_version)
            if before is None or after is None:
                continue
            comparisons[own.api_version] = _compare(before, after, schema=versions.schema(own.api_version), reset=reset)
        difference = comparisons[own.api_version]
        taken = own.fields & (difference.modified | difference.added)
        if taken:
            conflicts[manager] = taken
        lost = taken | (own.fields & difference.removed)
        kept[manager] = replace(own, fields=own.fields - lost) if lost else own
    if conflicts and not force:
        raise OwnershipConflict(conflicts)
    return {manager: own for manager, own in kept.items() if own.fields}, comparisons[version]


def _compare(old: JsonObject, new: JsonObject, *, schema: TypeSchema, reset: FieldSet) -> typed.Comparison:
    found = typed.compare(old, new, schema)
    if not reset:
        return found
    return typed.Comparison(
        removed=fieldsets.without_subtrees(found.removed, reset),
        modified=fieldsets.without_subtrees(found.modified, reset),
        added=fieldsets.without_subtrees(found.added, reset),
    )


def _prune(
    merged: JsonObject, *, managed: ManagedFields, me: Manager, last: Ownership | None, versions: Versions
) -> JsonObject:
    """Drop what the applier set last time and not now, except what others own or no manager ever applied."""
    version, mine = managed[me].api_version, managed[me].fields
    if last is None or (last.api_version == version and last.fields <= mine):
        return merged  # it lets go of nothing
    at_last = versions.at(merged, last.api_version)
    if at_last is None:
        return merged
    schema = versions.schema(last.api_version)
    lately = fieldsets.with_named_parents(last.fields, schema)
    pruned = typed.remove(at_last, lately, schema)
    pruned = _add_back_owned(at_last, pruned, managed=managed, version=last.api_version, versions=versions)
    pruned_then = versions.at(pruned, last.api_version)
    assert pruned_then is not None, "the version was served a moment ago"
    gone = _all_fields(at_last, schema) - _all_fields(pruned_then, schema)
    result = versions.at(typed.remove(at_last, gone & lately, schema), version)
    assert result is not None, "the applied version is served"
    return result


def _add_back_owned(
    merged: JsonObject, pruned: JsonObject, *, managed: ManagedFields, version: str, versions: Versions
) -> JsonObject:
    """What was pruned but has an owner, version by version, the pruned object's own version first."""
    owned: dict[str, FieldSet] = {}
    for own in managed.values():
        owned[own.api_version] = owned.get(own.api_version, EMPTY) | own.fields
    for owned_version in sorted(owned, key=lambda candidate: (candidate != version, candidate)):
        merged_then, pruned_then = versions.at(merged, owned_version), versions.at(pruned, owned_version)
        if merged_then is None or pruned_then is None:
            continue
        merged = merged_then
        schema = versions.schema(owned_version)
        kept = _all_fields(pruned_then, schema) | fieldsets.with_named_parents(owned[owned_version], schema)
        pruned = typed.remove(merged, _all_fields(merged, schema) - kept, schema)
    return pruned


def _all_fields(obj: JsonObject, schema: TypeSchema) -> FieldSet:
    return fieldsets.with_named_parents(typed.fields_of(obj, schema), schema)


def _without_emptied(pruned: Json, merged: Json) -> Json:
    """Drop the nulls that stand where pruning emptied a map or list; nulls from the configuration stay."""
    if isinstance(pruned, dict) and isinstance(merged, dict):
        return {
            name: _without_emptied(item, merged.get(name))
            for name, item in pruned.items()
            if item is not None or merged.get(name) is None
        }
    return pruned
