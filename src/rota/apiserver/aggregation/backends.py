"""Requests to the servers of APIs: over TLS, with the front proxy's certificate and the user in headers.

No credential, cookie or impersonation header of a client goes on: `subresources/relay.py` lists what passes in both
directions. Answers are streamed, so a watch is passed on as it comes; a WebSocket is handed over.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import aiohttp
import msgspec
from yarl import URL

from rota.api import errors, gotext, scopes
from rota.api.users import User
from rota.apiserver.admission.webhook_client import CallFailed, reason, trusting
from rota.apiserver.aggregation import front_proxy
from rota.apiserver.aggregation.api_services import ApiService
from rota.apiserver.aggregation.front_proxy import FrontProxyIdentity
from rota.apiserver.http import responses
from rota.apiserver.http.requests import Request
from rota.apiserver.service_endpoints import Address
from rota.apiserver.subresources import relay, streaming
from rota.kit import bodies
from rota.kit.clock import Clock
from rota.pki import contexts
from rota.pki.certificates import Identity

_CONNECT_S: Final = 10.0
#: How long a server may take to begin its answer; what follows may be a watch.
_PATIENCE_S: Final = 60.0
_CHECK_S: Final = 5.0
_MOST_DISCOVERY_BYTES: Final = 4 * 1024 * 1024
_MOST_CONTEXTS: Final = 256
#: As whom the availability of an API is checked.
_CHECKER: Final = User(name="system:kube-aggregator", groups=("system:masters",))
UNAVAILABLE: Final = "service unavailable"


class CheckFailed(Exception):
    """The server of an API does not answer, or not with its resources."""


class Backends:
    """Connections to the servers of all APIs."""

    def __init__(self, identity: FrontProxyIdentity, clock: Clock) -> None:
        self._identity: Final = identity
        self._clock: Final = clock
        #: With the certificate that each presents.
        self._contexts: Final[dict[tuple[str, bool], tuple[ssl.SSLContext, Identity]]] = {}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def resources(self, one: ApiService, address: Address) -> dict[str, Any]:
        """The resources of an API, read as a check of its server; CheckFailed if it does not list them."""
        url = check_url(one, address)
        headers = [("Accept", "application/json"), *front_proxy.remote_user(_CHECKER)]
        try:
            async with (
                asyncio.timeout(_CHECK_S),
                self._opened().get(
                    URL(url, encoded=True),
                    headers=headers,
                    ssl=self._context(one),
                    server_hostname=one.host,
                    allow_redirects=False,
                ) as answer,
            ):
                body = await bodies.read(answer.content, _MOST_DISCOVERY_BYTES)
        except TimeoutError:
            raise CheckFailed(f"Get {gotext.quote(url)}: context deadline exceeded") from None
        except CallFailed as error:
            raise CheckFailed(str(error)) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CheckFailed(f"Get {gotext.quote(url)}: {reason(error)}") from None
        if not 200 <= answer.status < 300:
            raise CheckFailed(f"bad status from {url}: {answer.status}")
        try:
            listed = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            listed = None
        return listed if isinstance(listed, dict) else {}

    async def passed_on(self, one: ApiService, address: Address, request: Request, user: User) -> responses.Answer:
        """The answer of an API's server; 503 as plain text if it cannot be reached."""
        try:
            context = self._context(one)
        except CallFailed:
            return responses.text(503, UNAVAILABLE)
        headers = [*relay.sent(request.headers), *front_proxy.remote_user(user)]
        if any(not value.isprintable() for _, value in headers):
            raise errors.bad_request("a header or the user's name has characters that cannot be passed on")
        path = request.path + (f"?{request.raw_query.decode('latin-1')}" if request.raw_query else "")
        if is_upgrade(request):
            return await self._upgraded(one, address, context, path, headers, request)
        content = await request.body()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await self._opened().request(
                    request.method,
                    URL(f"https://{shown(address)}{path}", encoded=True),
                    data=content or None,
                    headers=headers,
                    ssl=context,
                    server_hostname=one.host,
                    allow_redirects=False,
                )
        except TimeoutError:
            return responses.text(503, "error trying to reach service: context deadline exceeded")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return responses.text(503, f"error trying to reach service: {reason(error)}")
        kind, returned = relay.returned(answer.headers.items(), server=f"https://{shown(address)}", prefix="")

        async def chunks() -> AsyncIterator[bytes]:
            try:
                async for chunk in answer.content.iter_any():
                    yield chunk
            except aiohttp.ClientError as error:
                # the client's connection breaks too: an answer that ended normally would look complete
                raise ConnectionAbortedError(f"the server of {one.name} ended its answer: {reason(error)}") from None
            finally:
                answer.close()

        return responses.Streamed(chunks(), kind, returned, answer.status)

    async def _upgraded(
        self,
        one: ApiService,
        address: Address,
        context: ssl.SSLContext,
        path: str,
        headers: Iterable[tuple[str, str]],
        request: Request,
    ) -> responses.Answer:
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=one.host)
        except (TimeoutError, OSError) as error:
            return responses.text(503, f"error trying to reach service: {str(error) or type(error).__name__}")
        asked = streaming.upgrade_request(path, shown(address), headers, request.headers)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                accepted = await streaming.agree(reader, writer, asked, f"the server of {one.name}")
        except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError, ValueError) as error:
            writer.close()
            return responses.text(503, f"error trying to reach service: {str(error) or type(error).__name__}")
        except BaseException:
            writer.close()
            raise
        return responses.Tunnelled(streaming.SocketStream(reader, writer), accepted)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding"),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            )
        return self._session

    def _context(self, one: ApiService) -> ssl.SSLContext:
        key, identity = (one.ca_bundle, one.insecure), self._identity.at(self._clock.now())
        known = self._contexts.get(key)
        if known is not None and known[1] is identity:
            return known[0]
        context = trusting(one.ca_bundle)
        if one.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        contexts.use(context, identity)
        if len(self._contexts) >= _MOST_CONTEXTS:
            self._contexts.clear()
        self._contexts[key] = context, identity
        return context


def check_url(one: ApiService, address: Address) -> str:
    """Where the availability of an API is checked."""
    return f"https://{shown(address)}/apis/{one.at.group}/{one.at.version}"


def shown(address: Address) -> str:
    """Host and port of an address in a URL."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_upgrade(request: Request) -> bool:
    """Whether the client asks for a WebSocket, and its connection can be handed over: that of a GET."""
    return scopes.UPGRADE in request.scope
