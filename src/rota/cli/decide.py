"""`rota decide`: place pods offline. Reads scenarios or a cluster dump, prints decisions.

Exit code 3: a scenario could not be decided; its output line has the error.
"""

import sys
from pathlib import Path
from typing import Final

import click

from rota.cli.command_types import Command
from rota.cli.scheduler_options import SchedulerFiles, scheduler_options

UNDECIDED: Final = 3

_file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command(
    "decide",
    cls=Command,
    examples=[
        ("rota decide < scenarios.jsonl", "one decision per line, as JSON"),
        (
            "kubectl get nodes,pods -A -o json | rota decide --cluster - --pod web.yaml --table",
            "the node that the pod would get in that cluster, with reasons",
        ),
        (
            "rota decide --table batches.jsonl",
            "batch scheduling: which groups start, and which pods are evicted for them",
        ),
        (
            "kubectl get nodes,pods,podgroups,queues,priorityclasses -A -o json | "
            "rota decide --cluster - --batch-config volcano-scheduler.conf --table",
            "batch scheduling of a cluster as it is now",
        ),
        (
            "rota decide --cluster now.json --pod web.yaml --scheduler-config mine.yaml",
            "the same with other profiles and plugins",
        ),
    ],
)
@click.argument("files", metavar="[SCENARIOS]...", nargs=-1, type=_file)
@click.option(
    "--cluster", "dumps", multiple=True, type=_file, metavar="FILE", help="A cluster dump (JSON or YAML); repeatable."
)
@click.option("--pod", "pod_file", type=_file, metavar="FILE", help="The manifest of the pod to place.")
@click.option(
    "--batch-config",
    type=_file,
    metavar="FILE",
    help="Run a session of batch scheduling on the dump, by this volcano-scheduler.conf.",
)
@scheduler_options()
@click.option("--table", "as_table", is_flag=True, help="Print tables instead of JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    files: tuple[Path, ...],
    dumps: tuple[Path, ...],
    pod_file: Path | None,
    batch_config: Path | None,
    scheduler_files: SchedulerFiles,
    as_table: bool,
) -> None:
    """Place a pod offline and print the decision with its reasons.

    Reads SCENARIOS (files or standard input): one JSON object per line with an id, nodes, bound pods, the pod to place,
    and optionally namespaces, disruption budgets (pdbs) and a scheduler configuration (config):

    {"id": "a", "nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}}], "pods":
    [], "pod": {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c"}]}}}

    A scenario with groups of pods (podGroups) and queues is decided as one session of batch scheduling, by the
    configuration in its field conf (a volcano-scheduler.conf). The answer then has a field decision: which pods would
    be bound, evicted and held, and the state of every group. --batch-config does the same on a cluster dump with nodes,
    pods, PodGroups and Queues.

    Alternatively reads a cluster dump (JSON and YAML, with the volumes, services and budgets that matter) and a pod
    manifest. Prints one JSON object per decision: the filter result of every node, the weighted scores, the best nodes,
    and the preemption victims if no node fits. A malformed scenario yields an error that names the path, and exit code
    3.
    """
    if pod_file is not None and batch_config is not None:
        raise click.UsageError("give either --pod or --batch-config")
    if batch_config is not None and not dumps:
        raise click.UsageError("--cluster and --batch-config belong together")
    if bool(dumps) != (pod_file is not None or batch_config is not None):
        raise click.UsageError("--cluster and --pod belong together")
    if dumps and files:
        raise click.UsageError("give either scenarios or --cluster and --pod")
    if not files and not dumps and sys.stdin.isatty():
        raise click.UsageError("give scenarios, or --cluster and --pod")
    from rota.cli.commands import decision  # noqa: PLC0415 - not needed to refuse an option

    decided = decision.decide(
        files=files,
        dumps=dumps,
        pod_file=pod_file,
        batch_config=batch_config,
        configured=scheduler_files.source().load(),
        as_table=as_table,
    )
    if not decided:
        ctx.exit(UNDECIDED)
