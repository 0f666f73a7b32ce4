"""`rota decide`: where would this pod go, and why? Offline: scenarios or a dump in, decisions out.

Exit code 3 says that some line could not be decided; its answer says why.
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
            "where would this pod go in that cluster, and why?",
        ),
        ("rota decide --table batches.jsonl", "which groups would start, and which pods would go for them?"),
        (
            "rota decide --cluster now.json --pod web.yaml --scheduler-config mine.yaml",
            "and with these profiles and plugins?",
        ),
    ],
)
@click.argument("files", metavar="[SCENARIOS]...", nargs=-1, type=_file)
@click.option("--cluster", "dumps", multiple=True, type=_file, metavar="FILE", help="A dump of a cluster; repeatable.")
@click.option("--pod", "pod_file", type=_file, metavar="FILE", help="The manifest of the pod to place there.")
@scheduler_options()
@click.option("--table", "as_table", is_flag=True, help="Show tables, for people.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    files: tuple[Path, ...],
    dumps: tuple[Path, ...],
    pod_file: Path | None,
    scheduler_files: SchedulerFiles,
    as_table: bool,
) -> None:
    """Say where a pod would go, and why, without touching a cluster.

    Reads SCENARIOS (files, or standard input): one JSON object per line, with a name (id), nodes, pods that are bound
    already, the pod to place, and if they matter namespaces, budgets (pdbs) and a scheduler configuration (config):

    {"id": "a", "nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}}], "pods":
    [], "pod": {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c"}]}}}

    A scenario with groups of pods (podGroups) and queues is decided as one session of batch scheduling, by the
    configuration in its field conf (a volcano-scheduler.conf). The answer then has a field decision: which pods would
    be bound, evicted and held, and the state of every group.

    Or takes a dump of a cluster (any mix of JSON and YAML, with volumes, services, budgets and so on as far as they
    matter) and the manifest of a pod. Prints one JSON object per decision: the verdict of every node, the weighted
    scores, the best nodes, and the pods that would have to go if no node is free. A scenario that is malformed is
    answered with an error that names the path; the exit code is then 3.
    """
    if bool(dumps) != (pod_file is not None):
        raise click.UsageError("--cluster and --pod belong together")
    if dumps and files:
        raise click.UsageError("give either scenarios or --cluster and --pod")
    if not files and not dumps and sys.stdin.isatty():
        raise click.UsageError("give scenarios, or --cluster and --pod")
    from rota.cli.commands import decision  # noqa: PLC0415 - the scheduler is not needed to refuse an option

    decided = decision.decide(
        files=files, dumps=dumps, pod_file=pod_file, configured=scheduler_files.source().load(), as_table=as_table
    )
    if not decided:
        ctx.exit(UNDECIDED)
