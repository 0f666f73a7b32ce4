"""`rota spot`: spot machines and their notices."""

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
    help="More labels, taints and conditions by which spot machines and their end are known.",
)


@click.group(
    "spot",
    cls=CommandGroup,
    examples=[
        ("rota spot list", "which nodes are spot machines, and which of them go"),
        ("rota spot notice worker-1 --in 120s", "as if its machine were taken away in two minutes"),
        ("rota spot notice worker-1 --withdraw", "as if it were not after all"),
        ("rota spot agent --node worker-1", "on a cloud's machine: mark its node when it will be taken away"),
    ],
)
def command() -> None:
    """See spot machines and their notices, and try out what happens on one.

    The cluster is the one that `rota up` runs on this machine, or that of $KUBECONFIG, or of the options.
    """


@command.command("list", cls=Command, examples=[("rota spot list", "all nodes, as their marks tell")])
@_marks_option
@output.json_option
@endpoints.own_options
def list_(**given: Any) -> None:
    """List nodes: how each was bought, whether it goes and when, the places held there, its price, what it saves."""
    from rota.cli.commands import spot_nodes as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    acts.list_(**given)


@command.command(
    "notice",
    cls=Command,
    examples=[
        ("rota spot notice worker-1 --in 120s", "it goes in two minutes; a spot controller acts as on any notice"),
        ("rota spot notice worker-1 --withdraw", "it stays after all"),
    ],
)
@click.argument("node", metavar="NODE", shell_complete=name_completion.complete_names("nodes"))
@click.option(
    "--in",
    "lead",
    type=options.Duration(nothing="at once"),
    default="120s",
    show_default=True,
    help="When the machine would go; 0: at once.",
)
@click.option("--withdraw", is_flag=True, help="Take a simulated notice back.")
@options.dry_run_option
@endpoints.own_options
def notice(**given: Any) -> None:
    """Mark a node as a cloud would that takes its machine away. The machine itself is left alone."""
    from rota.cli.commands import spot_nodes as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    acts.notice(**given)


@command.command(
    "agent",
    cls=Command,
    examples=[
        ("rota spot agent --node worker-1", "find out which cloud this is, and ask it every 5 seconds"),
        (
            "rota spot agent --provider gcp --node worker-1 --http 9465",
            "on Google's machines; with metrics and health",
        ),
    ],
)
@click.option(
    "--node",
    required=True,
    envvar="NODE_NAME",
    show_envvar=True,
    metavar="NAME",
    help="The node that this machine is.",
)
@click.option(
    "--provider",
    type=click.Choice(["auto", "aws", "gcp", "azure"]),
    default="auto",
    show_default=True,
    help="Whose machine it is; by default as its node says, or else as its metadata endpoint answers.",
)
@click.option("--metadata", "metadata_url", default="", metavar="URL", help="Where the cloud's metadata endpoint is.")
@click.option(
    "--every",
    "every_s",
    type=options.Duration(),
    default="5s",
    show_default=True,
    help="How often to ask; Google's answers at once when something changes.",
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
    """Ask the cloud whether this machine will be taken away, and mark its node when it will. Runs on the machine.

    A recommendation to leave makes the node one that pods avoid; a notice makes a spot controller leave it. It reads
    and changes its own node, and nothing else. See docs/howto/hear-notices.md.
    """
    from rota import assembly  # noqa: PLC0415 - what asks a server is not needed to refuse an option
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
