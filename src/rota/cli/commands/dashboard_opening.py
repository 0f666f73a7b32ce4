"""Gets a one-time ticket from a master and opens its dashboard with it; serves one for a cluster that has none."""

import ipaddress
import os
import shutil
import webbrowser
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from rota.api import errors
from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.client.endpoints import Endpoint
from rota.client.verbs import Client
from rota.kit import logs

_TICKETS = "/dashboard/tickets"


class _Ticket(msgspec.Struct, frozen=True):
    ticket: str
    loopback: str = ""


def open_dashboard(*, stays: bool, serves: bool, as_json: bool, **given: Any) -> None:
    """Open the dashboard of the chosen cluster, or print where it is."""
    endpoint = endpoints.nearest(**given)

    async def ticket(client: Client) -> _Ticket | None:
        try:
            return msgspec.json.decode(await client.request("POST", _TICKETS), type=_Ticket)
        except (errors.NotFound, errors.MethodNotAllowed, errors.Forbidden, msgspec.DecodeError):
            return None  # a cluster without a dashboard

    found = None if serves else session.at(endpoint, ticket)
    if found is not None:
        base = found.loopback if found.loopback and _is_here(endpoint) else f"{endpoint.server}/dashboard/"
        _show(f"{base}#ticket={found.ticket}", stays=stays, as_json=as_json)
        return
    from rota import assembly  # noqa: PLC0415 - a master's own dashboard needs neither
    from rota.web import beside  # noqa: PLC0415

    logs.configure(level="warning")
    with session.telling(endpoint):
        assembly.run(beside.run(endpoint, ready=lambda url: _show(url, stays=stays, as_json=as_json, serves=True)))


def _show(url: str, *, stays: bool, as_json: bool, serves: bool = False) -> None:
    opened = not stays and not as_json and _has_browser() and webbrowser.open(url)
    if as_json:
        output.document({"url": url})
    elif opened:
        click.echo(f"Opened {url.partition('#')[0]} in your browser.")
    else:
        click.echo(url)
    if serves and not as_json:
        output.note("The dashboard is served from here. Ctrl-C stops it.")


def _has_browser() -> bool:
    """Whether there is a graphical browser to open; a text browser would take over the terminal."""
    return bool(os.environ.get("BROWSER") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) or bool(
        shutil.which("open") and not shutil.which("xdg-open")
    )


def _is_here(endpoint: Endpoint) -> bool:
    host = urlsplit(endpoint.server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
