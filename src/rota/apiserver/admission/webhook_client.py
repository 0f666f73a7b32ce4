"""Calls webhooks over HTTPS: finds the server, keeps connections, and bounds how many calls one webhook gets at once.

A webhook that hangs or is slow harms only the requests that it guards: it has a number of calls of its own, and
requests beyond those that wait for one fail at once by its failure policy. The time limit includes the wait. Messages
are those of Go's HTTP client, which administrators of Kubernetes know.

A webhook with a service is called at a ready endpoint of that service (`service_endpoints`). Pods of Rota's workers are
reached at the address of their machine. Endpoints in a network that the master has no route to are not reached; such a
webhook needs a `url`.
"""

import asyncio
import base64
import binascii
import contextlib
import posixpath
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from rota.api import gotext
from rota.apiserver.interfaces import Registry
from rota.apiserver.service_endpoints import DEFAULT_PORT, ServiceEndpoints
from rota.kit import bodies

#: Calls of one webhook at a time, and requests that wait for one.
MOST_CALLS: Final = 64
MOST_WAITING: Final = 128
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_CONTEXTS: Final = 256
_IDLE_S: Final = 60.0
_DEADLINE: Final = "context deadline exceeded"


class CallFailed(Exception):
    """The webhook was not reached, or did not answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a webhook."""

    code: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a call goes: the URL that messages show, and the address to connect to."""

    url: str
    address: str
    #: The name in the server's certificate, if it is not that of the address.
    server_name: str | None = None


class _Calls:
    """The calls of one webhook."""

    __slots__ = ("_free", "waiting")

    def __init__(self) -> None:
        self._free: Final = asyncio.Semaphore(MOST_CALLS)
        self.waiting = 0

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a call to be free; CallFailed if too many wait."""
        if self._free.locked() and self.waiting >= MOST_WAITING:
            raise CallFailed(f"{MOST_CALLS} calls are under way and {self.waiting} requests wait for it")
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        try:
            yield
        finally:
            self._free.release()


class WebhookClient:
    """Calls the webhooks of one server."""

    def __init__(self, registry: Registry, endpoints: ServiceEndpoints) -> None:
        self._registry: Final = registry
        self._endpoints: Final = endpoints
        self._calls: Final[dict[str, _Calls]] = {}
        self._contexts: Final[dict[str, ssl.SSLContext]] = {}
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def forget(self, webhooks: Sequence[str]) -> None:
        """Forget webhooks that are no longer configured."""
        for one in webhooks:
            self._calls.pop(one, None)

    async def post(self, webhook: str, client: Mapping[str, Any], body: Any, *, timeout_s: float) -> Answer:
        """Send JSON to the webhook of a client configuration; CallFailed if there is no answer in time."""
        calls = self._calls.setdefault(webhook, _Calls())
        place = _place(client, timeout_s)
        try:
            async with asyncio.timeout(timeout_s), calls.one():
                return await self._post(client, await self._resolved(client, place), body)
        except TimeoutError:
            raise CallFailed(_posted(place.url, _DEADLINE)) from None

    async def _post(self, client: Mapping[str, Any], place: _Place, body: Any) -> Answer:
        context = self._context(client.get("caBundle") or "")
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        if place.server_name is not None:
            headers["Host"] = urlsplit(place.url).netloc
        try:
            async with self._opened().post(
                URL(place.address, encoded=True),
                data=msgspec.json.encode(body),
                headers=headers,
                ssl=context,
                server_hostname=place.server_name,
                allow_redirects=False,
            ) as reply:
                content = await bodies.read(reply.content, _MOST_BYTES)
                return Answer(reply.status, reply.headers.get("Content-Type", ""), content)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallFailed(_posted(place.url, reason(error))) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"User-Agent": "rota-apiserver-admission"},
            )
        return self._session

    def _context(self, bundle: str) -> ssl.SSLContext:
        known = self._contexts.get(bundle)
        if known is None:
            known = trusting(bundle)
            if len(self._contexts) >= _MOST_CONTEXTS:
                self._contexts.clear()
            self._contexts[bundle] = known
        return known

    async def _resolved(self, client: Mapping[str, Any], place: _Place) -> _Place:
        service = client.get("service")
        if service is None:
            return place
        try:
            port = service.get("port") or DEFAULT_PORT
            host, port = await self._endpoints.address(self._registry, service["namespace"], service["name"], port)
        except LookupError as error:
            raise CallFailed(_posted(place.url, str(error.args[0]))) from None
        shown = f"[{host}]" if ":" in host else host
        parts = urlsplit(place.url)
        return _Place(place.url, f"https://{shown}:{port}{parts.path}?{parts.query}", parts.hostname)


def _place(client: Mapping[str, Any], timeout_s: float) -> _Place:
    service, query = client.get("service"), f"timeout={int(timeout_s)}s"
    if service is not None:
        host = f"{service.get('name')}.{service.get('namespace')}.svc:{service.get('port') or 443}"
        shown = f"https://{host}{_path(service.get('path') or '')}?{query}"
        return _Place(shown, "")
    parts = urlsplit(client.get("url") or "")
    shown = f"{parts.scheme}://{parts.netloc}{_path(parts.path)}?{query}"
    return _Place(shown, shown)


def _path(path: str) -> str:
    """The path without empty and relative segments."""
    return posixpath.normpath("/" + path.lstrip("/"))


def _posted(url: str, why: str) -> str:
    return f"Post {gotext.quote(url)}: {why}"


def trusting(bundle: str) -> ssl.SSLContext:
    """Trust the authorities of a webhook, or those of the machine."""
    try:
        # comments between certificates may have any characters
        authorities = base64.b64decode("".join(bundle.split()), validate=True).decode("ascii", "ignore")
        if bundle and not authorities:
            raise ValueError("with no authorities, the context would trust those of the machine")
        context = ssl.create_default_context(cadata=authorities or None)
    except (binascii.Error, ssl.SSLError, ValueError):
        raise CallFailed("unable to load root certificates: unable to parse bytes as PEM block") from None
    # Certificates of webhooks are often made by small programs, without the extensions that the strict check demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def reason(error: BaseException) -> str:
    """Why a connection failed, as Go says it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        os_error, where = error.os_error, f"{error.host}:{error.port}"
        if isinstance(os_error, ssl.SSLCertVerificationError):
            return _certificate(os_error)
        if isinstance(os_error, ConnectionRefusedError) or "Connect call failed" in str(os_error):
            return f"dial tcp {where}: connect: connection refused"
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            return f"dial tcp: lookup {error.host}: no such host"
        return f"dial tcp {where}: {os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, ConnectionResetError):
        return "read: connection reset by peer"
    return str(error) or type(error).__name__


def _certificate(error: BaseException) -> str:
    text = str(error)
    if "self-signed" in text or "self signed" in text or "unable to get" in text:
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {error.verify_message}"
    return f"tls: failed to verify certificate: {text}"
