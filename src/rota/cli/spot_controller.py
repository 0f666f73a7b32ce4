"""`rota spot-controller`: leaves machines that are taken away, beside any Kubernetes API server."""

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
        ("rota spot-controller --kubeconfig admin.conf", "act on the notices of a cluster"),
        ("rota spot-controller --dry-run", "say what would be done, and change nothing"),
        ("rota spot-controller --marks our-cloud.yaml --http 9464", "with marks of one's own, and metrics"),
        (
            "rota spot-controller --webhook 0.0.0.0:8443 --webhook-token token"
            " --webhook-tls-cert tls.crt --webhook-tls-key tls.key",
            "take notices from outside as well, from those who have the token",
        ),
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
@scheduler_options("The KubeSchedulerConfiguration by which evicted pods will be placed.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, by dry runs of the API, and change nothing.")
@click.option(
    "--lease-namespace",
    default="kube-system",
    show_default=True,
    metavar="NAME",
    help="Where the Lease is by which controllers take turns.",
)
@click.option(
    "--return-after",
    type=options.Duration(nothing="never"),
    default="10m",
    show_default=True,
    help="Send pods back once spot machines were quiet, and they themselves in their place, for so long; 0: never.",
)
@click.option(
    "--webhook",
    type=options.Address(),
    metavar="[HOST:]PORT",
    help="Take notices from outside here; on loopback, if no host is named.",
)
@click.option(
    "--webhook-token",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The secret that senders show, as 'Authorization: Bearer ...'; the file may be exchanged at any time.",
)
@click.option(
    "--webhook-tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take them over HTTPS, with this certificate (PEM).",
)
@click.option(
    "--webhook-tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="And its key.",
)
@click.option(
    "--record-only",
    is_flag=True,
    help="Write notices on nodes, and leave acting on them to another: in clusters of Rota, the leading master.",
)
@click.option("--webhook-insecure", is_flag=True, help="Take them without token or TLS, from whoever reaches it.")
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
    """Leave machines that will be taken away: in time, with budgets kept, and with a place for what comes after.

    On a notice the node gets no new pods and no traffic from outside. A pod goes when there is a place for its
    successor, or at the last moment at which it can still end in peace. Workloads that want spot machines go back to
    them when things are quiet. Several controllers may run at once: one acts. See docs/howto/use-spot-machines.md.
    """
    hook = _hook(webhook, webhook_token, webhook_tls_cert, webhook_tls_key, insecure=webhook_insecure)
    from rota import assembly  # noqa: PLC0415 - servers are not needed to refuse an option
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
    """Where notices are taken and from whom: by default from those who have a token, and over TLS beyond loopback."""
    if address is None:
        if token is not None or certificate is not None or key is not None or insecure:
            raise click.UsageError("the options of a webhook need --webhook")
        return None
    from rota.kit import diagnostics  # noqa: PLC0415 - servers are not needed to refuse an option
    from rota.notices.webhook import Hook, Token  # noqa: PLC0415 - as above

    tls = certificates.context(certificate, key, prefix="webhook-")
    if token is None and not insecure:
        raise errors.UserError(
            "a webhook without a token believes everybody", "give --webhook-token, or say --webhook-insecure"
        )
    if tls is None and not insecure and not diagnostics.is_loopback(address[0]):
        raise errors.UserError(
            f"{address[0]} can be reached from other machines",
            "give --webhook-tls-cert and --webhook-tls-key, or say --webhook-insecure",
        )
    return Hook(address=address, token=Token(token) if token is not None else None, tls=tls)
