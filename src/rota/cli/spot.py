"""`rota spot`: spot nodes and their interruption notices."""

from pathlib import Path
from typing import Any

import click

from rota.cli import endpoints, name_completion, options, output
from rota.cli.command_types import Command, CommandGroup
from rota.kit import logs

_marks_option = click.option(
    "--marks",
    "marks_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Additional labels, taints and conditions that identify spot nodes and their notices.",
)


@click.group(
    "spot",
    cls=CommandGroup,
    examples=[
        ("rota spot list", "list nodes with their spot status and notices"),
        ("rota spot notice worker-1 --in 120s", "simulate a notice of two minutes"),
        ("rota spot notice worker-1 --withdraw", "withdraw the simulated notice"),
        ("rota spot agent --node worker-1", "on a cloud machine: write the provider's notices on its node"),
    ],
)
def command() -> None:
    """List spot nodes and their notices, and simulate notices.

    The default cluster is that of $KUBECONFIG, or of `rota up` on this machine.
    """


@command.command("list", cls=Command, examples=[("rota spot list", "all nodes")])
@_marks_option
@output.json_option
@endpoints.own_options
def list_(**given: Any) -> None:
    """List nodes with capacity type, notice, deadline, reserved places, price and saving."""
    from rota.cli.commands import spot_nodes as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.list_(**given)


@command.command(
    "notice",
    cls=Command,
    examples=[
        ("rota spot notice worker-1 --in 120s", "a notice of two minutes; the spot controller acts on it"),
        ("rota spot notice worker-1 --withdraw", "withdraw it"),
    ],
)
@click.argument("node", metavar="NODE", shell_complete=name_completion.complete_names("nodes"))
@click.option(
    "--in",
    "lead",
    type=options.Duration(nothing="at once"),
    default="120s",
    show_default=True,
    help="Time until the machine ends; 0: at once.",
)
@click.option("--withdraw", is_flag=True, help="Withdraw a simulated notice.")
@options.dry_run_option
@endpoints.own_options
def notice(**given: Any) -> None:
    """Write a simulated interruption notice on a node. The machine itself is not affected."""
    from rota.cli.commands import spot_nodes as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.notice(**given)


@command.command(
    "agent",
    cls=Command,
    examples=[
        ("rota spot agent --node worker-1", "detect the provider, and poll it every 5 seconds"),
        (
            "rota spot agent --provider gcp --node worker-1 --http 9465",
            "on Google Cloud; with metrics and health",
        ),
    ],
)
@click.option(
    "--node",
    required=True,
    envvar="NODE_NAME",
    show_envvar=True,
    metavar="NAME",
    help="The node of this machine.",
)
@click.option(
    "--provider",
    type=click.Choice(["auto", "aws", "gcp", "azure"]),
    default="auto",
    show_default=True,
    help="The provider; auto uses the node's providerID, or else probes the metadata endpoints.",
)
@click.option("--metadata", "metadata_url", default="", metavar="URL", help="URL of the provider's metadata endpoint.")
@click.option(
    "--every",
    "every_s",
    type=options.Duration(),
    default="5s",
    show_default=True,
    help="Polling interval; Google's endpoint answers at once when something changes.",
)
@options.http_option("metrics and health")
@endpoints.server_options
def agent(
    *,
    node: str,
    provider: str,
    metadata_url: str,
    every_s: float,
    http: tuple[str, int] | None,
    kubeconfig_file: Path | None,
    context: str,
    server: str | None,
) -> None:
    """Poll the provider's metadata for interruption notices, and write them on this machine's node.

    A rebalance recommendation adds a taint that pods avoid; a notice makes the spot controller evacuate the node. The
    agent reads and changes its own node only. See docs/howto/hear-notices.md.
    """
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import session  # noqa: PLC0415 - as above

    logs.configure()
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    with session.telling(endpoint):
        assembly.run(
            assembly.run_spot_agent(
                endpoint,
                node=node,
                provider="" if provider == "auto" else provider,
                metadata_url=metadata_url,
                every_s=every_s,
                http=http,
                ready=click.echo,
            )
        )
    click.echo("The spot agent has stopped.")
