"""`rota batch-controller`: the controllers and webhooks of batch jobs, for any Kubernetes API server."""

from pathlib import Path

import click

from rota.cli import certificates, endpoints, options
from rota.cli.command_types import Command
from rota.kit import errors, logs

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


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
@click.option(
    "--webhooks", type=options.Address(), metavar="[HOST:]PORT", help="Answer admission reviews on this address."
)
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="Certificate of the webhooks (PEM).")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="Key of the certificate (PEM).")
@click.option(
    "--webhook-url", default="", metavar="URL", help="Register the webhooks at the API server under this URL."
)
@click.option("--webhook-ca", type=_FILE, metavar="FILE", help="CA of the webhooks' certificate, for --webhook-url.")
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
    if bool(webhook_url) is not (webhook_ca is not None):
        raise errors.UserError("--webhook-url and --webhook-ca belong together")
    tls = certificates.context(tls_cert, tls_key, client_ca=None)
    if webhooks is not None and tls is None:
        raise errors.UserError("API servers ask webhooks over HTTPS only", "give --tls-cert and --tls-key")
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        assembly.run(
            assembly.run_batch_controller(
                endpoint,
                Settings(
                    lease_namespace=lease_namespace,
                    webhooks=webhooks,
                    tls=tls,
                    registered=(webhook_url, webhook_ca.read_bytes()) if webhook_ca is not None else None,
                    schedulers=schedulers,
                    http=http,
                ),
                ready=click.echo,
            )
        )
    click.echo("The batch controller has stopped.")
