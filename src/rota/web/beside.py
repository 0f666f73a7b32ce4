"""The dashboard beside any Kubernetes: served on loopback by `rota dashboard`, with the rights of a kubeconfig's user.

Every tab acts as that user, so the address with its one-time ticket is for the user who started it. Exec needs a
connection of its own to the server and is not offered here. If the cluster has several masters, pages go on at another
one when theirs fails.
"""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from rota.apiserver.server import http_server
from rota.client import client_factory, masters
from rota.client.endpoints import Endpoint
from rota.client.masters import Master
from rota.kit import system, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.web import request_rules
from rota.web.application import Dashboard
from rota.web.feeds import Feeds
from rota.web.live import LiveViews, same_client
from rota.web.remote_api import RemoteApi
from rota.web.reviews import Roles
from rota.web.sealing import Seal
from rota.web.sessions import SealedUser


async def run(endpoint: Endpoint, *, ready: Callable[[str], None]) -> None:
    """Serve until a signal comes; `ready` gets the address with a ticket."""
    clock, rng = system.SystemClock(), system.rng()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    endpoint = await _with_all_masters(endpoint, clock=clock, rng=rng)
    api = RemoteApi(endpoint)
    dashboard = Dashboard(
        api,
        seal=Seal(secrets.token_bytes(32)),
        names=request_rules.own_names(()),
        clock=clock,
        cluster=endpoint.server,
        tickets=False,
        tokens=False,
        execs=False,
    )
    async with contextlib.AsyncExitStack() as parts:
        parts.push_async_callback(api.aclose)
        client = await parts.enter_async_context(client_factory.to_server(endpoint, clock=clock, rng=rng))
        supervisor = await parts.enter_async_context(tasks.Supervisor("dashboard", clock=clock, rng=rng))
        dashboard.live = LiveViews(
            Feeds(client, supervisor, clock=clock, rng=rng),
            Roles(client, supervisor, clock=clock, rng=rng),
            client_of=lambda _: same_client(client),
            who=dashboard.who,
            is_valid=dashboard.sessions.is_valid,
            clock=clock,
        )
        user = await dashboard.caller() or SealedUser(name=f"user of {endpoint.server}")
        served = await parts.enter_async_context(http_server.serve(dashboard))
        ready(f"{served.url}/dashboard/#ticket={dashboard.sessions.ticket(user)}")
        await stop.wait()


async def _with_all_masters(endpoint: Endpoint, *, clock: Clock, rng: Rng) -> Endpoint:
    """The endpoint with the masters that are registered now, in case its own server fails."""
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        found = await masters.listed(client)
    return replace(endpoint, fallbacks=fallbacks(endpoint, [one for one in found if one.is_current(clock.now())]))


def fallbacks(endpoint: Endpoint, running: Iterable[Master]) -> tuple[str, ...]:
    """The servers that an endpoint has besides its own: those it was given, and running masters.

    A loopback address means another machine there, unless the endpoint's server has one too. The address is what a
    Lease says: the credentials of the user go only to servers that prove who they are in the same way.
    """
    own = _way(endpoint.server)
    others = [one.address for one in running if _way(one.address) == own]
    known = dict.fromkeys((endpoint.server, *endpoint.fallbacks, *others))
    return tuple(known)[1:]


def _way(url: str) -> tuple[str, bool]:
    return urlsplit(url).scheme, masters.is_loopback(url)
