"""`rota forecaster`: publishes forecasts of nodes and recommendations of requests, for any Kubernetes API server."""

from pathlib import Path

import click

from rota.cli import endpoints, options
from rota.cli.command_types import Command
from rota.kit import logs


@click.command(
    "forecaster",
    cls=Command,
    examples=[
        ("rota forecaster", "for the cluster of this machine"),
        ("rota forecaster --kubeconfig admin.conf --every 30", "for any cluster with metrics.k8s.io, twice a minute"),
    ],
)
@endpoints.server_options
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=1.0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Measure this often.",
)
@click.option(
    "--lease-namespace",
    default="kube-system",
    show_default=True,
    metavar="NAME",
    help="Namespace of the leader election Lease.",
)
@options.http_option("metrics and health")
def command(
    *,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
    every_s: float,
    lease_namespace: str,
    http: tuple[str, int] | None,
) -> None:
    """Read the usage of nodes from metrics.k8s.io, and publish the peaks to expect as NodeForecast objects.

    Plugins such as LoadAware and ContentionObjective read them. VerticalPodAutoscalers get recommendations of requests,
    ClusterStates the figures of the cluster. It defines these kinds on servers that lack them. rota forecast shows
    forecasts and recommendations.
    """
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above
    from rota.forecaster.forecaster import Settings  # noqa: PLC0415 - as above

    logs.configure()
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        assembly.run(
            assembly.run_forecaster(
                endpoint, Settings(every_s=every_s, lease_namespace=lease_namespace), http=http, ready=click.echo
            )
        )
    click.echo("The forecaster has stopped.")
