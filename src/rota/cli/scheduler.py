"""`rota scheduler`: the scheduler alone, beside any Kubernetes API server."""

from pathlib import Path

import click

from rota.cli import endpoints, options
from rota.cli.command_types import Command
from rota.cli.scheduler_options import SchedulerFiles, scheduler_options
from rota.kit import logs


@click.command(
    "scheduler",
    cls=Command,
    examples=[
        ("rota scheduler", "schedule the cluster that kubectl talks to; pods of the name default-scheduler"),
        (
            "rota scheduler --scheduler-config mine.yaml",
            "with these profiles and plugins; a change of the file takes effect at once",
        ),
        ("rota scheduler --server http://127.0.0.1:8001 --no-elect", "beside others, without waiting for one's turn"),
        ("rota scheduler --record decisions.rec", "take decisions down, for rota replay"),
    ],
)
@endpoints.server_options
@scheduler_options("Schedule by this KubeSchedulerConfiguration.")
@click.option("--no-elect", is_flag=True, help="Schedule at once, even if another scheduler of this name does.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take every decision down with all it was made from; FILE.1 is the file before, when that was full.",
)
@options.http_option("metrics, health, and to this machine /configz and /debug/{queue,cache,compare},")
@click.option("--trace", is_flag=True, help="Send spans by OpenTelemetry, as its variables say; needs rota[tracing].")
def command(
    *,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
    scheduler_files: SchedulerFiles,
    no_elect: bool,
    record: Path | None,
    http: tuple[str, int] | None,
    trace: bool,
) -> None:
    """Schedule the pods of a cluster and run until interrupted.

    Works beside any Kubernetes API server. Several may run at once: by default one of them schedules and the others
    stand by, knowing the cluster as well as it does.
    """
    from rota import assembly  # noqa: PLC0415 - servers and databases are not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above

    logs.configure()
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        assembly.run(
            assembly.run_scheduler(
                endpoint,
                scheduler_files.source(),
                elect=not no_elect,
                record=record,
                http=http,
                trace=trace,
                ready=click.echo,
            )
        )
    click.echo("The scheduler has stopped.")
