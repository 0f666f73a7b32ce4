"""`rota top`: show resource usage of nodes, pods and leases."""

from typing import Any

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command


@click.command(
    "top",
    cls=Command,
    examples=[
        ("rota top nodes", "CPU and memory usage of nodes"),
        ("rota top pods -A --sort-by memory", "tasks of all namespaces, largest memory usage first"),
        ("rota top pods -l team=a --containers", "per container"),
        ("rota top leases -A", "leased workers of Python clients"),
    ],
)
@click.argument(
    "what", type=click.Choice(["nodes", "node", "no", "pods", "pod", "po", "leases"]), metavar="nodes|pods|leases"
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@options.namespace_option
@options.everywhere_option
@options.selector_option
@click.option("--containers", is_flag=True, help="With pods: show each container.")
@click.option(
    "--sort-by",
    type=click.Choice(["name", "cpu", "memory"]),
    default="name",
    show_default=True,
    help="Sort order; cpu and memory sort the largest first.",
)
@output.json_option
@endpoints.nearest_options
def command(*, what: str, **given: Any) -> None:
    """Show the resource usage of nodes, pods or leased workers, as workers last measured it.

    Usage may be below or above a pod's request; rota describe node shows requests.
    """
    from rota.cli.commands import lease_usage, resource_usage  # noqa: PLC0415 - not needed to refuse an option

    if what == "leases":
        lease_usage.top(**given)
        return
    resource_usage.top(nodes=what.startswith("no"), **given)
