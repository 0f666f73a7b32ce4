"""`rota backup`: write a store at one revision to a file, or its whole history to a folder."""

import json
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
        ("rota backup monday.backup --key backup.key", "encrypted with the key in a file"),
        ("rota backup /backups/rota --follow --keep 7d", "every change as it happens, for a week"),
        ("rota backup /backups/rota --list", "the moments that can be restored"),
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
@options.store_option("The store to back up:")
@options.backup_key_option("Encrypt FILE with the key of this file:")
@click.option("--follow", is_flag=True, help="Write every change to the folder FILE as it happens, until Ctrl-C.")
@click.option("--list", "list_", is_flag=True, help="Show which moments the folder FILE can restore.")
@click.option(
    "--base-every",
    type=options.Duration(),
    default="24h",
    show_default=True,
    help="With --follow: how often to write a base backup, from which a restore starts.",
)
@click.option(
    "--keep",
    type=options.Duration(nothing="everything"),
    default="0",
    show_default="everything",
    help="With --follow: how far back moments stay restorable.",
)
@output.json_option
def command(
    *,
    file: Path,
    store_url: str,
    key_file: Path | None,
    follow: bool,
    list_: bool,
    base_every: float,
    keep: float,
    as_json: bool,
) -> None:
    """Write a consistent backup of a store to FILE. The store stays in use.

    FILE appears when it is complete, is readable by its owner only, and replaces an older file of that name. With
    --follow, FILE is a folder: base backups and the log since them, from which `rota restore --at` restores any moment.
    `rota restore` restores to any kind of store.
    """
    if follow and list_:
        raise click.UsageError("--follow and --list exclude each other")
    if key_file is not None and (follow or list_):
        raise click.UsageError("--key encrypts a single file; for --follow, name a folder of an encrypted file system")
    options.refuse_memory(store_url)
    if list_:
        _list(file, as_json=as_json)
    elif follow:
        _follow(file, store_url, base_every, keep, as_json=as_json)
    elif file.is_dir():
        raise click.UsageError(f"{file} is a folder: name a file, or give --follow")
    else:
        _write(file, store_url, key_file, as_json=as_json)


def _write(file: Path, store_url: str, key_file: Path | None, *, as_json: bool) -> None:
    import asyncio  # noqa: PLC0415

    from rota import backups  # noqa: PLC0415 - not needed to refuse an option

    logs.configure(level="warning")
    with output.progress("backing up") as advance:
        done = 0

        def show(entries: int) -> None:
            nonlocal done
            advance(entries - done)
            done = entries

        summary = asyncio.run(backups.backup(store_url, file, progress=show, key_file=key_file))
    if as_json:
        output.document({"file": str(file), **summary})
    else:
        of = logs.redact_url(store_url)
        click.echo(f"{file}: {summary['entries']:,} objects of {of} as of revision {summary['revision']}")


def _follow(folder: Path, store_url: str, base_every: float, keep: float, *, as_json: bool) -> None:
    import asyncio  # noqa: PLC0415

    from rota import backups  # noqa: PLC0415 - not needed to refuse an option
    from rota.api import times  # noqa: PLC0415 - as above

    logs.configure(level="info")
    of = logs.redact_url(store_url)
    following = False

    def show(revision: int, at: float) -> None:
        nonlocal following
        if as_json:
            click.echo(json.dumps({"revision": revision, "time": times.format_micro_time(at)}))
        elif not following:
            click.echo(f"{folder} follows {of} from revision {revision}. Ctrl-C ends it.")
        following = True

    asyncio.run(backups.follow(store_url, folder, base_every_s=base_every, keep_s=keep or None, on_confirmed=show))


def _list(folder: Path, *, as_json: bool) -> None:
    from rota import backups  # noqa: PLC0415 - not needed to refuse an option

    found = backups.windows(folder)
    if as_json:
        output.document({"folder": str(folder), "windows": found})
        return
    columns = ("FROM", "TO", "FIRST REVISION", "LAST REVISION")
    rows = [(one["first_time"], one["last_time"], one["first_revision"], one["last_revision"]) for one in found]
    output.table(columns, rows, right=columns[2:])
