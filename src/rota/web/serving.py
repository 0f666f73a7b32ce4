"""Starts the dashboard of an API server in this process."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Final

from rota.api import users
from rota.api.users import User
from rota.apiserver.authentication.oidc_provider import Provider
from rota.client import client_factory
from rota.client.verbs import Client
from rota.kit import tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.web import request_rules
from rota.web.application import Dashboard, Served
from rota.web.feeds import Feeds
from rota.web.live import LiveViews
from rota.web.reviews import Roles
from rota.web.sealing import Seal
from rota.web.sessions import SealedUser

#: The user as which views read the cluster; its role is in `apiserver/authorization/policy/own.py`.
_USER: Final = User(name="rota:dashboard", groups=(users.AUTHENTICATED,))


@contextlib.asynccontextmanager
async def dashboard(
    api: Served,
    *,
    secret: bytes,
    names: Iterable[str],
    clock: Clock,
    rng: Rng,
    cluster: str = "",
    provider: Provider | None = None,
) -> AsyncIterator[Dashboard]:
    """The dashboard before an API server: the application to serve. `secret` is the same at every master.

    Users of `provider`, whose tokens the API server accepts, sign in there.
    """
    made = Dashboard(
        api, seal=Seal(secret), names=request_rules.own_names(names), clock=clock, cluster=cluster, provider=provider
    )

    @contextlib.asynccontextmanager
    async def client_of(user: SealedUser) -> AsyncIterator[Client]:
        async with client_factory.to_application(api, clock=clock, rng=rng, user=user.user()) as client:
            yield client

    async with (
        client_factory.to_application(api, clock=clock, rng=rng, user=_USER) as client,
        tasks.Supervisor("dashboard", clock=clock, rng=rng) as supervisor,
    ):
        made.live = LiveViews(
            Feeds(client, supervisor, clock=clock, rng=rng),
            Roles(client, supervisor, clock=clock, rng=rng),
            client_of=client_of,
            who=made.who,
            is_valid=made.sessions.is_valid,
            clock=clock,
        )
        yield made
