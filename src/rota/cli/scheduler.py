"""`rota scheduler`: run the scheduler alone, for any Kubernetes API server."""

import secrets
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli import endpoints, options
from rota.cli.command_types import Command
from rota.cli.scheduler_options import SchedulerFiles, batch_option, scheduler_options
from rota.kit import logs

if TYPE_CHECKING:
    from rota.scheduler.sharding.instance_objects import InstanceSettings


@click.command(
    "scheduler",
    cls=Command,
    examples=[
        ("rota scheduler", "schedule pods with schedulerName default-scheduler in kubectl's cluster"),
        (
            "rota scheduler --scheduler-config mine.yaml",
            "with these profiles and plugins; the file is reloaded when it changes",
        ),
        (
            "rota scheduler --batch-config volcano-scheduler.conf",
            "also schedule groups of pods (PodGroup), as Volcano does",
        ),
        ("rota scheduler --server http://127.0.0.1:8001 --no-elect", "without leader election"),
        (
            "rota scheduler --shard-of default",
            "one of several schedulers that share the pods; start it as often as you like",
        ),
        ("rota scheduler --record decisions.rec", "record decisions for rota replay"),
    ],
)
@endpoints.server_options
@scheduler_options("Schedule by this KubeSchedulerConfiguration.")
@batch_option
@click.option("--no-elect", is_flag=True, help="Schedule without leader election.")
@click.option(
    "--shard-of",
    metavar="NAME",
    help="Share the pods with all schedulers of this ShardMap, instead of leader election.",
)
@click.option(
    "--instance",
    metavar="NAME",
    help="Name of this scheduler in the ShardMap; of two processes with one name, the second stands by.",
    show_default="the host's name with a random part",
)
@click.option(
    "--pods",
    "selector",
    metavar="SELECTOR",
    help="With --shard-of: label selector of pods that only schedulers with this selector decide.",
)
@click.option(
    "--weight",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="With --shard-of: share of the pods, relative to the other schedulers.",
)
@click.option(
    "--conflicts",
    "criterion",
    type=click.Choice(["fine", "coarse"]),
    help="With --shard-of: refuse a binding if the pod does not fit (fine), or if another pod was bound to the node "
    "since the decision (coarse).",
    show_default="conflictCriterion of the ShardMap",
)
@click.option(
    "--synchronise",
    "synchronisation",
    type=click.Choice(["full", "round-robin", "freshest-first"]),
    help="With --shard-of: learn what others bind at once, or of another part of the nodes every 0.25 s.",
    show_default="synchronisation of the ShardMap",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Record every decision with its inputs; a full file is renamed to FILE.1.",
)
@options.http_option("metrics, health, and on loopback /configz and /debug/{queue,cache,compare},")
@click.option(
    "--trace", is_flag=True, help="Export OpenTelemetry spans, configured by OTEL_* variables; needs rota[tracing]."
)
def command(
    *,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
    scheduler_files: SchedulerFiles,
    batch_config: Path | None,
    no_elect: bool,
    shard_of: str | None,
    instance: str | None,
    selector: str | None,
    weight: int,
    criterion: str | None,
    synchronisation: str | None,
    record: Path | None,
    http: tuple[str, int] | None,
    trace: bool,
) -> None:
    """Schedule the pods of a cluster until interrupted.

    Works with any Kubernetes API server. Several schedulers may run: by default the elected leader schedules, and the
    others stand by with a current cache. With --shard-of all of them schedule, each its share of the pods.
    """
    if shard_of is None and (instance or selector or criterion or synchronisation):
        raise click.UsageError("--instance, --pods, --conflicts and --synchronise need --shard-of NAME")
    if shard_of is not None and no_elect:
        raise click.UsageError("--shard-of and --no-elect exclude each other")
    from rota import component_process, scheduler_assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above

    logs.configure()
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        component_process.run(
            scheduler_assembly.run(
                endpoint,
                replace(scheduler_files, batch=batch_config).source(),
                elect=not no_elect,
                shard=None
                if shard_of is None
                else _shard(shard_of, instance, selector, weight, criterion, synchronisation),
                record=record,
                http=http,
                trace=trace,
                ready=click.echo,
            )
        )
    click.echo("The scheduler has stopped.")


def _shard(
    shard_of: str,
    instance: str | None,
    selector: str | None,
    weight: int,
    criterion: str | None,
    synchronisation: str | None,
) -> "InstanceSettings":
    from rota.api import selectors  # noqa: PLC0415 - not needed for help
    from rota.scheduler.sharding.instance_objects import InstanceSettings  # noqa: PLC0415
    from rota.scheduler.sharding.node_knowledge import Criterion, Synchronisation  # noqa: PLC0415
    from rota.scheduler.sharding.shard_member import instance_name  # noqa: PLC0415

    host = socket.gethostname()
    try:
        parsed = None if selector is None else selectors.parse(selector)
    except selectors.SelectorError as problem:
        raise click.BadParameter(f"{problem}; write a selector such as team=blue,tier!=cache") from None
    return InstanceSettings(
        name=instance or f"{instance_name(host)}-{secrets.token_hex(3)}",
        shard_of=shard_of,
        weight=weight,
        selector=None if parsed is None else selectors.to_object(parsed),
        host=host,
        criterion=None if criterion is None else Criterion(criterion.title()),
        synchronisation=(
            None if synchronisation is None else Synchronisation(synchronisation.title().replace("-", ""))
        ),
    )
