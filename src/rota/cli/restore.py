"""`rota restore`: fill an empty store from a backup."""

from pathlib import Path

import click

from rota.cli import options, output
from rota.cli.command_types import Command
from rota.kit import logs


@click.command(
    "restore",
    cls=Command,
    examples=[
        ("rota restore monday.backup --store sqlite:///restored.db", "into a new SQLite file"),
        ("rota restore laptop.backup --store etcd://10.0.0.1:2379,10.0.0.2:2379", "to another kind of store"),
    ],
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.store_option("The empty store to fill:")
@output.json_option
def command(*, file: Path, store_url: str, as_json: bool) -> None:
    """Fill an empty store from FILE.

    The file is verified before anything is written; a damaged file is refused. The store's revisions continue far above
    those of the old store, so clients that watched it list again.
    """
    import asyncio  # noqa: PLC0415

    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option

    options.refuse_memory(store_url)
    logs.configure(level="warning")
    with output.progress("restoring"):
        summary = asyncio.run(assembly.restore(file, store_url))
    if as_json:
        output.document({"file": str(file), **summary})
    else:
        click.echo(f"restored {summary['entries']:,} objects; the store is at revision {summary['revision']}")
