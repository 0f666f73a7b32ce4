"""HTTP/1.1 to an API server, by aiohttp: pooled connections, TLS, credentials, endless streams.

A call that was refused for its credentials is sent again if there are fresh ones. All other retries are in `retries`.
"""

import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from rota.client.endpoints import Endpoint
from rota.client.transports.connector import Connector
from rota.client.transports.transport import Call, Interrupted, TimedOut, TransportError, Unreachable

_CONNECT_S: Final = 10.0
#: Shorter than servers keep idle connections, so that no call uses one that is being closed.
_IDLE_S: Final = 30.0
#: A dead peer is detected within about a minute, also by an idle watch.
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
_CHUNK_BYTES: Final = 256 * 1024
_UNAUTHORIZED: Final = 401


class HttpTransport:
    """A `Transport` to one server. Made anywhere, used within one event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint: Final = endpoint
        self._base: Final = endpoint.server.rstrip("/")
        self._tls: Final = endpoint.tls()
        self._session: aiohttp.ClientSession | None = None
        self._connector: Connector | None = None
        #: Answers in progress, and whether they are endless streams.
        self._open: Final[dict[aiohttp.ClientResponse, bool]] = {}
        self._closed = False

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator["_Answer"]:
        """See `Transport.open`."""
        response = await self._send(call)
        if response.status == _UNAUTHORIZED and call.repeatable and self._endpoint.credentials.reject():
            response.close()
            response = await self._send(call)
        self._open[response] = call.timeout_s is None
        try:
            yield _Answer(call, response)
        finally:
            self._open.pop(response, None)
            # If the body was read to its end the connection returns to the pool; otherwise it is aborted, without
            # waiting for the TLS shutdown.
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()
            response.close()

    async def close(self) -> None:
        """See `Transport.close`."""
        self._closed = True
        for response in self._open:
            # Closing a session does not wake readers of a body.
            response.content.set_exception(aiohttp.ClientConnectionError("the transport was closed"))
        if self._session is not None:
            await self._session.close()
        if self._connector is not None:
            await self._connector.settle()

    def interrupt(self) -> None:
        """Abort streams: their readers resume them, perhaps at another server."""
        for response, endless in self._open.items():
            if endless:
                response.content.set_exception(aiohttp.ClientConnectionError("the server does not answer"))

    async def _send(self, call: Call) -> aiohttp.ClientResponse:
        if self._closed:
            raise Unreachable(f"{call}: the transport is closed")
        if self._session is None:
            self._session = self._connect()
        headers = {**self._endpoint.headers, **call.headers}
        authorization = await self._endpoint.credentials.authorization()
        if authorization:
            headers["Authorization"] = authorization
        query = f"?{urlencode(call.query, quote_via=quote)}" if call.query else ""
        with _translated(call):
            return await self._session.request(
                call.method,
                URL(f"{self._base}{call.path}{query}", encoded=True),
                data=call.body or None,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=call.timeout_s, sock_connect=_CONNECT_S),
                server_hostname=(self._endpoint.tls_server_name or None) if self._tls else None,
            )

    def _connect(self) -> aiohttp.ClientSession:
        self._connector = Connector(
            ssl=self._tls if self._tls is not None else True,
            limit=0,  # every watch needs a connection; the callers limit their number
            keepalive_timeout=_IDLE_S,
            socket_factory=_socket,
        )
        session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Content-Type"),
            read_bufsize=_CHUNK_BYTES,
        )
        # aiohttp would by itself repeat PUT and DELETE on a broken connection, though they may have taken effect: the
        # second answer would be a conflict with ourselves. There is no public option.
        session._retry_connection = False
        return session


class _Answer:
    """An `Answer` over a connection."""

    def __init__(self, call: Call, response: aiohttp.ClientResponse) -> None:
        self._call: Final = call
        self._response: Final = response
        self.code: Final = response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """See `Answer.headers`."""
        return {name.lower(): value for name, value in self._response.headers.items()}

    @property
    def warnings(self) -> tuple[str, ...]:
        """See `Answer.warnings`."""
        return tuple(self._response.headers.getall("Warning", ()))

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer.chunks`."""
        stream = self._response.content.iter_any()
        with _translated(self._call):
            async for chunk in stream:
                yield chunk

    async def read(self) -> bytes:
        """See `Answer.read`."""
        with _translated(self._call):
            return await self._response.read()


@contextlib.contextmanager
def _translated(call: Call) -> Any:
    """Translates aiohttp's errors to `TransportError`."""
    try:
        yield
    except TransportError:
        raise
    except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:
        raise Unreachable(f"{call}: {error}") from error
    except TimeoutError as error:
        raise TimedOut(f"{call}: no complete answer within {call.timeout_s:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Interrupted(f"{call}: {str(error) or type(error).__name__}") from error


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    made.setblocking(False)
    return made
