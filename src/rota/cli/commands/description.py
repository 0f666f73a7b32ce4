"""`rota describe`: reads an object, its dependents and events, and prints them as a page."""

from typing import Any, Final

import click

from rota.api import meta
from rota.api.kinds import ResourceType
from rota.cli import endpoints, output
from rota.cli.commands import object_pages, resource_names, session
from rota.cli.commands.object_pages import Gathered, Page
from rota.client.pods import PODS
from rota.client.verbs import Client, Object, Selection
from rota.kit import errors, system

_EVENTS: Final = ("", "v1", "events")
#: Kinds whose pods are shown with them.
_OWNERS: Final = frozenset({"Job", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"})


def describe(*, words: tuple[str, ...], namespace: str, as_json: bool, **server: Any) -> None:
    """Describe one or several objects."""
    endpoint = endpoints.nearest(**server)

    async def work(client: Client) -> None:
        wanted = resource_names.wanted(await resource_names.kinds(client), words)
        if not all(one.names for one in wanted):
            raise errors.UserError(
                f"say which of the {wanted[0].kind.plural}", f"write rota describe {wanted[0].kind.singular} NAME"
            )
        first = True
        for one in wanted:
            for name in one.names:
                if not first and not as_json:
                    click.echo()
                first = False
                where = (namespace or endpoint.namespace) if one.kind.namespaced else ""
                await _describe(client, one.kind, name, where, as_json=as_json)

    session.at(endpoint, work)


async def _describe(client: Client, kind: ResourceType, name: str, namespace: str, *, as_json: bool) -> None:
    obj = await client.get(kind, name, namespace=namespace)
    gathered = Gathered(
        obj=obj,
        events=await _events(client, obj, kind),
        pods=await _pods(client, obj, namespace) if kind.kind in _OWNERS else [],
        now=system.SystemClock().now(),
    )
    if kind.group == "" and kind.kind == "Node":
        from rota.cli.commands import node_allocation  # noqa: PLC0415 - the scheduler's accounts take NumPy, only nodes need it

        account = await node_allocation.account(client, obj)
        if as_json:
            output.document({**account, "events": gathered.events})
        else:
            show(object_pages.node(gathered, account))
    elif as_json:
        output.document({"object": obj, "pods": gathered.pods, "events": gathered.events})
    else:
        show(object_pages.of(gathered))


async def _events(client: Client, obj: Object, kind: ResourceType) -> list[Object]:
    """The events of an object, oldest first."""
    fields = f"involvedObject.kind={kind.kind},involvedObject.name={meta.name(obj)}"
    found = await client.list(_EVENTS, namespace=meta.namespace(obj), selection=Selection(fields=fields))
    # Events of another object of the same name are left out; events of nodes are matched by name.
    own = [
        event
        for event in found.items
        if event["involvedObject"].get("uid", "") in {"", meta.uid(obj), meta.name(obj)} or not meta.namespace(obj)
    ]
    return sorted(own, key=object_pages.moment)


async def _pods(client: Client, obj: Object, namespace: str) -> list[Object]:
    selector = object_pages.selector_text((obj.get("spec") or {}).get("selector") or {})
    if not selector:
        return []
    return (await client.list(PODS, namespace=namespace, selection=Selection(labels=selector))).items


def show(page: Page) -> None:
    """Print a page."""
    click.echo(output.painted(page.title, bold=True))
    width = max((len(name) for name, _ in page.facts), default=0)
    for name, value in page.facts:
        lines = value.splitlines() or [""]
        click.echo(f"  {output.painted(name.ljust(width), dim=True)}  {output.printable(lines[0])}")
        for line in lines[1:]:
            click.echo(f"  {' ' * width}  {output.printable(line)}")
    for section in page.sections:
        click.echo()
        if section.text:
            click.echo(output.painted(section.heading, bold=True))
            for line in section.text.splitlines():
                click.echo(f"  {output.printable(line)}")
        else:
            output.table(section.columns, section.rows, right=section.right)
