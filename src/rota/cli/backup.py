"""`rota backup`: write a store at one revision to a file, or backups of it to a folder or a bucket as time passes."""

import json
from pathlib import Path
from typing import Any

import click

from rota.cli import options, output
from rota.cli.command_types import Command
from rota.kit import logs


class _Keep(click.ParamType[float | int]):
    """`24` backups, or those of the last `7d`; 0 keeps everything."""

    name = "N|DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | int:
        """A number of backups, or seconds as a float."""
        if not isinstance(value, str):
            kept: float | int = value
            return kept
        if value.isascii() and value.isdigit():
            return int(value)
        return options.Duration(nothing="everything").convert(value, param, ctx)


@click.command(
    "backup",
    cls=Command,
    examples=[
        ("rota backup monday.backup", "the cluster of `rota up`"),
        ("rota backup monday.backup --store postgresql://rota@db/rota", "a replicated cluster, while it runs"),
        ("rota backup monday.backup --key backup.key", "encrypted with the key in a file"),
        ("rota backup monday.backup --verify", "restore a backup into a scratch store and compare"),
        ("rota backup /backups/rota --every 1h --keep 24", "a backup every hour, for a day"),
        ("rota backup s3://backups/rota --follow --keep 7d", "every change as it happens, for a week"),
        ("rota backup /backups/rota --list", "the moments that can be restored"),
    ],
)
@click.argument("file")
@options.store_option("The store to back up:")
@options.backup_key_option("Encrypt the backup, or read it, with the key of this file:")
@click.option("--follow", is_flag=True, help="Write every change to FILE, a folder or s3://..., until Ctrl-C.")
@click.option(
    "--every",
    type=options.Duration(),
    default=None,
    help="Write a complete backup to FILE, a folder or s3://..., this often, until Ctrl-C.",
)
@click.option("--list", "list_", is_flag=True, help="Show which moments FILE, a folder or s3://..., can restore.")
@click.option("--verify", is_flag=True, help="Restore FILE into a scratch store and compare; --store is not used.")
@click.option(
    "--base-every",
    type=options.Duration(),
    default="24h",
    show_default=True,
    help="With --follow: how often to write a base backup, from which a restore starts.",
)
@click.option(
    "--keep",
    type=_Keep(),
    default="0",
    show_default="everything",
    help="How far back moments stay restorable; with --every also a number of backups.",
)
@options.http_option("metrics and health of --follow or --every")
@output.json_option
def command(
    *,
    file: str,
    store_url: str,
    key_file: Path | None,
    follow: bool,
    every: float | None,
    list_: bool,
    verify: bool,
    base_every: float,
    keep: float,
    http: tuple[str, int] | None,
    as_json: bool,
) -> None:
    """Write a consistent backup of a store to FILE. The store stays in use.

    FILE appears when it is complete, is readable by its owner only, and replaces an older file of that name. With
    --follow, FILE is a folder or a place in S3: base backups and the log since them, from which `rota restore --at`
    restores any moment. With --every it gets complete backups only. `rota restore` restores to any kind of store.

    s3://bucket/prefix is reached as AWS' own tools do it: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
    AWS_REGION, AWS_ENDPOINT_URL (for other servers than AWS') and AWS_CA_BUNDLE.
    """
    from rota import backups  # noqa: PLC0415 - not needed for --help

    if follow + list_ + verify + (every is not None) > 1:
        raise click.UsageError("--follow, --every, --list and --verify exclude each other")
    if http is not None and not follow and every is None:
        raise click.UsageError("--http is for --follow and --every")
    if keep and not follow and every is None:
        raise click.UsageError("--keep is for --follow and --every")
    if keep and follow and isinstance(keep, int):
        raise click.UsageError("with --follow, --keep is a duration: 7d")
    options.refuse_memory(store_url)
    if list_:
        _list(file, key_file, as_json=as_json)
    elif verify:
        _verify(file, key_file, as_json=as_json)
    elif follow:
        _follow(file, store_url, key_file, base_every, keep, http, as_json=as_json)
    elif every is not None:
        _schedule(file, store_url, key_file, every, keep, http)
    elif Path(file).is_dir():
        raise click.UsageError(f"{file} is a folder: name a file, or give --follow or --every")
    elif backups.is_place(file):
        _write_to_place(file, store_url, key_file, as_json=as_json)
    else:
        _write(file, store_url, key_file, as_json=as_json)


def _write(file: str, store_url: str, key_file: Path | None, *, as_json: bool) -> None:
    import asyncio  # noqa: PLC0415

    from rota import backups  # noqa: PLC0415 - not needed to refuse an option

    logs.configure(level="warning")
    with output.progress("backing up") as advance:
        done = 0

        def show(entries: int) -> None:
            nonlocal done
            advance(entries - done)
            done = entries

        summary = asyncio.run(backups.backup(store_url, Path(file), progress=show, key_file=key_file))
    _show_written(file, store_url, summary, as_json=as_json)


def _write_to_place(file: str, store_url: str, key_file: Path | None, *, as_json: bool) -> None:
    import asyncio  # noqa: PLC0415

    from rota import backups  # noqa: PLC0415 - not needed to refuse an option

    logs.configure(level="warning")
    with output.progress("backing up"):
        summary = asyncio.run(backups.backup_to_place(store_url, file, key_file=key_file))
    _show_written(file, store_url, summary, as_json=as_json)


def _show_written(file: str, store_url: str, summary: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        output.document({"file": file, **summary})
    else:
        of = logs.redact_url(store_url)
        click.echo(f"{file}: {summary['entries']:,} objects of {of} as of revision {summary['revision']}")


def _follow(
    file: str,
    store_url: str,
    key_file: Path | None,
    base_every: float,
    keep: float,
    http: tuple[str, int] | None,
    *,
    as_json: bool,
) -> None:
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
            click.echo(f"{file} follows {of} from revision {revision}. Ctrl-C ends it.")
        following = True

    asyncio.run(
        backups.follow(
            store_url,
            file,
            base_every_s=base_every,
            keep_s=keep or None,
            on_confirmed=show,
            key_file=key_file,
            http=http,
        )
    )


def _schedule(
    file: str, store_url: str, key_file: Path | None, every: float, keep: float, http: tuple[str, int] | None
) -> None:
    import asyncio  # noqa: PLC0415

    from rota import backups  # noqa: PLC0415 - not needed to refuse an option

    logs.configure(level="info")
    count, seconds = (keep, None) if isinstance(keep, int) else (None, keep)
    asyncio.run(
        backups.schedule(
            store_url,
            file,
            every_s=every,
            keep_count=count or None,
            keep_s=seconds or None,
            key_file=key_file,
            http=http,
        )
    )


def _verify(file: str, key_file: Path | None, *, as_json: bool) -> None:
    import asyncio  # noqa: PLC0415

    from rota import backups  # noqa: PLC0415 - not needed to refuse an option

    logs.configure(level="warning")
    with output.progress("verifying"):
        found = asyncio.run(backups.verify(file, key_file=key_file))
    if as_json:
        output.document({"file": file, **found})
    else:
        click.echo(
            f"{file}: {found['entries']:,} objects as of revision {found['revision']} were restored and are equal"
        )


def _list(file: str, key_file: Path | None, *, as_json: bool) -> None:
    from rota import backups  # noqa: PLC0415 - not needed to refuse an option

    found = backups.windows(file, key_file=key_file)
    if as_json:
        output.document({"folder": file, "windows": found})
        return
    columns = ("FROM", "TO", "FIRST REVISION", "LAST REVISION")
    rows = [(one["first_time"], one["last_time"], one["first_revision"], one["last_revision"]) for one in found]
    output.table(columns, rows, right=columns[2:])
