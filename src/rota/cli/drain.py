"""`rota drain`: a node without tasks, for whoever wants to switch it off."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


@click.command(
    "drain",
    cls=Command,
    examples=[
        ("rota drain worker-1", "cordon it and move its tasks elsewhere, as their budgets allow"),
        ("rota drain worker-1 --force", "tasks of rota run too, which nobody starts again elsewhere"),
        ("rota drain worker-1 --ignore-daemonsets --delete-emptydir-data", "whatever is there"),
        ("rota drain worker-1 --dry-run", "who would go, who would stay, and what is in the way"),
    ],
)
@click.argument("node", metavar="NODE", shell_complete=name_completion.complete_names("nodes"))
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of DaemonSets, which would come back at once.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also pods whose data in an emptyDir is lost.")
@click.option("--force", is_flag=True, help="Also pods that have no controller to start them elsewhere.")
@click.option(
    "--grace-period", type=click.IntRange(0), metavar="SECONDS", help="How long pods get to end.  [default: their own]"
)
@click.option(
    "--timeout",
    type=options.Duration(nothing="no limit"),
    default="0",
    show_default="no limit",
    help="When to give up.",
)
@options.selector_option
@options.dry_run_option
@endpoints.own_options
def command(**given: Any) -> None:
    """Cordon NODE and evict its pods, and wait until they are gone.

    Evictions ask the pods' disruption budgets; what a budget does not allow yet is tried again until it does. If a pod
    is in the way that an option above would let go, nothing is evicted. The node stays cordoned: rota uncordon ends it.
    """
    from rota.cli.commands import drain  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    drain.drain(**given)
