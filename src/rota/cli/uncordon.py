"""`rota uncordon`: a node takes new tasks again."""

from typing import Any

import click

from rota.cli import completing, endpoints, options
from rota.cli.commands import Command


@click.command("uncordon", cls=Command, examples=[("rota uncordon worker-1", "new tasks may be placed there again")])
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=completing.complete_names("nodes"))
@options.dry_run_option
@endpoints.own_options
def command(**given: Any) -> None:
    """Let new tasks be placed on nodes again."""
    from rota.cli.acts import cordoning  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    cordoning.cordon(unschedulable=False, **given)
