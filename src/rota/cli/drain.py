"""`rota drain`: evict all pods of a node, for maintenance."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


@click.command(
    "drain",
    cls=Command,
    examples=[
        ("rota drain worker-1", "cordon it and evict its pods, as their disruption budgets allow"),
        ("rota drain worker-1 --force", "also tasks of rota run, which no controller starts again"),
        (
            "rota drain worker-1 --ignore-daemonsets --delete-emptydir-data",
            "also with DaemonSets and local data on the node",
        ),
        ("rota drain worker-1 --dry-run", "show which pods would be evicted, which stay, and what blocks"),
    ],
)
@click.argument("node", metavar="NODE", shell_complete=name_completion.complete_names("nodes"))
@click.option(
    "--ignore-daemonsets", is_flag=True, help="Ignore pods of DaemonSets; their controller would recreate them at once."
)
@click.option("--delete-emptydir-data", is_flag=True, help="Also evict pods with emptyDir volumes; their data is lost.")
@click.option("--force", is_flag=True, help="Also evict pods without a controller, which are not started again.")
@click.option(
    "--grace-period", type=click.IntRange(0), metavar="SECONDS", help="Grace period of pods.  [default: the pod's own]"
)
@click.option(
    "--timeout",
    type=options.Duration(nothing="no limit"),
    default="0",
    show_default="no limit",
    help="Maximum time to wait.",
)
@options.selector_option
@options.dry_run_option
@endpoints.own_options
def command(**given: Any) -> None:
    """Cordon NODE, evict its pods, and wait until they are gone.

    Disruption budgets are respected: an eviction that a budget refuses is retried. If a pod needs one of the options
    --ignore-daemonsets, --delete-emptydir-data or --force, nothing is evicted. The node stays cordoned until rota
    uncordon.
    """
    from rota.cli.commands import drain  # noqa: PLC0415 - not needed to refuse an option

    drain.drain(**given)
