"""`rota rebalance`: move pods to where the scheduler would place them now."""

from pathlib import Path
from typing import Any

import click

from rota.api import drifts
from rota.cli import endpoints, output
from rota.cli.command_types import Command
from rota.cli.scheduler_options import scheduler_options


@click.command(
    "rebalance",
    cls=Command,
    examples=[
        ("rota rebalance --dry-run", "show the moves, their reasons, and the utilization before and after"),
        ("rota rebalance --yes", "rebalance once"),
        ("rota rebalance --yes --every 300", "rebalance every five minutes, until interrupted"),
        (
            "rota rebalance --dry-run --strategy compact --scheduler-config packing.yaml",
            "show which underutilized nodes could be emptied",
        ),
        ("rota rebalance --dry-run --cluster now.jsonl.gz", "plan for a cluster that rota dump wrote"),
        ("rota rebalance --dry-run --by usage", "use measured usage instead of requests"),
    ],
)
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="Plan for the cluster in a file of rota dump or kubectl get -o json, with --dry-run; repeatable.",
)
@click.option("--yes", is_flag=True, help="Evict pods without confirmation.")
@click.option(
    "--every", type=click.FloatRange(min=1), metavar="SECONDS", help="Rebalance at this interval, until interrupted."
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice(drifts.DRIFTS),
    help="Kind of drift to correct; repeatable.  [default: all but crashes, lifetime and compact]",
)
@click.option(
    "--by",
    "measure",
    type=click.Choice(["requests", "usage"]),
    default="requests",
    show_default=True,
    help="Measure utilization by requests or by usage.",
)
@click.option(
    "--empty-below",
    type=click.FloatRange(0, 100),
    default=20,
    show_default=True,
    metavar="PERCENT",
    help="Nodes below this utilization are underutilized: balance moves pods to them, compact drains them.",
)
@click.option(
    "--full-above",
    type=click.FloatRange(0, 100),
    default=70,
    show_default=True,
    metavar="PERCENT",
    help="Nodes above this utilization are overutilized: balance moves pods away from them.",
)
@click.option(
    "--max-evictions",
    "most",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="Maximum of evictions in one run.",
)
@click.option(
    "--max-evictions-per-node",
    "most_per_node",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Maximum of evictions from one node.",
)
@click.option(
    "--max-evictions-per-namespace",
    "most_per_namespace",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Maximum of evictions from one namespace.",
)
@click.option(
    "--max-evictions-per-hour",
    "most_per_hour",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="N",
    help="Maximum of evictions in an hour, with --every.",
)
@click.option("--jobs", is_flag=True, help="Also move pods of Jobs and pipelines; they start their work again.")
@click.option("--local-storage", is_flag=True, help="Also move pods with local volumes; their data is lost.")
@scheduler_options("KubeSchedulerConfiguration of the scheduler that places evicted pods.")
@output.json_option
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Move pods to where the scheduler would place them now.

    A pod moves only if the scheduler would place it on another node with a strictly better score, and the move improves
    the cluster; pods do not move back and forth. Disruption budgets are respected. These pods are never moved: pods
    without a controller, pods of DaemonSets, Jobs and pipelines, critical pods, and pods with the annotation
    rota.dev/rebalance=never.
    """
    from rota.cli.commands import rebalance_run  # noqa: PLC0415 - not needed to refuse an option

    rebalance_run.rebalance(**given)
