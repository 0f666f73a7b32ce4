"""Tables: objects as the server prints them, of any kind that it serves.

The server chooses the columns (`meta.k8s.io/v1` Table); from a server that cannot, the names and ages of the objects
are used.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta
from rota.client import paths, wire
from rota.client.paths import Target
from rota.client.verbs import EVERYTHING, PAGE_SIZE, Client, Object, Selection
from rota.client.wire import EventType

_ACCEPT: Final = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; those with a priority above 0 are for wide output."""

    name: str
    priority: int = 0
    number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One object, printed; `metadata` identifies it."""

    cells: tuple[Any, ...]
    metadata: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.get("namespace") or "", self.metadata.get("name") or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows and columns, and the revision from which a watch continues them."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    resource_version: str = ""
    continue_: str = ""


async def one(client: Client, target: Target, name: str, *, namespace: str = "") -> Table:
    """One object."""
    path = paths.item(target, name, namespace=namespace)
    return read(wire.decode_object(await client.request("GET", path, accept=_ACCEPT)))


async def listed(
    client: Client, target: Target, *, namespace: str = "", selection: Selection = EVERYTHING
) -> AsyncIterator[Table]:
    """All selected objects, page by page: pages of a list that expires are still valid for their time."""
    path, continue_ = paths.collection(target, namespace), ""
    while True:
        query = [*selection.query(), ("limit", str(PAGE_SIZE)), *([("continue", continue_)] if continue_ else [])]
        page = read(wire.decode_object(await client.request("GET", path, query=query, accept=_ACCEPT)))
        yield page
        continue_ = page.continue_
        if not continue_:
            return


@contextlib.asynccontextmanager
async def watch(
    client: Client, target: Target, *, namespace: str = "", selection: Selection = EVERYTHING, resource_version: str
) -> AsyncIterator[AsyncIterator[tuple[EventType, Table]]]:
    """Changes after a revision, each as a table of one row; only the first has columns."""
    query = [*selection.query(), ("watch", "true"), ("resourceVersion", resource_version)]
    async with client.stream(paths.collection(target, namespace), query=query, accept=_ACCEPT) as chunks:
        yield _changes(wire.events(chunks))


async def _changes(events: AsyncIterator[wire.WatchEvent]) -> AsyncIterator[tuple[EventType, Table]]:
    async for event in events:
        yield event.type, read(event.object)


def read(answer: Object) -> Table:
    """An answer as a table, whether the server printed it or not."""
    metadata = answer.get("metadata") or {}
    revision, continue_ = str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or "")
    if answer.get("kind") != "Table":
        objects = answer.get("items", [answer])
        rows = tuple(Row(cells=(meta.name(one), _created(one)), metadata=meta.metadata(one)) for one in objects or ())
        bare = (Column(name="Name"), Column(name="Created"))
        return Table(columns=bare, rows=rows, resource_version=revision, continue_=continue_)
    columns = tuple(
        Column(name=one["name"], priority=one.get("priority", 0), number=one.get("type") in {"integer", "number"})
        for one in answer.get("columnDefinitions") or ()
    )
    rows = tuple(
        Row(cells=tuple(one["cells"]), metadata=meta.metadata(one.get("object") or {}))
        for one in answer.get("rows") or ()
    )
    newest = next((str(row.metadata.get("resourceVersion") or "") for row in rows[-1:]), "")
    return Table(columns=columns, rows=rows, resource_version=revision or newest, continue_=continue_)


def _created(obj: Object) -> str:
    return str(meta.metadata(obj).get("creationTimestamp") or "")
