"""`rota version`: print versions, for a bug report."""

import platform
import sqlite3
from importlib import metadata

import click

import rota
from rota.cli import output
from rota.cli.command_types import Command

#: Libraries that matter for bug reports; those of optional backends are listed if installed.
_LIBRARIES = ("lightkube-models", "msgspec", "numpy", "psycopg", "grpcio")


@click.command(
    "version",
    cls=Command,
    examples=[("rota version", "for a bug report"), ("rota version --json | jq -r .rota", "for a script")],
)
@output.json_option
def command(*, as_json: bool) -> None:
    """Print the version of Rota, Python, the system and the main libraries."""
    facts = {
        "rota": rota.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
        **_installed(),
    }
    if as_json:
        output.document(facts)
    else:
        output.table(["PART", "VERSION"], facts.items())


def _installed() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
