"""`rota delete`: deletes objects by name, label or file, and waits until they are gone."""

import contextlib
from typing import Any, Final, NamedTuple

import click

from rota.api import errors as api_errors
from rota.api import meta
from rota.api.kinds import ResourceType
from rota.cli import endpoints, output
from rota.cli.commands import manifest_files, resource_names, session
from rota.cli.commands.resource_names import Kinds
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Propagation, Selection
from rota.client.wire import EventType
from rota.kit import errors, system


class _Target(NamedTuple):
    kind: ResourceType
    name: str
    namespace: str


class _Deletion(NamedTuple):
    """A requested deletion; without a uid the server has completed it already."""

    target: _Target
    uid: str


_BACKGROUND: Final = Propagation.BACKGROUND


def delete(
    *,
    words: tuple[str, ...],
    sources: tuple[str, ...],
    namespace: str,
    labels: str,
    everything: bool,
    grace_period: int | None,
    wait: bool,
    timeout: float,
    ignore_not_found: bool,
    dry_run: bool,
    **server: Any,
) -> None:
    """Delete the named objects, and print the result."""
    if bool(words) == bool(sources):
        raise click.UsageError("say what to delete: KIND NAME, or -f FILE")
    found = manifest_files.read(sources)
    endpoint = endpoints.own_cluster(**server)
    default = namespace or endpoint.namespace

    async def work(client: Client) -> list[str]:
        kinds = await resource_names.kinds(client)
        if sources:
            targets = [_described(document, kinds, default) for document in found]
        else:
            targets = await _chosen(client, kinds, words, default, labels=labels, everything=everything)
        missing: list[str] = []
        begun: list[_Deletion] = []
        for target in targets:
            try:
                begun.append(await _delete(client, target, grace_period=grace_period, wait=wait, dry_run=dry_run))
            except api_errors.NotFound as error:
                missing.append(error.message)
        if wait and not dry_run:
            await _gone(client, begun, timeout)
        if not begun and not missing:
            output.note("there is nothing to delete")
        return missing

    missing = session.at(endpoint, work)
    if missing and not ignore_not_found:
        raise errors.UserError("; ".join(missing), "--ignore-not-found lets that pass")


async def _chosen(
    client: Client, kinds: Kinds, words: tuple[str, ...], namespace: str, *, labels: str, everything: bool
) -> list[_Target]:
    targets: list[_Target] = []
    for one in resource_names.wanted(kinds, words):
        where = namespace if one.kind.namespaced else ""
        if one.names and (labels or everything):
            raise click.UsageError("names go with neither --selector nor --all")
        if not one.names and not (labels or everything):
            raise click.UsageError(f"which of the {one.kind.plural}? give names, -l SELECTOR or --all")
        names = one.names
        if not names:
            slim = client.with_settings(metadata_only=True)
            listing = await slim.list(one.kind, namespace=where, selection=Selection(labels=labels))
            names = tuple(map(meta.name, listing.items))
        targets += [_Target(one.kind, name, where) for name in names]
    return targets


def _described(document: manifest_files.Document, kinds: Kinds, namespace: str) -> _Target:
    if document.fault:
        raise errors.UserError(f"{document.where}: {document.fault}")
    kind = kinds.of_object(document.obj["apiVersion"], document.obj["kind"])
    if kind is None:
        raise errors.UserError(f"{document.where}: the server has no such kind")
    name = meta.name(document.obj)
    if not name:
        raise errors.UserError(f"{document.where}: its name is the server's to know", "delete it by name or label")
    return _Target(kind, name, (meta.namespace(document.obj) or namespace) if kind.namespaced else "")


async def _delete(client: Client, target: _Target, *, grace_period: int | None, wait: bool, dry_run: bool) -> _Deletion:
    answer = await client.delete(
        target.kind,
        target.name,
        namespace=target.namespace,
        propagation=_BACKGROUND,
        grace_period_s=grace_period,
        dry_run=dry_run,
    )
    tried = " (dry run)" if dry_run else ""
    waits = answer.get("kind") != "Status" and meta.is_deleting(answer)
    if not waits or not wait or dry_run:
        word = "is being deleted" if waits and not dry_run else "deleted"
        click.echo(f"{resource_names.shown(target.kind, target.name)} {word}{tried}")
    return _Deletion(target, meta.uid(answer) if waits else "")


async def _gone(client: Client, begun: list[_Deletion], timeout: float) -> None:
    """Wait until the deleted objects are gone; a new object of the same name does not count."""
    waiting = [one for one in begun if one.uid]
    if not waiting:
        return
    clock = system.SystemClock()

    async def all_gone() -> None:
        with output.progress("waiting until they are gone", total=len(waiting)) as advance:
            for one in waiting:
                while await _is_there(client, one):
                    await _change(client, one, clock)
                click.echo(f"{resource_names.shown(one.target.kind, one.target.name)} deleted")
                advance(1)

    try:
        await (clock.wait_for(all_gone(), timeout) if timeout else all_gone())
    except TimeoutError:
        raise errors.UserError(
            f"not all were gone within {timeout:g} s", "they still end; --now gives them less time"
        ) from None


async def _is_there(client: Client, one: _Deletion) -> bool:
    try:
        found = await client.get(one.target.kind, one.target.name, namespace=one.target.namespace)
    except api_errors.NotFound:
        return False
    return meta.uid(found) == one.uid


async def _change(client: Client, one: _Deletion, clock: system.SystemClock) -> None:
    """Return when the object may be gone."""
    selection = Selection(fields=f"metadata.name={one.target.name}")
    with contextlib.suppress(api_errors.ApiError, TransportError):
        async with client.watch(
            one.target.kind, namespace=one.target.namespace, selection=selection, timeout_s=30
        ) as events:
            async for event in events:
                obj: Object = event.object
                if event.type is EventType.DELETED or (
                    event.type is not EventType.BOOKMARK and meta.uid(obj) != one.uid
                ):
                    return
    await clock.sleep(0.1)
