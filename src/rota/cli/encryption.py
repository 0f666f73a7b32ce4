"""`rota encryption`: show and rotate the keys that a store's Secrets are encrypted with."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli import options, output
from rota.cli.command_types import Command
from rota.kit import logs

if TYPE_CHECKING:
    from rota.apiserver.encryption.rotation import Holdings


@click.command(
    "encryption",
    cls=Command,
    examples=[
        ("rota encryption status", "number of objects per key"),
        ("rota encryption rotate", "create a new key and encrypt everything with it"),
        (
            "rota encryption rotate --keep-key",
            "encrypt everything with the first key of the edited file",
        ),
        ("rota encryption forget", "remove keys that no object is encrypted with from the file"),
    ],
)
@click.argument("action", type=click.Choice(["status", "rotate", "forget"]))
@options.store_option("The store:")
@click.option(
    "--keys",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    default=lambda: options.data_folder() / "encryption-keys.yaml",
    show_default="encryption-keys.yaml in the data folder",
    help="The key file of `rota up` or `rota master`.",
)
@click.option("--keep-key", is_flag=True, help="With rotate: use the first key of the file instead of a new one.")
@output.json_option
def command(*, action: str, store_url: str, keys: Path, keep_key: bool, as_json: bool) -> None:
    """Show or rotate the keys that a store's Secrets are encrypted with. Servers keep running.

    rotate rewrites every object that is not encrypted with the first key; watches see the change. Run forget some
    minutes later: the store's history keeps earlier values under the old key until it is compacted.
    """
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option

    options.refuse_memory(store_url)
    logs.configure(level="warning")
    if keep_key and action != "rotate":
        raise click.UsageError("--keep-key goes with rotate")
    if action == "status":
        _show(assembly.run(assembly.encryption_status(store_url, keys)), as_json=as_json)
    elif action == "rotate":
        name, rewritten = assembly.run(assembly.rotate_encryption(store_url, keys, new_key=not keep_key))
        if as_json:
            output.document({"key": name, "rewritten": rewritten})
        else:
            click.echo(f"{rewritten:,} objects rewritten; the key in use is {name}")
    else:
        gone = assembly.run(assembly.forget_encryption_keys(store_url, keys))
        if as_json:
            output.document({"forgotten": gone})
        else:
            click.echo(f"forgotten: {', '.join(gone) or 'no key, each is in use'}")


def _show(found: Sequence["Holdings"], *, as_json: bool) -> None:
    if as_json:
        output.document(
            [{"prefix": one.prefix, "key": one.primary, "objects_by_key": dict(one.by_key)} for one in found]
        )
        return
    rows = [
        [_resource(one.prefix), name or "not encrypted", count, "yes" if name == (one.primary or "") else ""]
        for one in found
        for name, count in sorted(one.by_key.items()) or [(one.primary or "", 0)]
    ]
    output.table(["RESOURCE", "KEY", "OBJECTS", "IN USE"], rows, right=["OBJECTS"])


def _resource(prefix: str) -> str:
    from rota.apiserver.encryption import configuration  # noqa: PLC0415 - not needed to refuse an option

    return str(configuration.resource(prefix) or "(the servers' own keys)")
