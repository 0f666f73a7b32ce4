"""`rota scheduler`: run the scheduler alone, for any Kubernetes API server."""

from dataclasses import replace
from pathlib import Path

import click

from rota.cli import endpoints, options
from rota.cli.command_types import Command
from rota.cli.scheduler_options import SchedulerFiles, batch_option, scheduler_options
from rota.kit import logs


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
        ("rota scheduler --record decisions.rec", "record decisions for rota replay"),
    ],
)
@endpoints.server_options
@scheduler_options("Schedule by this KubeSchedulerConfiguration.")
@batch_option
@click.option("--no-elect", is_flag=True, help="Schedule without leader election.")
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
    record: Path | None,
    http: tuple[str, int] | None,
    trace: bool,
) -> None:
    """Schedule the pods of a cluster until interrupted.

    Works with any Kubernetes API server. Several schedulers may run: by default the elected leader schedules, and the
    others stand by with a current cache.
    """
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above

    logs.configure()
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        assembly.run(
            assembly.run_scheduler(
                endpoint,
                replace(scheduler_files, batch=batch_config).source(),
                elect=not no_elect,
                record=record,
                http=http,
                trace=trace,
                ready=click.echo,
            )
        )
    click.echo("The scheduler has stopped.")
