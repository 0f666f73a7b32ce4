"""`rota rebalance`: move pods when the cluster has drifted from what the scheduler would decide now."""

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
        ("rota rebalance --dry-run", "show what would move and why, and how full nodes are before and after"),
        ("rota rebalance --yes", "move what should move, once"),
        ("rota rebalance --yes --every 300", "look every five minutes, until interrupted"),
        ("rota rebalance --dry-run --strategy compact --scheduler-config packing.yaml", "empty what is nearly empty"),
        ("rota rebalance --dry-run --by usage", "go by what is measured instead of what was asked for"),
    ],
)
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before pods are evicted.")
@click.option(
    "--every", type=click.FloatRange(min=1), metavar="SECONDS", help="Rebalance again and again, until interrupted."
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice(drifts.DRIFTS),
    help="Which drift to look for; may be repeated.  [default: all but crashes, lifetime and compact]",
)
@click.option(
    "--by",
    "measure",
    type=click.Choice(["requests", "usage"]),
    default="requests",
    show_default=True,
    help="How full a node is: by what its pods ask for, or by what they use.",
)
@click.option(
    "--empty-below",
    type=click.FloatRange(0, 100),
    default=20,
    show_default=True,
    metavar="PERCENT",
    help="What is less full is nearly empty: balance fills it up, compact empties it.",
)
@click.option(
    "--full-above",
    type=click.FloatRange(0, 100),
    default=70,
    show_default=True,
    metavar="PERCENT",
    help="What is fuller is too full: balance moves pods away from it.",
)
@click.option(
    "--max-evictions",
    "most",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="Pods that may move at once.",
)
@click.option(
    "--max-evictions-per-node",
    "most_per_node",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Of these, from one node.",
)
@click.option(
    "--max-evictions-per-namespace",
    "most_per_namespace",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Of these, from one namespace.",
)
@click.option(
    "--max-evictions-per-hour",
    "most_per_hour",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="N",
    help="Pods that may move in an hour, with --every.",
)
@click.option("--jobs", is_flag=True, help="Move pods of Jobs and pipelines though they begin their work anew.")
@click.option("--local-storage", is_flag=True, help="Move pods though they lose what is in their local volumes.")
@scheduler_options("The KubeSchedulerConfiguration by which evicted pods will be placed.")
@output.json_option
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Move pods to where the scheduler would put them today.

    A pod moves only if the scheduler would place it elsewhere, likes that place strictly better, and the cluster gets
    better by it: nothing moves back and forth. Disruption budgets are kept. Pods that nothing would replace, daemons,
    those of Jobs and pipelines, and critical ones stay; so do those with the annotation rota.dev/rebalance: never.
    """
    from rota.cli.commands import rebalance_run  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    rebalance_run.rebalance(**given)
