"""`rota forecast`: reads a NodeForecast and plots it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from rota.api import amounts, resources
from rota.api import errors as api_errors
from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.cli.commands.cordon import NODES
from rota.client.verbs import Client, Object
from rota.kit import errors

_FORECASTS: Final = ("rota.dev", "v1alpha1", "nodeforecasts")
_HEIGHT: Final = 8
_WIDTH: Final = 60
#: Columns of the forecast beside the past.
_AHEAD: Final = 10
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"


def show(name: str, *, as_json: bool, **server: Any) -> None:
    """Print the forecast of a node."""
    endpoint = endpoints.nearest(**server)

    async def work(client: Client) -> tuple[Object, Object]:
        node = await client.get(NODES, name)
        try:
            return node, await client.get(_FORECASTS, name)
        except api_errors.NotFound as error:
            raise errors.UserError(f"node {name} has no forecast", "run rota forecaster beside the cluster") from error

    node, found = session.at(endpoint, work)
    if as_json:
        output.document(found)
        return
    status = found.get("status") or {}
    click.echo(f"{name}, measured at {status.get('observedTime', 'no time yet')}")
    offered = resources.node_allocatable(node)
    for figures in status.get("resources") or ():
        click.echo()
        for line in lines(figures, offered.get(figures["resource"], 0), status):
            click.echo(line)


def lines(figures: Mapping[str, Any], capacity: int, status: Mapping[str, Any]) -> Iterator[str]:
    """The plot of one resource, and its figures."""
    name = figures["resource"]
    value = {
        key: resources.amount(name, figures.get(key) or "0")
        for key in ("used", "mean", "peak", "deviation", "requested")
    }
    minutes = status.get("horizonSeconds", 0) / 60
    yield (
        f"{name}: {_human(name, value['used'])} used, {_human(name, value['peak'])} expected within {minutes:g} min,"
        f" {_human(name, value['requested'])} requested of {_human(name, capacity)} ({figures.get('basis')})"
    )
    past = [resources.amount(name, each) if each else 0 for each in figures.get("history") or ()][-_WIDTH:]
    yield from plot(past, mean=value["mean"], peak=value["peak"], top=max(capacity, value["peak"], *past, 1), name=name)
    record = figures.get("record") or {}
    if record.get("forecasts"):
        yield (
            f"{record['forecasts']} forecasts: {record['violations']} too low"
            f" (by {100 * record['severity']:.0f} % of the peak), {100 * record['savings']:.0f} % left free"
        )


def plot(past: Sequence[int], *, mean: int, peak: int, top: int, name: str) -> Iterator[str]:
    """Bars of the past, then the band of the forecast: ▓ up to the mean, ░ up to the peak."""
    for row in range(_HEIGHT, 0, -1):
        label = _human(name, round(top * row / _HEIGHT)) if row in (_HEIGHT, _HEIGHT // 2) else ""
        bars = "".join(_EIGHTHS[_eighths(value, top, row)] for value in past)
        ahead = "▓" if _eighths(mean, top, row) >= 4 else "░" if _eighths(peak, top, row) >= 1 else " "
        yield f"{label:>9} ┤{bars}│{ahead * _AHEAD}".rstrip()


def _eighths(value: int, top: int, row: int) -> int:
    """How much of a row of the plot a bar fills."""
    return max(0, min(8, math.ceil(value * _HEIGHT * 8 / top) - (row - 1) * 8))


def _human(name: str, amount: int) -> str:
    return amounts.human(name, amount)
