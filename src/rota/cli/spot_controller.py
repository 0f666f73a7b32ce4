"""`rota spot-controller`: leaves machines that are taken away, beside any Kubernetes API server."""

from pathlib import Path

import click

from rota.cli import endpoints, options
from rota.cli.commands import Command
from rota.kit import errors, logs


@click.command(
    "spot-controller",
    cls=Command,
    examples=[
        ("rota spot-controller --kubeconfig admin.conf", "act on the notices of a cluster"),
        ("rota spot-controller --dry-run", "say what would be done, and change nothing"),
        ("rota spot-controller --marks our-cloud.yaml --http 9464", "with marks of one's own, and metrics"),
    ],
)
@endpoints.server_options
@click.option(
    "--marks",
    "marks_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="More labels, taints and conditions by which spot machines and their end are known.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The KubeSchedulerConfiguration by which pods will be placed again.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, by dry runs of the API, and change nothing.")
@click.option(
    "--lease-namespace",
    default="kube-system",
    show_default=True,
    metavar="NAME",
    help="Where the Lease is by which controllers take turns.",
)
@options.http_option("metrics and health")
def command(
    *,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
    marks_file: Path | None,
    config_file: Path | None,
    dry_run: bool,
    lease_namespace: str,
    http: tuple[str, int] | None,
) -> None:
    """Leave machines that will be taken away: in time, with budgets kept, and with a place for what comes after.

    On a notice the node gets no new pods and no traffic from outside. A pod goes when there is a place for its
    successor, or at the last moment at which it can still end in peace. Several controllers may run at once: one acts.
    See docs/howto/use-spot-machines.md.
    """
    from rota import assembly  # noqa: PLC0415 - servers are not needed to refuse an option
    from rota.scheduler import builtin, loading  # noqa: PLC0415 - as above
    from rota.scheduler.config.faults import ConfigurationError  # noqa: PLC0415 - as above
    from rota.spot import marks  # noqa: PLC0415 - as above

    logs.configure()
    table = marks.read(marks_file) if marks_file is not None else marks.Marks()
    try:
        if config_file is None:
            loaded = loading.default(builtin.registry())
        else:
            loaded = loading.load(config_file.read_bytes(), builtin.registry())
    except ConfigurationError as error:
        raise errors.UserError(f"{config_file}: {error}") from error
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    assembly.run(
        assembly.run_spot_controller(
            endpoint,
            loaded,
            table,
            dry_run=dry_run,
            lease_namespace=lease_namespace,
            http=http,
            ready=click.echo,
        )
    )
    click.echo("The spot controller has stopped.")
