"""`rota spot`: spot machines and their notices."""

from pathlib import Path
from typing import Any

import click

from rota.cli import completing, endpoints, options, output
from rota.cli.commands import Command, Family

_marks_option = click.option(
    "--marks",
    "marks_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="More labels, taints and conditions by which spot machines and their end are known.",
)


@click.group(
    "spot",
    cls=Family,
    examples=[
        ("rota spot list", "which nodes are spot machines, and which of them go"),
        ("rota spot notice worker-1 --in 120s", "as if its machine were taken away in two minutes"),
        ("rota spot notice worker-1 --withdraw", "as if it were not after all"),
    ],
)
def command() -> None:
    """See spot machines and their notices, and try out what happens on one.

    The cluster is the one that `rota up` runs on this machine, or that of $KUBECONFIG, or of the options.
    """


@command.command("list", cls=Command, examples=[("rota spot list", "all nodes, as their marks tell")])
@_marks_option
@output.json_option
@endpoints.own_options
def list_(**given: Any) -> None:
    """List nodes: how each was bought, whether it goes, when, and which mark says so."""
    from rota.cli.acts import spot as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    acts.list_(**given)


@command.command(
    "notice",
    cls=Command,
    examples=[
        ("rota spot notice worker-1 --in 120s", "it goes in two minutes; a spot controller acts as on any notice"),
        ("rota spot notice worker-1 --withdraw", "it stays after all"),
    ],
)
@click.argument("node", metavar="NODE", shell_complete=completing.complete_names("nodes"))
@click.option(
    "--in",
    "lead",
    type=options.Duration(nothing="at once"),
    default="120s",
    show_default=True,
    help="When the machine would go; 0: at once.",
)
@click.option("--withdraw", is_flag=True, help="Take a simulated notice back.")
@options.dry_run_option
@endpoints.own_options
def notice(**given: Any) -> None:
    """Mark a node as a cloud would that takes its machine away. The machine itself is left alone."""
    from rota.cli.acts import spot as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    acts.notice(**given)
