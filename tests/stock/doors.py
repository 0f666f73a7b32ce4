"""A door in front of an API server, at which a test meets every eviction before the server does.

    async with Door(config).open() as door:
        door.keeper = keeper        # async (namespace, pod, go_on) -> answer
        ...                         # clients use door.url, and are who the kubeconfig says

All else goes through as it is. Whatever is answered, unless the keeper makes it up, is the server's own answer.
"""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import aiohttp
from aiohttp import web

from rota.client import kubeconfig
from rota.kit import system

#: Sends the eviction on to the server, and gives its answer.
GoOn: TypeAlias = Callable[[], Awaitable[web.Response]]
Keeper: TypeAlias = Callable[[str, str, GoOn], Awaitable[web.Response]]
_EVICTION: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction")


class Door:
    """Stands before the server of a kubeconfig, and says that it is its user."""

    def __init__(self, config: Path) -> None:
        endpoint = kubeconfig.load(config, clock=system.SystemClock())
        self._endpoint: Final = endpoint
        self._session: aiohttp.ClientSession | None = None
        self.keeper: Keeper | None = None
        self.url = ""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["Door"]:
        """While it is open."""
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._pass)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        connector = aiohttp.TCPConnector(ssl=self._endpoint.tls() or True, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            self._session = session
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
                yield self
            finally:
                await runner.cleanup()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        found = _EVICTION.fullmatch(request.path)
        if found is not None and self.keeper is not None:
            return await self.keeper(found[1], found[2], lambda: self._whole(request, body))
        if request.query.get("watch") == "true":
            return await self._stream(request)
        return await self._whole(request, body)

    async def _whole(self, request: web.Request, body: bytes) -> web.Response:
        async with self._asked(request, body) as answer:
            return web.Response(status=answer.status, body=await answer.read(), headers=_kept(answer))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        async with self._asked(request, b"") as answer:
            stream = web.StreamResponse(status=answer.status, headers=_kept(answer))
            await stream.prepare(request)
            async for chunk in answer.content.iter_any():
                await stream.write(chunk)
            return stream

    @contextlib.asynccontextmanager
    async def _asked(self, request: web.Request, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None
        headers = {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
        headers["Authorization"] = await self._endpoint.credentials.authorization()
        url = f"{self._endpoint.server}{request.rel_url}"
        forever = aiohttp.ClientTimeout(total=None)
        async with self._session.request(
            request.method, url, data=body or None, headers=headers, timeout=forever
        ) as answer:
            yield answer


def refusal(code: int, reason: str, message: str) -> web.Response:
    """An answer that the keeper makes up, in the words of the API."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return web.Response(
        status=code,
        text=json.dumps({**status, "reason": reason, "message": message}),
        content_type="application/json",
    )


def _kept(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: answer.headers[name] for name in ("Content-Type", "Retry-After", "Warning") if name in answer.headers}
