"""An admission webhook on a port of this machine: it answers as a test says, and keeps the reviews that it got.

async with WebhookServer() as hook:
    hook.answer = lambda review: {"allowed": False}
    configuration = {"clientConfig": hook.client_config("/path"), ...}
    ...
    assert hook.reviews[0]["request"]["operation"] == "CREATE"
"""

import base64
import contextlib
import inspect
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from aiohttp import web

from rota.kit import system
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Names, Subject
from rota.pki.contexts import use

_LIFETIME_S: Final = 86_400.0
#: The response of a review, without its uid; or a whole response.
Said: TypeAlias = dict[str, Any] | web.StreamResponse
Answer: TypeAlias = Callable[[dict[str, Any]], Said | Awaitable[Said]]


def allow(_: dict[str, Any]) -> Said:
    """Admit the request."""
    return {"allowed": True}


def _abort(runner: web.AppRunner) -> None:
    """End connections at once: an API server keeps them open, and would be waited for only for a moment."""
    for connection in runner.server.connections if runner.server is not None else ():
        if connection.transport is not None:
            connection.transport.abort()


class WebhookServer:
    """A server with a certificate of its own authority, for loopback addresses and the names of `hosts`."""

    def __init__(self, *hosts: str) -> None:
        now = system.SystemClock().now()
        self._authority: Final = Authority.create(now=now, name="webhooks")
        names = Names.of(["127.0.0.1", "localhost", *hosts])
        identity = self._authority.issue(
            Subject(common_name="webhook"), now=now, lifetime_s=_LIFETIME_S, purpose=Purpose.SERVER, names=names
        )
        self._tls: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        use(self._tls, identity)
        self.answer: Answer = allow
        self.reviews: Final[list[dict[str, Any]]] = []
        self.port = 0
        self._exits: Final = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_post("/{tail:.*}", self._answered)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        self._exits.push_async_callback(runner.cleanup)
        self._exits.callback(_abort, runner)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        self.port = runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exits.__aexit__(kind, error, traceback)

    @property
    def bundle(self) -> str:
        """The authority, as configurations have it."""
        return base64.b64encode(self._authority.signing_pem).decode()

    def client_config(self, path: str = "/") -> dict[str, Any]:
        """How an API server reaches it."""
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle}

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        self.reviews.append(review)
        said = self.answer(review)
        found = await said if inspect.isawaitable(said) else said
        if isinstance(found, web.StreamResponse):
            return found
        return web.json_response(
            {
                "apiVersion": review["apiVersion"],
                "kind": review["kind"],
                "response": {"uid": review["request"]["uid"], **found},
            }
        )
