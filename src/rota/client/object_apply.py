"""Applies objects: creates missing ones, changes those that differ, and reports which.

Server-side apply, with unknown fields refused. Objects with a generateName are created each time.
"""

import enum
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from rota.api import errors, meta
from rota.api.kinds import ResourceType
from rota.client import paths, wire
from rota.client.verbs import Client, Object, PatchType

_STRICT: Final = ("fieldValidation", "Strict")
_encode: Final = msgspec.json.Encoder().encode


class Result(enum.Enum):
    """What was done to an object."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Applied(NamedTuple):
    """An object after its apply."""

    result: Result
    obj: Object


async def apply(
    client: Client, kind: ResourceType, obj: Mapping[str, Any], *, force: bool = False, dry_run: bool = False
) -> Applied:
    """Apply an object; `Conflict` if another manager owns some of its fields, unless `force` is set."""
    query = [("fieldManager", client.settings.field_manager), _STRICT, *([("dryRun", "All")] if dry_run else [])]
    name, namespace = meta.name(obj), meta.namespace(obj)
    if not name:
        path = paths.collection(kind, namespace)
        made = await client.request("POST", path, query=query, body=_encode(obj), content_type="application/json")
        return Applied(Result.CREATED, wire.decode_object(made))
    before = await _present(client, kind, name, namespace)
    applied = await client.request(
        "PATCH",
        paths.item(kind, name, namespace=namespace),
        query=[*query, *([("force", "true")] if force else [])],
        body=_encode(obj),
        content_type=PatchType.APPLY.value,
    )
    after = wire.decode_object(applied)
    if before is None:
        return Applied(Result.CREATED, after)
    return Applied(Result.UNCHANGED if _same(before, after) else Result.CHANGED, after)


async def _present(client: Client, kind: ResourceType, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(kind, name, namespace=namespace)
    except errors.NotFound:
        return None


def _same(before: Object, after: Object) -> bool:
    """Whether only bookkeeping fields differ; a dry run leaves the revision unchanged."""
    return _content(before) == _content(after)


def _content(obj: Object) -> Object:
    metadata = {
        name: value for name, value in meta.metadata(obj).items() if name not in {"managedFields", "resourceVersion"}
    }
    return {**obj, "metadata": metadata, "status": None}
