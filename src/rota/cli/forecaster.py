"""`rota forecaster`: publishes forecasts of nodes and recommendations of requests, for any Kubernetes API server."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from rota.cli import endpoints, options, webhook_options
from rota.cli.command_types import Command
from rota.kit import errors, logs

_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@click.command(
    "forecaster",
    cls=Command,
    examples=[
        ("rota forecaster", "for the cluster of this machine"),
        ("rota forecaster --kubeconfig admin.conf --every 30", "for any cluster with metrics.k8s.io, twice a minute"),
        ("rota forecaster --prometheus http://prometheus.monitoring.svc:9090", "with the measurements of a Prometheus"),
        (
            "rota forecaster --webhooks 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key"
            " --webhook-url https://rota-forecaster.kube-system.svc:8443 --webhook-ca ca.crt",
            "also apply the recommendations of VerticalPodAutoscalers with a mode other than Off",
        ),
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
@click.option(
    "--prometheus",
    "prometheus_url",
    default="",
    metavar="URL",
    help="Read measurements from this Prometheus (metrics of cAdvisor) instead of metrics.k8s.io.",
)
@click.option(
    "--prometheus-node-label",
    default="node",
    show_default=True,
    metavar="NAME",
    help="Label of its samples that names the node.",
)
@click.option(
    "--prometheus-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Bearer token for it; read again for each request.",
)
@webhook_options.webhook_options
@options.http_option("metrics and health")
def command(
    *,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
    every_s: float,
    lease_namespace: str,
    prometheus_url: str,
    prometheus_node_label: str,
    prometheus_token_file: Path | None,
    webhooks: tuple[str, int] | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    webhook_url: str,
    webhook_ca: Path | None,
    http: tuple[str, int] | None,
) -> None:
    """Read the usage of nodes from metrics.k8s.io or Prometheus, and publish peaks to expect as NodeForecast objects.

    Plugins such as LoadAware and ContentionObjective read them. VerticalPodAutoscalers get recommendations of requests,
    ClusterStates the figures of the cluster. With --webhooks, new pods get the recommended requests, and running pods
    are updated by the mode of their autoscaler. It defines these kinds on servers that lack them. rota forecast shows
    forecasts and recommendations.
    """
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above
    from rota.forecaster.forecaster import PrometheusSettings, Settings, WebhookSettings  # noqa: PLC0415 - as above

    logs.configure()
    answering = webhook_options.chosen(
        webhooks=webhooks, tls_cert=tls_cert, tls_key=tls_key, webhook_url=webhook_url, webhook_ca=webhook_ca
    )
    webhook = None
    if answering.address is not None:
        webhook = WebhookSettings(address=answering.address, tls=answering.tls, registered=answering.registered)
    elif webhook_url:
        raise errors.UserError("--webhook-url registers this process, which answers nowhere", "give --webhooks")
    prometheus = None
    if prometheus_url:
        if urlsplit(prometheus_url).scheme not in {"http", "https"}:
            remedy = "write it like http://prometheus.monitoring.svc:9090"
            raise errors.UserError(f"{prometheus_url} is no address of a Prometheus", remedy)
        if not _LABEL.fullmatch(prometheus_node_label):
            raise errors.UserError(f"{prometheus_node_label!r} is no name of a label", "write it like node or instance")
        prometheus = PrometheusSettings(
            url=prometheus_url, node_label=prometheus_node_label, token_file=prometheus_token_file
        )
    settings = Settings(every_s=every_s, lease_namespace=lease_namespace, webhook=webhook, prometheus=prometheus)
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        assembly.run(assembly.run_forecaster(endpoint, settings, http=http, ready=click.echo))
    click.echo("The forecaster has stopped.")
