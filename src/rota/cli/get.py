"""`rota get`: objects of any kind, as a table or whole."""

from typing import Any, Final

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command

FORMS: Final = ("table", "wide", "name", "json", "yaml")


@click.command(
    "get",
    cls=Command,
    examples=[
        ("rota get pods", "the tasks of this namespace, and how they are"),
        ("rota get pods -A -o wide", "all tasks everywhere, and on which nodes they are"),
        ("rota get pod web -o yaml", "everything about one"),
        ("rota get jobs,pods -l team=a --watch", "jobs and pods with a label, kept up to date"),
        ("rota get nodes -o name | xargs -n1 rota describe", "for scripts"),
    ],
)
@click.argument(
    "words", metavar="KIND [NAME]...", nargs=-1, required=True, shell_complete=name_completion.complete_kind_and_names
)
@options.namespace_option
@options.everywhere_option
@options.selector_option
@click.option("--field-selector", "fields", default="", metavar="SELECTOR", help="Only those: status.phase=Running.")
@click.option(
    "-o", "--output", "form", type=click.Choice(FORMS), default="table", show_default=True, help="In which form."
)
@click.option("--show-labels", is_flag=True, help="With a column of labels.")
@click.option("-w", "--watch", is_flag=True, help="Go on, and show what changes.")
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Show objects of a KIND, or of several (pods,nodes), or all that belong to a user (all).

    KIND is any kind of the server, by its name, plural or short name: pod, pods, po. NAME may follow, or be written
    KIND/NAME. Columns are those that the server gives; -o wide has more of them.
    """
    from rota.cli.commands import object_listing  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    object_listing.get(**given)
