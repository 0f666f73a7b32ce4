"""`rota federation get`: objects of member clusters, read through the control plane as the same user."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import click

from rota.api import errors as api_errors
from rota.api import meta
from rota.cli import endpoints, output
from rota.cli.commands import object_listing, resource_names, session
from rota.client import client_factory, tables
from rota.client.endpoints import Endpoint
from rota.client.tables import Table
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.federation import kinds
from rota.kit import errors, system


def get(
    *,
    words: tuple[str, ...],
    clusters: tuple[str, ...],
    namespace: str,
    everywhere: bool,
    labels: str,
    form: str,
    **server: Any,
) -> None:
    """Print the objects of each cluster; a cluster that cannot be read is an error at the end."""
    endpoint = endpoints.chosen(**server)
    selection = Selection(labels=labels)
    where = "" if everywhere else namespace or endpoint.namespace
    problems: list[str] = []

    async def work(client: Client) -> None:
        names = [one for given in clusters for one in given.split(",") if one] or [
            meta.name(one) for one in (await client.list(kinds.CLUSTERS)).items
        ]
        rows: list[list[str]] = []
        columns: list[str] = []
        objects: list[Object] = []
        for name in sorted(names):
            try:
                found = await _read(endpoint, name, words, where, selection, as_table=form == "table")
            except (api_errors.ApiError, TransportError) as error:
                problems.append(f"{name}: {error}")
                continue
            if isinstance(found, Table):
                chosen = [index for index, column in enumerate(found.columns) if not column.priority]
                columns = columns or [found.columns[index].name.upper() for index in chosen]
                rows += [
                    [name, *([row.metadata.get("namespace") or ""] if everywhere else []), *_cells(row.cells, chosen)]
                    for row in found.rows
                ]
            else:
                objects += [_marked(obj, name) for obj in found]
        if form != "table":
            object_listing.show_objects(objects, form)
        elif rows:
            output.table(["CLUSTER", *(["NAMESPACE"] if everywhere else []), *columns], rows)
        elif not problems:
            output.note(f"no {' '.join(words)} in {', '.join(sorted(names)) or 'any cluster: none has joined'}")

    session.at(endpoint, work)
    if problems:
        raise errors.UserError("; ".join(problems), "see rota federation clusters")


def at_member(endpoint: Endpoint, cluster: str) -> Endpoint:
    """A member's API behind the control plane."""
    group, version, plural = kinds.CLUSTERS
    below = f"/apis/{group}/{version}/{plural}/{quote(cluster, safe='')}/proxy"
    return replace(
        endpoint,
        server=endpoint.server.rstrip("/") + below,
        fallbacks=tuple(one.rstrip("/") + below for one in endpoint.fallbacks),
    )


async def _read(
    endpoint: Endpoint, cluster: str, words: tuple[str, ...], namespace: str, selection: Selection, *, as_table: bool
) -> Table | list[Object]:
    clock, rng = system.SystemClock(), system.rng()
    async with client_factory.to_server(at_member(endpoint, cluster), clock=clock, rng=rng) as member:
        (asked, *others) = resource_names.wanted(await resource_names.kinds(member), words)
        if others:
            raise click.UsageError("give one kind")
        where = namespace if asked.kind.namespaced else ""
        if not as_table:
            if asked.names:
                return [await member.get(asked.kind, name, namespace=where) for name in asked.names]
            return list((await member.list(asked.kind, namespace=where, selection=selection)).items)
        if asked.names:
            parts = [await tables.one(member, asked.kind, name, namespace=where) for name in asked.names]
        else:
            parts = [page async for page in tables.listed(member, asked.kind, namespace=where, selection=selection)]
        return Table(
            columns=parts[0].columns if parts else (),
            rows=tuple(row for part in parts for row in part.rows),
            resource_version="",
        )


def _cells(cells: Sequence[object], chosen: Sequence[int]) -> list[str]:
    return ["" if cells[index] is None else str(cells[index]) for index in chosen]


def _marked(obj: Object, cluster: str) -> Object:
    """The object with its cluster, under the annotation by which upstream's search says it."""
    metadata = meta.metadata(obj)
    annotations = {**meta.annotations(obj), "resource.karmada.io/cached-from-cluster": cluster}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}
