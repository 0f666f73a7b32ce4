"""`rota level`: show and raise the level of a cluster, which says which releases may work on it."""

import click

from rota.cli import options, output
from rota.cli.command_types import Command, CommandGroup
from rota.kit import logs


@click.group(
    "level",
    cls=CommandGroup,
    invoke_without_command=True,
    examples=[
        ("rota level --store postgresql://rota@db/rota", "the level of a cluster, and of its members' releases"),
        ("rota level --json | jq .level", "for a script"),
        ("rota level raise --store postgresql://rota@db/rota", "after an upgrade; the release before cannot come back"),
    ],
)
@options.store_option("The cluster's store:")
@output.json_option
@click.pass_context
def command(ctx: click.Context, *, store_url: str, as_json: bool) -> None:
    """Show the level of a cluster: which formats its store may hold, and so which releases may work on it.

    A release works at its own level and the one before. While masters and workers are upgraded, the cluster keeps its
    level, and they can go back to the release before. `rota level raise` ends that, and `rota cluster upgrade` does it
    as its last step.
    """
    if ctx.invoked_subcommand is not None:
        return
    import asyncio  # noqa: PLC0415

    from rota import cluster_levels  # noqa: PLC0415 - not needed to refuse an option

    options.refuse_memory(store_url)
    logs.configure(level="warning")
    found = asyncio.run(cluster_levels.status(store_url))
    if as_json:
        output.document(found)
        return
    click.echo(f"the cluster has level {found['level']}; this release works at levels {found['release']}")
    rows = [(role, name, one) for role in ("masters", "workers") for name, one in found[role].items()]
    if rows:
        output.table(["ROLE", "MEMBER", "LEVELS"], [(role.removesuffix("s"), name, one) for role, name, one in rows])


@command.command(
    "raise",
    cls=Command,
    examples=[("rota level raise --store postgresql://rota@db/rota", "when all masters have the new release")],
)
@options.store_option("The cluster's store:")
@output.json_option
def raise_(*, store_url: str, as_json: bool) -> None:
    """Raise the level as far as this release and all running masters know it. Masters keep running.

    From then on, masters of the release before are refused: going back needs a backup from before. The command refuses
    while a running master does not know the new level, or while a worker is more than one level behind it.
    """
    import asyncio  # noqa: PLC0415

    from rota import cluster_levels  # noqa: PLC0415 - not needed to refuse an option

    options.refuse_memory(store_url)
    logs.configure(level="warning")
    before, after = asyncio.run(cluster_levels.raise_level(store_url))
    if as_json:
        output.document({"before": before, "level": after})
    elif before == after:
        click.echo(f"the cluster has level {after} already")
    else:
        click.echo(f"the level was raised from {before} to {after}")
