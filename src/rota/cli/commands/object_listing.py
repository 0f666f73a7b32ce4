"""`rota get`: reads objects as tables of the server or in full, and follows changes with `--watch`."""

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click
import yaml

from rota.api import errors as api_errors
from rota.api import meta
from rota.api.kinds import ResourceType
from rota.cli import endpoints, output
from rota.cli.commands import resource_names, session
from rota.cli.commands.resource_names import Wanted
from rota.client import tables
from rota.client.tables import Column, Row, Table
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.client.wire import EventType
from rota.kit import errors

_WIDE: Final = "wide"
_TABLES: Final = frozenset({"table", _WIDE})
_dumper: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """Which objects to read, and the output format."""

    namespace: str
    everywhere: bool
    selection: Selection
    form: str
    show_labels: bool

    def where(self, kind: ResourceType) -> str:
        return self.namespace if kind.namespaced and not self.everywhere else ""


def get(
    *,
    words: tuple[str, ...],
    namespace: str,
    everywhere: bool,
    labels: str,
    fields: str,
    form: str,
    show_labels: bool,
    watch: bool,
    **server: Any,
) -> None:
    """Print the requested objects."""
    endpoint = endpoints.nearest(**server)
    question = _Question(
        namespace=namespace or endpoint.namespace,
        everywhere=everywhere,
        selection=Selection(labels=labels, fields=fields),
        form=form,
        show_labels=show_labels,
    )

    async def work(client: Client) -> None:
        asked = resource_names.wanted(await resource_names.kinds(client), words)
        if any(one.names for one in asked) and (labels or fields or everywhere):
            raise click.UsageError("names go with neither selectors nor --all-namespaces")
        if watch:
            if len(asked) > 1 or len(asked[0].names) > 1:
                raise click.UsageError("only one kind, or one object, can be watched at a time")
            await _watch(client, asked[0], question)
        elif form in _TABLES:
            await _show_tables(client, asked, question)
        else:
            show_objects(await _objects(client, asked, question), form, single=_single(asked))

    session.at(endpoint, work)


# --- lists ------------------------------------------------------------------------------------------------------------


async def _show_tables(client: Client, asked: Sequence[Wanted], question: _Question) -> None:
    missing: list[str] = []
    shown = 0
    for one in asked:
        table = await _table(client, one, question, missing)
        if not table.rows:
            continue
        if shown:
            click.echo()
        shown += 1
        prefix = f"{resource_names.shown(one.kind, '')}" if len(asked) > 1 else ""
        columns, rows = _printed(table, question, prefix)
        output.table(columns, rows, right=_numbers(table.columns))
    if missing:
        raise errors.UserError("; ".join(missing))
    if not shown:
        output.note(_nothing(asked, question))


async def _table(client: Client, asked: Wanted, question: _Question, missing: list[str]) -> Table:
    """One table of all pages, or of all named objects; missing ones are added to `missing`."""
    where = question.where(asked.kind)
    parts: list[Table] = []
    if asked.names:
        for name in asked.names:
            try:
                parts.append(await tables.one(client, asked.kind, name, namespace=where))
            except api_errors.NotFound as error:
                missing.append(error.message)
    else:
        parts = [
            page async for page in tables.listed(client, asked.kind, namespace=where, selection=question.selection)
        ]
    return Table(
        columns=parts[0].columns if parts else (),
        rows=tuple(row for part in parts for row in part.rows),
        resource_version=parts[-1].resource_version if parts else "",
    )


async def _objects(client: Client, asked: Sequence[Wanted], question: _Question) -> list[Object]:
    found: list[Object] = []
    for one in asked:
        where = question.where(one.kind)
        if one.names:
            found += [await client.get(one.kind, name, namespace=where) for name in one.names]
        else:
            found += (await client.list(one.kind, namespace=where, selection=question.selection)).items
    return found


def show_objects(found: list[Object], form: str, *, single: bool = False) -> None:
    """Print objects in full or by name, without managedFields."""
    if form == "name":
        for one in found:
            click.echo(_object_name(one))
        return
    slim = [_slim(one) for one in found]
    document = slim[0] if single else {"apiVersion": "v1", "kind": "List", "items": slim}
    if form == "json":
        output.document(document)
    else:
        click.echo(as_yaml(document), nl=False)


def as_yaml(document: Any) -> str:
    """YAML as kubectl writes it."""
    text: str = yaml.dump(document, Dumper=_dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text


def _slim(obj: Object) -> Object:
    metadata = {name: value for name, value in meta.metadata(obj).items() if name != "managedFields"}
    front: Object = {name: obj[name] for name in ("apiVersion", "kind") if name in obj}
    return {**front, **{name: value for name, value in obj.items() if name not in front}, "metadata": metadata}


def _object_name(obj: Object) -> str:
    group = obj["apiVersion"].rpartition("/")[0]
    kind = obj["kind"].lower()
    return f"{kind}.{group}/{meta.name(obj)}" if group else f"{kind}/{meta.name(obj)}"


def _single(asked: Sequence[Wanted]) -> bool:
    return len(asked) == 1 and len(asked[0].names) == 1


def _nothing(asked: Sequence[Wanted], question: _Question) -> str:
    kinds = ", ".join(one.kind.plural for one in asked[:3]) + (" or the like" if len(asked) > 3 else "")
    some = any(one.kind.namespaced for one in asked) and not question.everywhere
    return f"no {kinds}{f' in namespace {question.namespace}; -A looks in all of them' if some else ''}"


def _printed(table: Table, question: _Question, prefix: str = "") -> tuple[list[str], list[list[str]]]:
    """Headings and cells as printed."""
    wide = question.form == _WIDE
    chosen = [index for index, column in enumerate(table.columns) if wide or not column.priority]
    columns = [table.columns[index].name.upper() for index in chosen]
    rows = [[_cell(row.cells[index]) for index in chosen] for row in table.rows]
    if prefix and columns[:1] == ["NAME"]:
        rows = [[f"{prefix}{row[0]}", *row[1:]] for row in rows]
    if question.everywhere and any(row.metadata.get("namespace") for row in table.rows):
        columns.insert(0, "NAMESPACE")
        rows = [[row.metadata.get("namespace") or "", *cells] for row, cells in zip(table.rows, rows, strict=True)]
    if question.show_labels:
        columns.append("LABELS")
        rows = [[*cells, _labels(row)] for row, cells in zip(table.rows, rows, strict=True)]
    return columns, rows


def _numbers(columns: Sequence[Column]) -> set[str]:
    return {column.name.upper() for column in columns if column.number}


def _cell(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _labels(row: Row) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((row.metadata.get("labels") or {}).items())) or "<none>"


# --- watches ----------------------------------------------------------------------------------------------------------


async def _watch(client: Client, asked: Wanted, question: _Question) -> None:
    if asked.names:
        selection = Selection(fields=f"metadata.name={asked.names[0]}")
        question = _Question(
            namespace=question.namespace,
            everywhere=False,
            selection=selection,
            form=question.form,
            show_labels=question.show_labels,
        )
    if question.form not in _TABLES:
        await _watch_objects(client, asked.kind, question)
        return
    with output.live() as show:
        if show is None:
            await _watch_lines(client, asked.kind, question)
            return
        rows: dict[tuple[str, str], Row] = {}
        async for fresh, gone, columns in _states(client, asked.kind, question):
            rows.update({row.key: row for row in fresh})
            for key in gone:
                rows.pop(key, None)
            table = Table(columns=columns, rows=tuple(rows[key] for key in sorted(rows)))
            show(*_printed(table, question))


async def _watch_lines(client: Client, kind: ResourceType, question: _Question) -> None:
    """Each change as a line, under headings of constant width."""
    widths: list[int] = []
    async for fresh, _, columns in _states(client, kind, question):
        heads, rows = _printed(Table(columns=columns, rows=tuple(fresh)), question)
        first = not widths
        if first:
            widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for cells in [heads, *rows] if first else rows:
            padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
            click.echo("  ".join(padded).rstrip())
        sys.stdout.flush()


async def _states(
    client: Client, kind: ResourceType, question: _Question
) -> AsyncIterator[tuple[Sequence[Row], Sequence[tuple[str, str]], tuple[Column, ...]]]:
    """New or changed rows, and keys of deleted ones; a broken watch is resumed."""
    where = question.where(kind)
    known: set[tuple[str, str]] = set()
    while True:
        table = await _table(client, Wanted(kind, ()), question, [])
        gone = known - {row.key for row in table.rows}
        known = {row.key for row in table.rows}
        yield table.rows, sorted(gone), table.columns
        revision = table.resource_version
        with contextlib.suppress(api_errors.Expired, api_errors.Gone, TransportError):
            while True:
                watching = tables.watch(
                    client, kind, namespace=where, selection=question.selection, resource_version=revision
                )
                async with watching as changes:
                    async for event, change in changes:
                        revision = change.resource_version or revision
                        if event is EventType.BOOKMARK:
                            continue
                        keys = [row.key for row in change.rows]
                        deleted = event is EventType.DELETED
                        known = known.difference(keys) if deleted else known.union(keys)
                        yield change.rows, keys if deleted else (), table.columns


async def _watch_objects(client: Client, kind: ResourceType, question: _Question) -> None:
    """Each object in full, once and after every change."""
    show = _shower(question.form)
    where = question.where(kind)
    listing = await client.list(kind, namespace=where, selection=question.selection)
    for one in listing.items:
        show(one)
    revision = listing.resource_version
    while True:
        watching = client.watch(
            kind, namespace=where, selection=question.selection, resource_version=revision, bookmarks=False
        )
        async with watching as events:
            async for event in events:
                changed = event.object
                revision = meta.metadata(changed).get("resourceVersion") or revision
                show(changed)


def _shower(form: str) -> Callable[[Object], None]:
    def show(obj: Object) -> None:
        if form == "name":
            click.echo(_object_name(obj))
        elif form == "json":
            click.echo(json.dumps(_slim(obj), ensure_ascii=False))
        else:
            click.echo("---\n" + as_yaml(_slim(obj)), nl=False)
        sys.stdout.flush()

    return show
