"""`rota status`: a cluster on one screen."""

from typing import Any

import click

from rota.cli import endpoints, output
from rota.cli.command_types import Command


@click.command(
    "status",
    cls=Command,
    examples=[
        ("rota status", "is everything well?"),
        ("rota status --json | jq .pods", "for a script"),
    ],
)
@output.json_option
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Show a cluster on one screen: masters, who leads, workers, tasks by phase, what waits, recent warnings."""
    from rota.cli.commands import cluster_status  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    cluster_status.status(**given)
