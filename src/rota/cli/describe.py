"""`rota describe`: show an object in detail, with its dependents and events."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options, output
from rota.cli.command_types import Command


@click.command(
    "describe",
    cls=Command,
    examples=[
        ("rota describe node n1", "allocatable, requested and free resources of a node"),
        ("rota describe pod web", "status, containers and events of a task"),
        ("rota describe job nightly -n batch", "progress and pods of a job"),
        ("rota describe node n1 --json", "the same as JSON"),
    ],
)
@click.argument(
    "words", metavar="KIND NAME", nargs=-1, required=True, shell_complete=name_completion.complete_kind_and_names
)
@options.namespace_option
@output.json_option
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Show an object of any KIND (or KIND/NAME) in detail, with its dependents and events.

    A node is shown as the scheduler accounts for it: allocatable is what the node has for pods, requested is the sum
    of the requests of all pods bound to it. A pod fits if its request is at most the difference; actual usage does not
    count.
    """
    from rota.cli.commands import description  # noqa: PLC0415 - not needed to refuse an option

    description.describe(**given)
