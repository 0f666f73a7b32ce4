"""`rota federation-agent`: serve a member of a federation from the inside."""

from pathlib import Path

import click

from rota.cli import options
from rota.cli.command_types import Command
from rota.kit import logs


@click.command(
    "federation-agent",
    cls=Command,
    examples=[
        ("rota federation-agent --data ./agent", "with the credentials of rota federation register"),
        ("rota federation-agent --data ./agent --fence-after 30s", "stop exclusive workloads sooner when cut off"),
    ],
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    required=True,
    metavar="FOLDER",
    help="Folder that `rota federation register` has filled.",
)
@options.health_options
@options.duration_option("--renew-every", "10s", "Interval of renewals of the cluster's Lease.")
@options.duration_option(
    "--fence-after", "60s", "Stop exclusive workloads when the Lease has not been renewed for this time."
)
@click.option(
    "--control-plane",
    default="",
    metavar="URL",
    help="Address of the control plane, if it has moved since `rota federation register`.",
)
def command(*, data: Path, control_plane: str, **durations: float) -> None:
    """Apply the federation's resources in this member until interrupted, and report on them.

    The agent connects to the control plane; the member needs no port that is open to it. If the control plane cannot be
    reached for --fence-after, the agent stops exclusive workloads (StatefulSets, and what is annotated
    rota.dev/exclusive), so that they can be started in another cluster. Everything else keeps running. Let a supervisor
    restart the agent: while it does not run, nothing stops exclusive workloads.
    """
    if durations["renew_every_s"] * 2 > durations["fence_after_s"]:
        raise click.UsageError("--fence-after must be at least twice --renew-every")
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.federation.member.agent import Settings  # noqa: PLC0415 - as above

    logs.configure(level="warning")
    settings = Settings(**durations)
    assembly.run(assembly.run_federation_agent(data.absolute(), settings, server=control_plane, ready=click.echo))
    click.echo("The agent has stopped; the member's workloads continue.")
