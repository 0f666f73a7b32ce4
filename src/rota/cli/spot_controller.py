"""`rota spot-controller`: evacuate nodes with interruption notices, for any Kubernetes API server."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli import certificates, endpoints, options
from rota.cli.command_types import Command
from rota.cli.scheduler_options import SchedulerFiles, scheduler_options
from rota.kit import errors, logs

if TYPE_CHECKING:
    from rota.notices.webhook import Hook


@click.command(
    "spot-controller",
    cls=Command,
    examples=[
        ("rota spot-controller --kubeconfig admin.conf", "act on the notices in a cluster"),
        ("rota spot-controller --dry-run", "log what would be done and change nothing"),
        ("rota spot-controller --marks our-cloud.yaml --http 9464", "with additional node signals, and metrics"),
        (
            "rota spot-controller --webhook 0.0.0.0:8443 --webhook-token token"
            " --webhook-tls-cert tls.crt --webhook-tls-key tls.key",
            "also accept notices by HTTPS, from senders with the token",
        ),
    ],
)
@endpoints.server_options
@click.option(
    "--marks",
    "marks_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Additional labels, taints and conditions that identify spot nodes and their notices.",
)
@scheduler_options("KubeSchedulerConfiguration of the scheduler that places evicted pods.")
@click.option("--dry-run", is_flag=True, help="Log what would be done, use dry-run requests, and change nothing.")
@click.option(
    "--lease-namespace",
    default="kube-system",
    show_default=True,
    metavar="NAME",
    help="Namespace of the leader election Lease.",
)
@click.option(
    "--return-after",
    type=options.Duration(nothing="never"),
    default="10m",
    show_default=True,
    help="Move pods back to spot nodes after this time without interruptions or moves of the pod; 0: never.",
)
@click.option(
    "--webhook",
    type=options.Address(),
    metavar="[HOST:]PORT",
    help="Accept notices by HTTP on this address; the default host is loopback.",
)
@click.option(
    "--webhook-token",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with the bearer token that senders need; reloaded when it changes.",
)
@click.option(
    "--webhook-tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Serve the webhook over HTTPS with this certificate (PEM).",
)
@click.option(
    "--webhook-tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Key of the certificate (PEM).",
)
@click.option(
    "--record-only",
    is_flag=True,
    help="Only write notices on nodes; another controller acts on them (in Rota clusters, the leading master).",
)
@click.option("--webhook-insecure", is_flag=True, help="Accept notices without token or TLS from any sender.")
@options.http_option("metrics and health")
def command(
    *,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
    marks_file: Path | None,
    scheduler_files: SchedulerFiles,
    dry_run: bool,
    lease_namespace: str,
    return_after: float,
    webhook: tuple[str, int] | None,
    webhook_token: Path | None,
    webhook_tls_cert: Path | None,
    webhook_tls_key: Path | None,
    webhook_insecure: bool,
    record_only: bool,
    http: tuple[str, int] | None,
) -> None:
    """Evacuate nodes with interruption notices in time, within disruption budgets, with places for the successors.

    On a notice, the node is tainted NoSchedule and leaves external load balancers. A pod is evicted when a place is
    reserved for its successor, or at the latest moment that leaves it its grace period. Workloads that prefer spot
    nodes move back when there are no interruptions. Several controllers may run: the elected leader acts. See
    docs/howto/use-spot-machines.md.
    """
    hook = _hook(webhook, webhook_token, webhook_tls_cert, webhook_tls_key, insecure=webhook_insecure)
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above
    from rota.spot import node_signals, return_policy  # noqa: PLC0415 - as above

    logs.configure()
    table = node_signals.read(marks_file) if marks_file is not None else node_signals.NodeSignals()
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        assembly.run(
            assembly.run_spot_controller(
                endpoint,
                scheduler_files.source(),
                table,
                dry_run=dry_run,
                lease_namespace=lease_namespace,
                back=return_policy.Settings(stable_s=return_after, cooldown_s=return_after),
                record_only=record_only,
                hook=hook,
                http=http,
                ready=click.echo,
            )
        )
    click.echo("The spot controller has stopped.")


def _hook(
    address: tuple[str, int] | None, token: Path | None, certificate: Path | None, key: Path | None, *, insecure: bool
) -> "Hook | None":
    """The webhook's address, token and TLS; a token is required, and TLS on addresses other than loopback."""
    if address is None:
        if token is not None or certificate is not None or key is not None or insecure:
            raise click.UsageError("the options of a webhook need --webhook")
        return None
    from rota.kit import diagnostics  # noqa: PLC0415 - not needed to refuse an option
    from rota.notices.webhook import Hook, Token  # noqa: PLC0415 - as above

    tls = certificates.context(certificate, key, prefix="webhook-")
    if token is None and not insecure:
        raise errors.UserError(
            "a webhook without a token accepts notices from any sender", "give --webhook-token or --webhook-insecure"
        )
    if tls is None and not insecure and not diagnostics.is_loopback(address[0]):
        raise errors.UserError(
            f"{address[0]} can be reached from other machines",
            "give --webhook-tls-cert and --webhook-tls-key, or --webhook-insecure",
        )
    return Hook(address=address, token=Token(token) if token is not None else None, tls=tls)
