"""`rota cordon`: no new tasks on a node."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


@click.command(
    "cordon",
    cls=Command,
    examples=[
        ("rota cordon worker-1", "what runs there goes on, nothing new is placed there"),
        ("rota cordon worker-1 worker-2", "several; rota uncordon takes it back"),
    ],
)
@click.argument(
    "nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=name_completion.complete_names("nodes")
)
@options.dry_run_option
@endpoints.own_options
def command(**given: Any) -> None:
    """Let no new tasks be placed on nodes; those that run there go on."""
    from rota.cli.commands import cordon  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    cordon.cordon(unschedulable=True, **given)
