"""`rota cordon` and `rota uncordon`."""

from typing import Any, Final

import click

from rota.cli import endpoints
from rota.cli.commands import session
from rota.client.verbs import Client

NODES: Final = ("", "v1", "nodes")


def cordon(*, nodes: tuple[str, ...], unschedulable: bool, dry_run: bool, **server: Any) -> None:
    """Mark nodes as unschedulable, or as schedulable again."""

    async def work(client: Client) -> None:
        for name in nodes:
            await set_unschedulable(client, name, unschedulable=unschedulable, dry_run=dry_run)

    session.at(endpoints.own_cluster(**server), work)


async def set_unschedulable(client: Client, name: str, *, unschedulable: bool, dry_run: bool = False) -> None:
    """Update one node if necessary, and print the result."""
    word = "cordoned" if unschedulable else "uncordoned"
    node = await client.get(NODES, name)
    if bool((node.get("spec") or {}).get("unschedulable")) == unschedulable:
        click.echo(f"node/{name} already {word}")
        return
    await client.patch(NODES, name, {"spec": {"unschedulable": unschedulable or None}}, dry_run=dry_run)
    click.echo(f"node/{name} {word}{' (dry run)' if dry_run else ''}")
