"""Completions from a server: one request with a short timeout, and no errors."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from rota.api import meta
from rota.cli import endpoints
from rota.cli.commands import resource_names
from rota.client import client_factory
from rota.client.endpoints import Endpoint
from rota.client.verbs import Client, Settings
from rota.kit import system

_PATIENCE_S: Final = 2.0


def kinds(options: Mapping[str, Any]) -> list[str]:
    """The plurals of all kinds that can be listed."""

    async def ask(client: Client, _: Endpoint) -> list[str]:
        return sorted({one.plural for one in (await resource_names.kinds(client)).listed() if "list" in one.verbs})

    return _asked(options, ask)


def names(options: Mapping[str, Any], kind: str) -> list[str]:
    """The names of a kind's objects, in the namespace of the options."""

    async def ask(client: Client, endpoint: Endpoint) -> list[str]:
        found = (await resource_names.kinds(client)).one(kind)
        namespace = (options.get("namespace") or endpoint.namespace) if found.namespaced else ""
        slim = client.with_settings(metadata_only=True)
        return [meta.name(one) for one in (await slim.list(found, namespace=namespace)).items]

    return _asked(options, ask)


def _asked(options: Mapping[str, Any], work: Callable[[Client, Endpoint], Awaitable[list[str]]]) -> list[str]:
    async def ask() -> list[str]:
        endpoint = endpoints.nearest(
            kubeconfig_file=options.get("kubeconfig_file"),
            context=options.get("context") or "",
            server=options.get("server"),
        )
        clock, settings = system.SystemClock(), Settings(retry=False, timeout_s=_PATIENCE_S)
        async with client_factory.to_server(endpoint, clock=clock, rng=system.rng(), settings=settings) as client:
            return await clock.wait_for(work(client, endpoint), _PATIENCE_S)

    try:
        return asyncio.run(ask())
    except Exception:  # noqa: BLE001 - a shell in the middle of a line is no place for errors of any kind
        return []
