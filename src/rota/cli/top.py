"""`rota top`: what nodes and pods use of their resources."""

from typing import Any

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command


@click.command(
    "top",
    cls=Command,
    examples=[
        ("rota top nodes", "how busy the nodes are"),
        ("rota top pods -A --sort-by memory", "which tasks take most, of all namespaces"),
        ("rota top pods -l team=a --containers", "per container"),
    ],
)
@click.argument("what", type=click.Choice(["nodes", "node", "no", "pods", "pod", "po"]), metavar="nodes|pods")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@options.namespace_option
@options.everywhere_option
@options.selector_option
@click.option("--containers", is_flag=True, help="With pods: each container by itself.")
@click.option(
    "--sort-by",
    type=click.Choice(["name", "cpu", "memory"]),
    default="name",
    show_default=True,
    help="By what to sort; amounts with the largest first.",
)
@output.json_option
@endpoints.nearest_options
def command(*, what: str, **given: Any) -> None:
    """Show what nodes or pods use, as their workers last measured it.

    What a pod uses may be less or more than what it asked for; rota describe node tells what pods request.
    """
    from rota.cli.commands import resource_usage  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    resource_usage.top(nodes=what.startswith("no"), **given)
