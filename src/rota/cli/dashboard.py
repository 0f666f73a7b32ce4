"""`rota dashboard`: open the dashboard of a cluster in a browser, signed in."""

from typing import Any

import click

from rota.cli import endpoints, output
from rota.cli.command_types import Command


@click.command(
    "dashboard",
    cls=Command,
    examples=[
        ("rota dashboard", "open the dashboard of `rota up`, signed in as the user of its kubeconfig"),
        ("rota dashboard --no-open", "print the address, which signs in once within a minute"),
        ("rota dashboard --kubeconfig ~/.kube/config", "of any cluster: one without a dashboard is served from here"),
        ("rota dashboard --serve", "go on at another master when one fails; the browser needs no certificate"),
    ],
)
@click.option("--no-open", "stays", is_flag=True, help="Print the address only; it signs in once, within a minute.")
@click.option(
    "--serve", "serves", is_flag=True, help="Serve it from here until Ctrl-C, with any master of the cluster behind it."
)
@output.json_option
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Open the dashboard of a cluster in a browser, signed in with the credentials of the kubeconfig.

    Every master of Rota serves one. For a cluster that does not, this command serves it on a loopback port until it is
    interrupted, with the rights of the kubeconfig's user. With --serve it does so for a cluster of Rota, too: its pages
    go on at another master when one fails.
    """
    from rota.cli.commands import dashboard_opening  # noqa: PLC0415 - not needed to refuse an option

    dashboard_opening.open_dashboard(**given)
