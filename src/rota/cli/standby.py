"""`rota standby`: keep a store that follows another one, and promote it when the other one is lost."""

from pathlib import Path

import click

from rota.cli import options, output
from rota.cli.command_types import Command, CommandGroup
from rota.kit import logs

_source_option = click.option(
    "--from",
    "source",
    metavar="URL|PLACE",
    default=None,
    help="The primary's store, or the folder or s3://... of its `rota backup --follow`.",
)
_key_option = options.backup_key_option("The key file of an encrypted continuous backup:")


@click.group(
    "standby",
    cls=CommandGroup,
    invoke_without_command=True,
    examples=[
        ("rota standby --from postgresql://rota@db/rota --store sqlite:///standby.db", "follow a primary"),
        ("rota standby --from s3://backups/rota --key backup.key --store sqlite:///standby.db", "follow its backup"),
        ("rota standby status --store sqlite:///standby.db", "the role of a store, and how far it is"),
        (
            "rota standby promote --from postgresql://rota@db/rota --store sqlite:///standby.db",
            "change over; nothing is lost",
        ),
        ("rota standby promote --without-primary --store sqlite:///standby.db", "the primary is lost"),
    ],
)
@_source_option
@options.store_option("The standby, an empty store at first:")
@_key_option
@options.http_option("metrics and health")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    source: str | None,
    store_url: str,
    key_file: Path | None,
    http: tuple[str, int] | None,
) -> None:
    """Keep a second store equal to a cluster's, on any kind of database, until Ctrl-C or its promotion.

    Masters do not start on a standby. `rota standby promote` makes it the primary of the next epoch: it fences the old
    primary off, so that no master can write to it any more, applies the changes before the fence, and lets masters
    start. The standby's masters need a copy of the cluster's encryption keys.
    """
    if ctx.invoked_subcommand is not None:
        return
    if source is None:
        raise click.UsageError("name what to follow: --from URL, --from FOLDER or --from s3://bucket/prefix")
    import asyncio  # noqa: PLC0415

    from rota import standbys  # noqa: PLC0415 - not needed to refuse an option

    options.refuse_memory(store_url)
    logs.configure(level="info")
    of, following = logs.redact_url(source), False

    def show(position: int) -> None:
        nonlocal following
        if not following:
            click.echo(f"{logs.redact_url(store_url)} follows {of} from revision {position}. Ctrl-C ends it.")
        following = True

    asyncio.run(standbys.follow(source, store_url, on_position=show, key_file=key_file, http=http))


@command.command(
    "promote",
    cls=Command,
    examples=[
        (
            "rota standby promote --from postgresql://rota@db/rota --store sqlite:///standby.db",
            "fence the primary off, and apply its last changes",
        ),
        ("rota standby promote --without-primary --store sqlite:///standby.db", "with what the standby has"),
    ],
)
@_source_option
@options.store_option("The standby:")
@_key_option
@click.option(
    "--without-primary",
    is_flag=True,
    help="The primary cannot be reached, and its masters are down or will be; see `rota standby fence`.",
)
@output.json_option
def promote(*, source: str | None, store_url: str, key_file: Path | None, without_primary: bool, as_json: bool) -> None:
    """Make a standby the primary of the next epoch.

    With --from and a store, the old primary is fenced off and nothing is lost. With --without-primary, changes that the
    standby does not hold are lost; a continuous backup in --from is applied first.
    """
    import asyncio  # noqa: PLC0415

    from rota import standbys  # noqa: PLC0415 - not needed to refuse an option

    options.refuse_memory(store_url)
    logs.configure(level="warning")
    done = asyncio.run(standbys.promote(store_url, source, without_primary=without_primary, key_file=key_file))
    if as_json:
        output.document(done)
        return
    click.echo(
        f"{logs.redact_url(store_url)} is the primary of epoch {done['epoch']}, with everything up to revision "
        f"{done['position']} of {done['time']}. Start masters on it."
    )
    if without_primary:
        click.echo(f"When the old primary is back: rota standby fence --epoch {done['epoch']} --store URL")


@command.command(
    "fence",
    cls=Command,
    examples=[("rota standby fence --epoch 1 --store postgresql://rota@db/rota", "an old primary that is back")],
)
@options.store_option("The old primary:")
@click.option("--epoch", type=click.IntRange(1), required=True, help="The epoch that `rota standby promote` printed.")
def fence(*, store_url: str, epoch: int) -> None:
    """Fence an old primary off that could not be reached when its standby was promoted.

    Masters can no longer write to it. Run it before the masters of the old primary are started again.
    """
    import asyncio  # noqa: PLC0415

    from rota import standbys  # noqa: PLC0415 - not needed to refuse an option

    logs.configure(level="warning")
    asyncio.run(standbys.fence(store_url, epoch=epoch))
    click.echo(f"{logs.redact_url(store_url)} is superseded by epoch {epoch}; no master can write to it.")


@command.command(
    "status",
    cls=Command,
    examples=[("rota standby status --store sqlite:///standby.db", "primary, standby or superseded")],
)
@options.store_option("The store:")
@output.json_option
def status(*, store_url: str, as_json: bool) -> None:
    """Show the role and the epoch of a store; of a standby also how far it is."""
    import asyncio  # noqa: PLC0415

    from rota import standbys  # noqa: PLC0415 - not needed to refuse an option

    logs.configure(level="warning")
    found = asyncio.run(standbys.status(store_url))
    if as_json:
        output.document(found)
        return
    of = logs.redact_url(store_url)
    click.echo(f"{of} is a {found['role']} (epoch {found['epoch']})")
    if "position" in found:
        whole = "and is being compared with it" if found["syncing"] else f"of {found['time']}"
        click.echo(f"it holds its primary at revision {found['position']} {whole}")
