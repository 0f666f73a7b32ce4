"""`rota cordon`: mark nodes as unschedulable."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


@click.command(
    "cordon",
    cls=Command,
    examples=[
        ("rota cordon worker-1", "place no new pods there; running pods stay"),
        ("rota cordon worker-1 worker-2", "several nodes; rota uncordon reverts it"),
    ],
)
@click.argument(
    "nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=name_completion.complete_names("nodes")
)
@options.dry_run_option
@endpoints.own_options
def command(**given: Any) -> None:
    """Mark nodes as unschedulable. Pods that run there stay."""
    from rota.cli.commands import cordon  # noqa: PLC0415 - not needed to refuse an option

    cordon.cordon(unschedulable=True, **given)
