"""Who may use the endpoint: whoever shows a certificate of the cluster's authority that is in `system:masters`.

That is the API server, which has done all asking for rights by then. TLS has verified what is shown; whoever shows
nothing hears 401, whoever is somebody else 403. A node's certificate is good for calling the API, not other nodes.

A connection shows its certificate once, so it is looked at once. Whoever has not asked within a moment for something
that he may have is cut off, so that strangers do not hold connections for nothing.
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

#: How long a stranger's connection may last.
_MOMENT_S: Final = 20.0


class ClientCertificateAuthentication:
    """Tells guests from strangers."""

    def __init__(self, *, moment_s: float = _MOMENT_S) -> None:
        self._moment_s: Final = moment_s
        #: Connections of those who may ask for everything.
        self._guests: Final[set[RequestHandler]] = set()

    def entered(self, serve: Callable[[], RequestHandler]) -> RequestHandler:
        """A new connection, which is a stranger's until he has shown who he is."""
        made = serve()
        asyncio.get_running_loop().call_later(self._moment_s, self._see_off, made)
        return made

    def guard(self) -> Middleware:
        """Lets guests through."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.protocol not in self._guests:
                refusal = _refusal(request)
                if refusal is not None:
                    refusal.force_close()
                    return refusal
                self._guests.difference_update([one for one in self._guests if one.transport is None])
                self._guests.add(request.protocol)
            return await handler(request)

        return guard

    def _see_off(self, connection: RequestHandler) -> None:
        if connection not in self._guests and connection.transport is not None:
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
