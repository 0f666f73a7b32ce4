"""`rota describe`: an object with what it means, what belongs to it and what happened to it."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options, output
from rota.cli.command_types import Command


@click.command(
    "describe",
    cls=Command,
    examples=[
        ("rota describe node n1", "what the node offers, what its pods take, and what is left"),
        ("rota describe pod web", "how a task is, what it runs, and what happened to it"),
        ("rota describe job nightly -n batch", "how far it has come, and its pods"),
        ("rota describe node n1 --json", "the same for programs"),
    ],
)
@click.argument(
    "words", metavar="KIND NAME", nargs=-1, required=True, shell_complete=name_completion.complete_kind_and_names
)
@options.namespace_option
@output.json_option
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Show an object of any KIND (or KIND/NAME): what it is, how it is, what belongs to it, its events.

    A node is shown as the scheduler accounts for it: allocatable is all that it has for pods; requested is the sum over
    the pods that are bound to it, whether they run already or not. A pod fits if its request is no more than what is
    left, whatever is used in truth.
    """
    from rota.cli.commands import description  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    description.describe(**given)
