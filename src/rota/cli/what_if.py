"""`rota what-if`: what would happen in a cluster, without any change of it."""

from pathlib import Path
from typing import Any, Final

import click

from rota.cli import endpoints, output
from rota.cli.command_types import Command
from rota.cli.scheduler_options import scheduler_options

_file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_MOST: Final = 100_000


@click.command(
    "what-if",
    cls=Command,
    examples=[
        ("rota what-if -f web.yaml", "would these pods fit, and which pods would be preempted for them"),
        ("rota what-if --shape cpu=2,memory=4Gi", "how many more pods of this shape find a node"),
        ("rota what-if --drain node-1 --drain node-2", "where the pods of these nodes would go, and which would wait"),
        ("rota what-if --add-nodes 4xcpu=16,memory=64Gi --scale-pool pool=gpu:2", "with more nodes"),
        (
            "rota what-if now.jsonl.gz --scheduler-config packing.yaml --reschedule",
            "which pods of a dump would be elsewhere with another configuration",
        ),
    ],
)
@click.argument("file", metavar="[CLUSTER]", required=False, type=_file)
@click.option(
    "-f",
    "--filename",
    "pod_files",
    multiple=True,
    type=_file,
    metavar="FILE",
    help="New pods, or workloads with a template for pods; repeatable.",
)
@click.option(
    "--shape", metavar="AMOUNTS", help="Count how many more pods of this shape find a node: cpu=2,memory=4Gi."
)
@click.option("--count-of", type=_file, metavar="FILE", help="The same for the pod of a manifest.")
@click.option("--most", type=click.IntRange(1), default=_MOST, show_default=True, help="Where the count ends.")
@click.option("--drain", "drained", multiple=True, metavar="NODE", help="Drain this node; repeatable.")
@click.option(
    "--add-nodes",
    multiple=True,
    metavar="[POOL:]NxAMOUNTS",
    help="Add nodes, such as 4xcpu=16,memory=64Gi; repeatable.",
)
@click.option(
    "--scale-pool",
    "pools",
    multiple=True,
    metavar="LABEL=VALUE:TIMES",
    help="Make the nodes with this label so many times as many; repeatable.",
)
@click.option("--reschedule", is_flag=True, help="Place all pods again, as if they had no node.")
@scheduler_options("Decide with this KubeSchedulerConfiguration.")
@endpoints.nearest_options
@output.json_option
def command(
    *, file: Path | None, shape: str | None, count_of: Path | None, pod_files: tuple[Path, ...], **given: Any
) -> None:
    """Tell what would happen in a cluster: which pods would be placed, move, wait or be preempted.

    CLUSTER is a file of rota dump or of kubectl get -o json; without it, the live cluster is read once. Nothing is
    changed there. All changes apply together. Decisions are made by the same profiles and plugins as those of rota up
    and rota scheduler, with the configuration of --scheduler-config, or else that in the dump, or else the stock one.
    Extenders are not asked. Of several nodes with the highest score, the first by name is taken.

    Pods of a drained node are evicted as by rota drain --force --ignore-daemonsets: their controllers create them
    again, and pods without a controller are lost. A count is made after everything else, and without preemption.
    """
    server = any(given[name] for name in ("kubeconfig_file", "context", "server"))
    if file is not None and server:
        raise click.UsageError("give either a CLUSTER file or a server")
    if shape is not None and count_of is not None:
        raise click.UsageError("give either --shape or --count-of")
    if [file, count_of, *pod_files].count(Path("-")) > 1:
        raise click.UsageError("only one file can be standard input")
    from rota.cli.commands import what_if_question  # noqa: PLC0415 - not needed to refuse an option

    what_if_question.ask(file=file, shape=shape, count_of=count_of, pod_files=pod_files, **given)
