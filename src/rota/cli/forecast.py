"""`rota forecast`: show the past and the predicted load of a node."""

from typing import Any

import click

from rota.cli import endpoints, output
from rota.cli.command_types import Command


@click.command(
    "forecast",
    cls=Command,
    examples=[
        ("rota forecast node worker-1", "plots of cpu and memory: the past hours, and the peak to expect"),
        ("rota forecast node worker-1 --json", "the NodeForecast, for programs"),
    ],
)
@click.argument("what", type=click.Choice(["node"]), metavar="node")
@click.argument("name")
@output.json_option
@endpoints.nearest_options
def command(*, what: str, name: str, as_json: bool, **server: Any) -> None:
    """Plot the load of the node NAME: maxima of past intervals, the mean, and the predicted peak.

    Forecasts are published by rota forecaster. Each has a record: how many were too low, and what they left free.
    """
    from rota.cli.commands import node_forecast  # noqa: PLC0415 - not needed to refuse an option

    node_forecast.show(name, as_json=as_json, **server)
