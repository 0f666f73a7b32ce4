"""`rota scheduler`: the scheduler alone, beside any Kubernetes API server."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli import endpoints, options
from rota.cli.commands import Command
from rota.kit import errors, logs

if TYPE_CHECKING:
    from rota.scheduler.loading import Loaded


@click.command(
    "scheduler",
    cls=Command,
    examples=[
        ("rota scheduler", "schedule the cluster that kubectl talks to; pods of the name default-scheduler"),
        (
            "rota scheduler --config mine.yaml",
            "with these profiles and plugins; SIGHUP reads the file again",
        ),
        ("rota scheduler --server http://127.0.0.1:8001 --no-elect", "beside others, without waiting for one's turn"),
        ("rota scheduler --record decisions.rec", "take decisions down, for rota replay"),
    ],
)
@endpoints.server_options
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A KubeSchedulerConfiguration.",
)
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
    config_file: Path | None,
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
    from rota.cli.acts import asking  # noqa: PLC0415 - as above

    logs.configure()
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    read = _reader(config_file)
    with asking.telling(endpoint):
        assembly.run(
            assembly.run_scheduler(
                endpoint,
                read(),
                reread=read,
                elect=not no_elect,
                record=record,
                http=http,
                trace=trace,
                ready=click.echo,
            )
        )
    click.echo("The scheduler has stopped.")


def _reader(config_file: Path | None) -> Callable[[], "Loaded"]:
    """Give what reads the configuration; the plugins beside the file are found, as those on Python's path are."""
    from rota.scheduler import builtin, loading  # noqa: PLC0415 - as above
    from rota.scheduler.config.faults import ConfigurationError  # noqa: PLC0415

    if config_file is not None and (folder := str(config_file.absolute().parent)) not in sys.path:
        sys.path.insert(0, folder)

    def read() -> "Loaded":
        try:
            if config_file is None:
                return loading.default(builtin.registry())
            return loading.load(config_file.read_bytes(), builtin.registry())
        except ConfigurationError as error:
            raise errors.UserError(f"{config_file}: {error}") from error
        except OSError as error:
            raise errors.UserError(f"cannot read {config_file}: {error.strerror}") from error

    return read
