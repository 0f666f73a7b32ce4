"""Client authentication of the endpoint: a certificate of the cluster's CA in the group `system:masters`.

That is the API server, which has already authorized the request. TLS has verified the certificate. A client without one
gets 401, any other client 403. A node's certificate is valid for the API, not for other nodes. A client without a
certificate may open the pages of `scraper_authentication` with a token.

A connection presents its certificate once, so it is checked once. A connection without an authorized request within a
short time is closed, so that unauthorized clients do not hold connections.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_protocol import RequestHandler

from rota.api import users
from rota.pki import certificates
from rota.worker.endpoint.scraper_authentication import ScraperAuthentication

#: How long an unauthorized connection may last.
_MOMENT_S: Final = 20.0
_UNAUTHENTICATED: Final = 401


class ClientCertificateAuthentication:
    """Tracks which connections are authorized."""

    def __init__(self, scrapers: ScraperAuthentication | None = None, *, moment_s: float = _MOMENT_S) -> None:
        self._moment_s: Final = moment_s
        self._scrapers: Final = scrapers
        #: Authorized connections.
        self._guests: Final[set[RequestHandler]] = set()
        #: Connections of scrapers: they may stay, and each of their requests is checked.
        self._scraping: Final[set[RequestHandler]] = set()

    def entered(self, serve: Callable[[], RequestHandler]) -> RequestHandler:
        """A new connection, unauthorized at first."""
        made = serve()
        asyncio.get_running_loop().call_later(self._moment_s, self._see_off, made)
        return made

    def guard(self) -> Middleware:
        """The middleware that lets authorized requests through."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.protocol not in self._guests:
                admitted, refusal = self._guests, _refusal(request)
                if refusal is not None and refusal.status == _UNAUTHENTICATED and self._scrapers is not None:
                    admitted, refusal = self._scraping, await self._scrapers.refusal(request)
                if refusal is not None:
                    refusal.force_close()
                    return refusal
                admitted.difference_update([one for one in admitted if one.transport is None])
                admitted.add(request.protocol)
            return await handler(request)

        return guard

    def _see_off(self, connection: RequestHandler) -> None:
        known = connection in self._guests or connection in self._scraping
        if not known and connection.transport is not None:
            connection.transport.close()


def _refusal(request: web.Request) -> web.Response | None:
    secured: ssl.SSLObject | None = request.get_extra_info("ssl_object")
    shown = secured.getpeercert(binary_form=True) if secured is not None else None
    if shown is None:
        return web.Response(status=401, text="Unauthorized\n")
    try:
        subject = certificates.facts(certificates.read_der(shown)).subject
    except ValueError:
        return web.Response(status=401, text="Unauthorized\n")
    if users.MASTERS not in subject.organizations:
        return web.Response(status=403, text=f"Forbidden (user={subject.common_name})\n")
    return None
