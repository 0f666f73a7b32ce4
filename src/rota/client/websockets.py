"""WebSocket connections to an API server, for streams to pods.

Each has a connection of its own, which is aborted at the end and does not wait for the other side.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

import aiohttp
from yarl import URL

from rota.api import errors
from rota.client.endpoints import Endpoint
from rota.client.transports.transport import Interrupted, Unreachable

_CONNECT_S: Final = 30.0
#: How long a server may take to answer the handshake: webhooks may be asked before.
_HANDSHAKE_S: Final = 120.0
_SWITCHING: Final = 101


async def connect(
    endpoint: Endpoint,
    target: str,
    protocols: Sequence[str],
    exits: contextlib.AsyncExitStack,
    *,
    heartbeat_s: float | None = None,
) -> aiohttp.ClientWebSocketResponse:
    """A connection to the first of the servers that answers; it is aborted when `exits` end.

    With a heartbeat it ends by itself if the other side does not answer for so long.
    """
    *others, last = endpoint.each()
    for server in others:
        with contextlib.suppress(Unreachable):
            return await _connect(server, target, protocols, exits, heartbeat_s)
    return await _connect(last, target, protocols, exits, heartbeat_s)


async def _connect(
    endpoint: Endpoint,
    target: str,
    protocols: Sequence[str],
    exits: contextlib.AsyncExitStack,
    heartbeat_s: float | None,
) -> aiohttp.ClientWebSocketResponse:
    tls = endpoint.tls()
    headers = dict(endpoint.headers)
    if authorization := await endpoint.credentials.authorization():
        headers["Authorization"] = authorization
    connector = _Connector(ssl=tls if tls is not None else True)
    exits.callback(connector.cut)
    session = await exits.enter_async_context(
        aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            middlewares=(_refusals,),
        )
    )
    connecting = session.ws_connect(
        URL(f"{endpoint.server.rstrip('/')}{target}", encoded=True),
        protocols=protocols,
        headers=headers,
        max_msg_size=0,
        heartbeat=heartbeat_s,
        server_hostname=(endpoint.tls_server_name or None) if tls is not None else None,
    )
    try:
        async with asyncio.timeout(_HANDSHAKE_S):
            return await exits.enter_async_context(connecting)
    except aiohttp.WSServerHandshakeError as error:
        raise Interrupted(f"{endpoint.server} does not speak WebSocket: {error.message}") from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unreachable(f"GET {target.partition('?')[0]}: {error}") from error
    except TimeoutError as error:
        raise Interrupted(f"GET {target.partition('?')[0]}: no answer for {_HANDSHAKE_S:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Interrupted(f"GET {target.partition('?')[0]}: {error}") from error


class _Connector(aiohttp.TCPConnector):
    """Tracks its connections, so that they can be aborted without waiting for the TLS shutdown."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._made: Final[list[asyncio.Transport]] = []

    async def connect(
        self, req: aiohttp.ClientRequest, traces: Any, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """See `BaseConnector.connect`."""
        connection = await super().connect(req, traces, timeout)
        if connection.transport is not None:
            self._made.append(connection.transport)
        return connection

    def cut(self) -> None:
        """Abort all connections."""
        for transport in self._made:
            transport.abort()


async def _refusals(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Raise the error in a refused handshake; aiohttp itself would drop its body."""
    response = await handler(request)
    if response.status != _SWITCHING:
        raise errors.from_wire(await response.read(), code=response.status)
    return response
