"""`rota batch-controller`: the controllers and webhooks of batch jobs, for any Kubernetes API server."""

from pathlib import Path

import click

from rota.cli import endpoints, options, webhook_options
from rota.cli.command_types import Command
from rota.kit import logs


@click.command(
    "batch-controller",
    cls=Command,
    examples=[
        ("rota batch-controller --kubeconfig admin.conf", "run the batch jobs of a cluster"),
        (
            "rota batch-controller --webhooks 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key"
            " --webhook-url https://rota-batch.kube-system.svc:8443 --webhook-ca ca.crt",
            "also default and validate batch objects, and tell the API server so",
        ),
    ],
)
@endpoints.server_options
@webhook_options.webhook_options
@click.option(
    "--scheduler-name",
    "schedulers",
    multiple=True,
    default=("volcano",),
    show_default=True,
    metavar="NAME",
    help="Name of a batch scheduler; repeatable.",
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
    webhooks: tuple[str, int] | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    webhook_url: str,
    webhook_ca: Path | None,
    schedulers: tuple[str, ...],
    lease_namespace: str,
    http: tuple[str, int] | None,
) -> None:
    """Run batch jobs, queues and flows beside any Kubernetes API server.

    It installs the kinds that the server lacks. Run a batch scheduler beside it, such as rota scheduler --batch-config.
    Rota's own masters do all of this themselves.
    """
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above
    from rota.controllers.batch.beside import Settings  # noqa: PLC0415 - as above

    logs.configure()
    answering = webhook_options.chosen(
        webhooks=webhooks, tls_cert=tls_cert, tls_key=tls_key, webhook_url=webhook_url, webhook_ca=webhook_ca
    )
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        assembly.run(
            assembly.run_batch_controller(
                endpoint,
                Settings(
                    lease_namespace=lease_namespace,
                    webhooks=answering.address,
                    tls=answering.tls,
                    registered=answering.registered,
                    schedulers=schedulers,
                    http=http,
                ),
                ready=click.echo,
            )
        )
    click.echo("The batch controller has stopped.")
