"""`rota forecast`: show the past and the predicted load of a node, or the requests that suit a workload."""

from typing import Any

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command
from rota.kit import errors


@click.command(
    "forecast",
    cls=Command,
    examples=[
        ("rota forecast node worker-1", "plots of cpu and memory: the past hours, and the peak to expect"),
        ("rota forecast node worker-1 --json", "the NodeForecast, for programs"),
        ("rota forecast workload web", "what its containers request, and what they need"),
    ],
)
@click.argument("what", type=click.Choice(["node", "workload"]), metavar="node|workload")
@click.argument("name")
@options.namespace_option
@output.json_option
@endpoints.nearest_options
def command(*, what: str, name: str, namespace: str, as_json: bool, **server: Any) -> None:
    """Show the load of the node NAME, or the requests for the workload NAME.

    A node: maxima of past intervals, the mean, the predicted peak, and a record of how many forecasts were too low. A
    workload: the recommendations of the VerticalPodAutoscaler that names it. Rota's workers and rota forecaster publish
    forecasts; rota forecaster publishes recommendations.
    """
    from rota.cli.commands import node_forecast, workload_forecast  # noqa: PLC0415 - not needed to refuse an option

    if what == "workload":
        workload_forecast.show(name, namespace=namespace, as_json=as_json, **server)
        return
    if namespace:
        raise errors.UserError("nodes have no namespace", "leave --namespace out")
    node_forecast.show(name, as_json=as_json, **server)
