"""`rota up`: everything that there is, on this machine."""

from pathlib import Path

import click

from rota import assembly
from rota.cli import options
from rota.cli.commands import Command
from rota.kit import logs


@click.command(
    "up",
    cls=Command,
    examples=[
        ("rota up", "start; Ctrl-C stops it, the data stays"),
        ("rota up --data ./cluster", "keep the data in a folder of your choice"),
        ("rota up --http 8001", "serve the Kubernetes API to kubectl -s http://127.0.0.1:8001"),
    ],
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=options.data_folder,
    show_default="$ROTA_HOME, or the platform's data folder",
    help="Where the cluster's data lies; made if missing.",
)
@click.option(
    "--store",
    "store_url",
    metavar="URL",
    envvar="ROTA_STORE",
    show_envvar=True,
    help="Use this store instead of a file in the data folder.",
)
@click.option(
    "--http",
    "http_port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve the Kubernetes API on this loopback port, without TLS: any user of this machine may do everything.",
)
@click.option(
    "--conflict-check",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Whether a binding must fit what is bound to the node now; off behaves as a stock API server.",
)
def command(*, data: Path, store_url: str | None, http_port: int | None, conflict_check: str) -> None:
    """Start Rota on this machine and run until interrupted."""
    logs.configure()
    if not store_url:
        store_url = options.sqlite_url(options.made_folder(data).absolute() / "rota.db")
    assembly.run(
        assembly.run_local(store_url, http_port=http_port, conflict_check=conflict_check == "on", ready=_say_ready)
    )
    click.echo("Rota has stopped.")


def _say_ready(facts: dict[str, str]) -> None:
    for name, fact in facts.items():
        click.echo(f"{name:>9}  {fact}")
    fate = "goes with it" if facts["store"].startswith("memory:") else "stays"
    click.echo(f"Rota is up. Ctrl-C stops it; the data {fate}.")
    if "api" in facts:
        click.echo(f"Try: kubectl -s {facts['api']} get namespaces")
    else:
        click.echo("No API is served; start with --http 8001 to use kubectl.")
