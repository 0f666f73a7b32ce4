"""`rota extender`: serve the spot policy as an extender of the stock kube-scheduler."""

from pathlib import Path

import click

from rota.cli import certificates, endpoints, options
from rota.cli.command_types import Command
from rota.kit import errors, logs

_PORT = 8888


@click.command(
    "extender",
    cls=Command,
    examples=[
        ("rota extender --kubeconfig scheduler.conf", "serve a kube-scheduler on this machine, on 127.0.0.1:8888"),
        (
            "rota extender --listen 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key --client-ca ca.crt",
            "serve schedulers on other machines that have a certificate of this CA",
        ),
        ("rota extender --marks our-cloud.yaml", "recognize spot nodes and notices by further labels and taints"),
    ],
)
@endpoints.server_options
@click.option(
    "--listen", metavar="HOST:PORT", default=f"127.0.0.1:{_PORT}", show_default=True, help="Listen on this address."
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Serve HTTPS with this certificate (PEM).",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Key of the certificate (PEM).",
)
@click.option(
    "--client-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Require client certificates of this CA (PEM).",
)
@click.option("--insecure", is_flag=True, help="Allow serving without TLS on a non-loopback address.")
@click.option(
    "--marks",
    "marks_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Additional labels, taints and conditions that identify spot nodes and their notices.",
)
@options.http_option("metrics and health, without client certificates,")
@click.option("--bind", "binds", is_flag=True, help="Also serve bind requests (bindVerb).")
def command(
    *,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    client_ca: Path | None,
    insecure: bool,
    marks_file: Path | None,
    binds: bool,
    http: tuple[str, int] | None,
) -> None:
    """Filter and score nodes for the stock kube-scheduler by the pod's spot policy.

    Nodes with an interruption notice are filtered out. Annotations of the pods say how much of a workload may run on
    spot nodes. See docs/howto/use-spot-machines.md.
    """
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above
    from rota.kit import diagnostics  # noqa: PLC0415 - as above
    from rota.spot import node_signals  # noqa: PLC0415 - as above

    logs.configure()
    host, port = _address(listen)
    tls = certificates.context(tls_cert, tls_key, client_ca=client_ca)
    if tls is None and not insecure and not diagnostics.is_loopback(host):
        raise errors.UserError(
            f"{host} can be reached from other machines", "give --tls-cert and --tls-key, or --insecure"
        )
    table = node_signals.read(marks_file) if marks_file is not None else node_signals.NodeSignals()
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        assembly.run(
            assembly.run_extender(
                endpoint, table, host=host, port=port, tls=tls, binds=binds, http=http, ready=click.echo
            )
        )
    click.echo("The extender has stopped.")


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise click.UsageError(f"--listen wants HOST:PORT, not {listen!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
