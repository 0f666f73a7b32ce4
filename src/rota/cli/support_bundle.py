"""`rota support-bundle`: collect what others need to understand a problem, without secrets."""

from pathlib import Path
from typing import Any

import click

from rota.cli import endpoints, output
from rota.cli.command_types import Command


@click.command(
    "support-bundle",
    cls=Command,
    examples=[
        ("rota support-bundle problem.tar.gz", "the cluster of `rota up`, or of kubectl"),
        ("rota support-bundle problem.tar.gz --namespace team-a", "pods and events of one namespace only"),
    ],
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--namespace", "-n", default="", metavar="NAME", help="Only objects of this namespace, and nodes.")
@output.json_option
@endpoints.nearest_options
def command(*, file: Path, **given: Any) -> None:
    """Write the state of a cluster to FILE, to send to others.

    It holds the findings of `rota doctor`, versions, nodes, pods, workloads, queues, Leases, events and metrics.
    Secrets and ConfigMaps are left out, and so are values of environment variables, commands, arguments and annotations
    that repeat manifests. Names, labels and log-like messages stay: read them before you send the file.
    """
    from rota.cli.commands import bundle  # noqa: PLC0415 - not needed to refuse an option

    bundle.write(file, **given)
