"""`rota resolver`: refuse bindings that do not fit, at any Kubernetes API server."""

from pathlib import Path

import click

from rota.cli import certificates, endpoints, options
from rota.cli.command_types import Command
from rota.kit import errors, logs

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "resolver",
    cls=Command,
    examples=[
        (
            "rota resolver --listen 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key"
            " --url https://rota-resolver.kube-system.svc:8443 --ca ca.crt",
            "check every binding in kubectl's cluster, and tell the API server so",
        ),
        (
            "kubectl delete validatingwebhookconfiguration rota-resolver",
            "end that: without this, the API server refuses bindings while no resolver runs",
        ),
    ],
)
@endpoints.server_options
@click.option(
    "--listen", type=options.Address(), required=True, metavar="[HOST:]PORT", help="Answer reviews on this address."
)
@click.option("--tls-cert", type=_FILE, required=True, metavar="FILE", help="Certificate of the resolver (PEM).")
@click.option("--tls-key", type=_FILE, required=True, metavar="FILE", help="Key of the certificate (PEM).")
@click.option("--url", default="", metavar="URL", help="Register the resolver at the API server under this URL.")
@click.option("--ca", "authority", type=_FILE, metavar="FILE", help="CA of the certificate, for --url.")
@click.option(
    "--lease-namespace",
    default="kube-system",
    show_default=True,
    metavar="NAME",
    help="Namespace of the leader election Lease.",
)
@click.option(
    "--settle",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The API server's --request-timeout: so long a resolver that takes over refuses all bindings.",
)
@options.http_option("metrics and health")
def command(
    *,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
    listen: tuple[str, int],
    tls_cert: Path,
    tls_key: Path,
    url: str,
    authority: Path | None,
    lease_namespace: str,
    settle: float,
    http: tuple[str, int] | None,
) -> None:
    """Check every binding of a stock Kubernetes, so that several schedulers do not oversell its nodes.

    A validating webhook on pods/binding. It protects kube-scheduler and all other schedulers. Several may run: one of
    them answers, the others stand by. Rota's own masters check bindings themselves.
    """
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above
    from rota.resolver.service import Settings  # noqa: PLC0415 - as above

    logs.configure()
    if bool(url) is not (authority is not None):
        raise errors.UserError("--url and --ca belong together")
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    settings = Settings(
        address=listen,
        tls=certificates.context(tls_cert, tls_key, client_ca=None),
        registered=(url, authority.read_bytes()) if authority is not None else None,
        lease_namespace=lease_namespace,
        settle_s=settle,
    )
    with session.telling(endpoint):
        assembly.run(assembly.run_resolver(endpoint, settings, http=http, ready=click.echo))
    click.echo("The resolver has stopped.")
