"""`rota backup`: write a store at one revision to a file."""

from pathlib import Path

import click

from rota.cli import options, output
from rota.cli.command_types import Command
from rota.kit import logs


@click.command(
    "backup",
    cls=Command,
    examples=[
        ("rota backup monday.backup", "the cluster of `rota up`"),
        ("rota backup monday.backup --store postgresql://rota@db/rota", "a replicated cluster, while it runs"),
    ],
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.store_option("The store to back up:")
@output.json_option
def command(*, file: Path, store_url: str, as_json: bool) -> None:
    """Write a consistent backup of a store to FILE. The store stays in use.

    FILE appears when it is complete, is readable by its owner only, and replaces an older file of that name. `rota
    restore` restores it to any kind of store.
    """
    import asyncio  # noqa: PLC0415

    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option

    options.refuse_memory(store_url)
    logs.configure(level="warning")
    with output.progress("backing up") as advance:
        done = 0

        def show(entries: int) -> None:
            nonlocal done
            advance(entries - done)
            done = entries

        summary = asyncio.run(assembly.backup(store_url, file, progress=show))
    if as_json:
        output.document({"file": str(file), **summary})
    else:
        of = logs.redact_url(store_url)
        click.echo(f"{file}: {summary['entries']:,} objects of {of} as of revision {summary['revision']}")
