"""`rota submit`: apply the objects of files."""

from typing import Any

import click

from rota.cli import endpoints, options
from rota.cli.command_types import Command


@click.command(
    "submit",
    cls=Command,
    examples=[
        ("rota submit job.yaml", "create its objects, or update those that exist"),
        ("rota submit deploy/", "every .yaml, .yml and .json file of a folder, in order of name"),
        ("generate | rota submit -", "from standard input"),
        ("rota submit --dry-run job.yaml", "let the server validate it, and change nothing"),
    ],
)
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@options.namespace_option
@click.option("--force", is_flag=True, help="Take over fields that other managers own.")
@options.dry_run_option
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "name", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format of the results.",
)
@endpoints.own_options
def command(**given: Any) -> None:
    """Submit the objects of YAML or JSON files: any kinds, any number per file, also Lists.

    An object with a name is created or updated by server-side apply; an object with generateName is created each time.
    The server validates everything, including unknown fields. If an object fails, the error names its file and
    document, the others are still submitted, and the exit code is 2.
    """
    from rota.cli.commands import submission  # noqa: PLC0415 - not needed to refuse an option

    submission.submit(**given)
