"""`rota uncordon`: mark nodes as schedulable."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


@click.command("uncordon", cls=Command, examples=[("rota uncordon worker-1", "allow new pods there again")])
@click.argument(
    "nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=name_completion.complete_names("nodes")
)
@options.dry_run_option
@endpoints.own_options
def command(**given: Any) -> None:
    """Mark nodes as schedulable again."""
    from rota.cli.commands import cordon  # noqa: PLC0415 - not needed to refuse an option

    cordon.cordon(unschedulable=False, **given)
