"""`rota get`: list objects of any kind, as a table or in full."""

from typing import Any, Final

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command

FORMS: Final = ("table", "wide", "name", "json", "yaml")


@click.command(
    "get",
    cls=Command,
    examples=[
        ("rota get pods", "the tasks of the namespace with their status"),
        ("rota get pods -A -o wide", "the tasks of all namespaces with their nodes"),
        ("rota get pod web -o yaml", "one object in full"),
        ("rota get jobs,pods -l team=a --watch", "jobs and pods with a label, updated as they change"),
        ("rota get nodes -o name | xargs -n1 rota describe", "names for a script"),
    ],
)
@click.argument(
    "words", metavar="KIND [NAME]...", nargs=-1, required=True, shell_complete=name_completion.complete_kind_and_names
)
@options.namespace_option
@options.everywhere_option
@options.selector_option
@click.option(
    "--field-selector",
    "fields",
    default="",
    metavar="SELECTOR",
    help="Only objects with these fields: status.phase=Running.",
)
@click.option(
    "-o", "--output", "form", type=click.Choice(FORMS), default="table", show_default=True, help="Output format."
)
@click.option("--show-labels", is_flag=True, help="Add a column with the labels.")
@click.option("-w", "--watch", is_flag=True, help="Keep watching, and show changes.")
@endpoints.nearest_options
def command(**given: Any) -> None:
    """List objects of a KIND, of several kinds (pods,nodes), or of the usual workload kinds (all).

    KIND is any kind of the server by its name, plural or short name: pod, pods, po. KIND/NAME selects one object. The
    server defines the columns; -o wide shows more.
    """
    from rota.cli.commands import object_listing  # noqa: PLC0415 - not needed to refuse an option

    object_listing.get(**given)
