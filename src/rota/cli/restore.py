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
        ("rota restore monday.backup --key backup.key --store sqlite:///restored.db", "an encrypted backup"),
        ("rota restore s3://backups/rota --key backup.key --store sqlite:///last.db", "the last state in a bucket"),
        ("rota restore /backups/rota --at 2026-05-01T12:30:00Z --store sqlite:///before.db", "as it was at a moment"),
    ],
)
@click.argument("file")
@options.store_option("The empty store to fill:")
@options.backup_key_option("The key file that FILE was encrypted with:")
@click.option(
    "--at",
    default=None,
    metavar="TIME",
    help="With a folder or s3://...: the last state up to this time, or the end of this second.",
)
@click.option(
    "--revision", type=click.IntRange(1), default=None, metavar="N", help="With a folder or s3://...: this revision."
)
@output.json_option
def command(
    *, file: str, store_url: str, key_file: Path | None, at: str | None, revision: int | None, as_json: bool
) -> None:
    """Fill an empty store from FILE: a backup, or the folder or s3://bucket/prefix of `rota backup --follow`.

    A folder or bucket is restored to its last change, unless --at or --revision names another moment. Everything is
    verified before anything is written; a damaged backup is refused. The store's revisions continue far above those of
    the old store, so clients that watched it list again.
    """
    import asyncio  # noqa: PLC0415

    from rota import backups  # noqa: PLC0415 - not needed to refuse an option

    if at is not None and revision is not None:
        raise click.UsageError("--at and --revision exclude each other")
    if (at is not None or revision is not None) and not backups.is_place(file):
        raise click.UsageError(f"{file} is not a folder: --at and --revision need one of `rota backup --follow`")
    options.refuse_memory(store_url)
    logs.configure(level="warning")
    time = None if at is None else backups.moment_time(at)
    with output.progress("restoring"):
        if backups.is_place(file):
            moment = backups.restore_moment(file, store_url, revision=revision, at=time, key_file=key_file)
            summary = asyncio.run(moment)
        else:
            summary = asyncio.run(backups.restore(Path(file), store_url, key_file=key_file))
    if as_json:
        output.document({"file": file, **summary})
        return
    of = f" as of revision {summary['restored_revision']}" if "restored_revision" in summary else ""
    click.echo(f"restored {summary['entries']:,} objects{of}; the store is at revision {summary['revision']}")
