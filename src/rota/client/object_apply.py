"""Objects as someone wants them: made if they are missing, changed where they differ, and what came of it.

Server-side apply, with unknown fields refused. Objects that get their names from the server are made anew each time.
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
    """What became of an object."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Applied(NamedTuple):
    """An object as it is now."""

    result: Result
    obj: Object


async def apply(
    client: Client, kind: ResourceType, obj: Mapping[str, Any], *, force: bool = False, dry_run: bool = False
) -> Applied:
    """Have an object as described; `Conflict` if it needs fields that are another's, unless by `force`."""
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
    """Whether nothing but book-keeping differs; a dry run leaves the revision as it was."""
    return _content(before) == _content(after)


def _content(obj: Object) -> Object:
    metadata = {
        name: value for name, value in meta.metadata(obj).items() if name not in {"managedFields", "resourceVersion"}
    }
    return {**obj, "metadata": metadata, "status": None}
