"""managedFields: the record of the owners of fields, between the wire and `ManagedFields`.

An entry is known by its manager: name, operation, subresource, and for updates the API version; an applier keeps one
entry whatever version it last applied in. Entries without fields are dropped, entries from many updaters are folded
into one, and the wire order is Kubernetes' (operation, time, name, version, subresource). Times are RFC 3339 texts
and never read from a clock here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from rota.api.patches import fieldsets
from rota.api.patches.errors import MalformedPatch
from rota.api.patches.fieldsets import FieldSet
from rota.api.patches.json_values import Json, JsonObject, quoted
from rota.api.patches.schemas import TypeSchema

Operation: TypeAlias = Literal["Apply", "Update"]

#: How many updaters an object remembers by name.
MAX_UPDATERS = 10
#: The name under which the oldest updaters are remembered together.
ANCIENT = "ancient-changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """A manager of fields, and its operation."""

    name: str
    operation: Operation
    #: Only for updates; an applier is the same one in every version.
    api_version: str = ""
    subresource: str = ""

    @property
    def order(self) -> str:
        """Kubernetes tells and sorts managers by this JSON text."""
        known = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        return json.dumps({k: v for k, v in known.items() if v}, ensure_ascii=False, separators=(",", ":"))

    def __str__(self) -> str:
        """The manager as conflict messages name it."""
        text = quoted(self.name)
        if self.subresource:
            text += f" with subresource {quoted(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The fields that one manager owns."""

    fields: FieldSet
    #: The version in which the fields were named.
    api_version: str
    #: When the manager last changed something; None where the wire had none.
    time: str | None = None


ManagedFields: TypeAlias = dict[Manager, Ownership]


def decode(entries: Json, schemas: Mapping[str, TypeSchema] | None = None) -> ManagedFields:
    """What `metadata.managedFields` says; MalformedPatch if an entry is not valid.

    With the kind's schemas by version, owners inside what has become atomic since own the whole instead.
    """
    if entries is None:
        return {}
    if not isinstance(entries, list):
        raise MalformedPatch("managedFields must be a list")
    managed: ManagedFields = {}
    for position, entry in enumerate(entries):
        manager, ownership = _decode_entry(position, entry, schemas or {})
        managed[manager] = ownership
    return managed


def _decode_entry(position: int, entry: Json, schemas: Mapping[str, TypeSchema]) -> tuple[Manager, Ownership]:
    if not isinstance(entry, dict):
        raise MalformedPatch(f"managed fields entry {position} must be an object")
    operation = entry.get("operation")
    if operation not in {"Apply", "Update"}:
        raise MalformedPatch("operation must be `Apply` or `Update`")
    api_version = _text(entry, "apiVersion")
    if not api_version:
        raise MalformedPatch("apiVersion must not be empty")
    fields_type = _text(entry, "fieldsType")
    if not fields_type:
        raise MalformedPatch(f"missing fieldsType in managed fields entry {position}")
    if fields_type != "FieldsV1":
        raise MalformedPatch(f"invalid fieldsType {quoted(fields_type)} in managed fields entry {position}")
    manager = Manager(
        name=_text(entry, "manager"),
        operation=operation,
        api_version=api_version if operation == "Update" else "",
        subresource=_text(entry, "subresource"),
    )
    fields = fieldsets.from_wire(entry.get("fieldsV1"), schemas.get(api_version))
    return manager, Ownership(fields=fields, api_version=api_version, time=_time(entry.get("time")))


def _text(entry: JsonObject, name: str) -> str:
    text = entry.get(name) or ""
    if not isinstance(text, str):
        raise MalformedPatch(f"managedFields: {name} must be a string")
    return text


def _time(text: Json) -> str | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise MalformedPatch(f"managedFields: time must be an RFC 3339 time, not {text!r}") from error
    if moment.tzinfo is None:
        raise MalformedPatch(f"managedFields: time must name its zone: {text!r}")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encode(managed: Mapping[Manager, Ownership]) -> list[JsonObject]:
    """`metadata.managedFields` for the wire."""

    def order(entry: tuple[Manager, Ownership]) -> tuple[Any, ...]:
        manager, ownership = entry
        return manager.operation, ownership.time or "", manager.name, ownership.api_version, manager.subresource

    return [_encode_entry(manager, ownership) for manager, ownership in sorted(managed.items(), key=order)]


def _encode_entry(manager: Manager, ownership: Ownership) -> JsonObject:
    entry: JsonObject = {"manager": manager.name} if manager.name else {}
    entry |= {"operation": manager.operation, "apiVersion": ownership.api_version}
    if ownership.time is not None:
        entry["time"] = ownership.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": fieldsets.to_wire(ownership.fields)}
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def fold_updaters(managed: Mapping[Manager, Ownership]) -> ManagedFields:
    """The record with the oldest updaters of each version folded together until at most MAX_UPDATERS are left."""
    folded = dict(managed)
    updaters = sorted(
        (manager for manager in managed if manager.operation == "Update"),
        key=lambda manager: (managed[manager].time or "", manager.order),
    )
    excess = len(updaters) - MAX_UPDATERS
    oldest: dict[str, Manager] = {}
    for manager in updaters:
        if excess <= 0:
            break
        ownership = managed[manager]
        first = oldest.setdefault(ownership.api_version, manager)
        if first is manager:
            continue
        bucket = Manager(name=ANCIENT, operation="Update", api_version=ownership.api_version)
        if bucket not in folded:
            folded[bucket] = folded.pop(first)
        fields = folded[bucket].fields | ownership.fields
        # A bucket from earlier days can itself be among the oldest; it must survive being folded into itself.
        if manager != bucket:
            del folded[manager]
        folded[bucket] = replace(ownership, fields=fields)
        excess -= 1
    return folded
