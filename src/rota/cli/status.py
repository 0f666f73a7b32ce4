"""`rota status`: show a cluster on one screen."""

from typing import Any

import click

from rota.cli import endpoints, output
from rota.cli.command_types import Command


@click.command(
    "status",
    cls=Command,
    examples=[
        ("rota status", "overview of the cluster"),
        ("rota status --json | jq .pods", "for a script"),
    ],
)
@output.json_option
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Show a cluster on one screen: masters, leaders, workers, tasks by phase, pending tasks, recent warnings."""
    from rota.cli.commands import cluster_status  # noqa: PLC0415 - not needed to refuse an option

    cluster_status.status(**given)
