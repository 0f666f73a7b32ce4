"""`rota doctor`: look for what is wrong with a cluster."""

from typing import Any

import click

from rota.cli import endpoints, output
from rota.cli.command_types import Command


@click.command(
    "doctor",
    cls=Command,
    examples=[
        ("rota doctor", "what is wrong, and what to do"),
        ("rota doctor --json | jq '.findings[] | select(.severity == \"error\")'", "for a script"),
        ("rota doctor --kubeconfig admin.conf", "any Kubernetes cluster"),
    ],
)
@output.json_option
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Look for what is wrong with a cluster, and say what to do about it.

    It checks masters, leaders, certificates, clocks, versions, nodes, waiting and failing pods, objects whose deletion
    is stuck, webhooks and aggregated APIs without a server, and the store's history. It only reads. The exit code is 1
    if something is an error, and 0 if there are warnings at most.
    """
    from rota.cli.commands import diagnosis  # noqa: PLC0415 - not needed to refuse an option

    diagnosis.examine(**given)
