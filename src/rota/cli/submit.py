"""`rota submit`: what files say should be there."""

from typing import Any

import click

from rota.cli import endpoints, options
from rota.cli.command_types import Command


@click.command(
    "submit",
    cls=Command,
    examples=[
        ("rota submit job.yaml", "make what it describes, or bring what is there up to date"),
        ("rota submit deploy/", "every .yaml, .yml and .json file of a folder, by name"),
        ("generate | rota submit -", "from standard input"),
        ("rota submit --dry-run job.yaml", "let the server check it, and change nothing"),
    ],
)
@click.argument("sources", metavar="FILE...", nargs=-1, required=True)
@options.namespace_option
@click.option("--force", is_flag=True, help="Take over fields that others have set.")
@options.dry_run_option
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "name", "json", "yaml"]),
    default="text",
    show_default=True,
    help="In which form to say what came of it.",
)
@endpoints.own_options
def command(**given: Any) -> None:
    """Submit the objects of YAML or JSON files: any kinds, any number per file, Lists too.

    An object with a name is made, or changed where it differs (server-side apply); one with a generateName is made anew
    each time. The server checks everything, unknown fields included. What fails is named by file and document, the rest
    is done all the same, and the exit code is 2.
    """
    from rota.cli.commands import submission  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    submission.submit(**given)
