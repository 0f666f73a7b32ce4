"""`clusters/<name>/proxy`: requests of users that go on to a member of a federation, as the same user.

The control plane signs in at the member with the credentials of its Cluster and impersonates the user, so the member's
own roles decide. A client's credentials, cookies and impersonation headers do not go on. What passes in both directions
is in `apiserver/subresources/relay.py`.

Connections to a member are kept while its address and credentials are the same. The first request after a change of
these ends everything that still runs with the former ones; other changes of a Cluster, such as taints, end nothing.
"""

import asyncio
import weakref
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

import aiohttp
from yarl import URL

from rota.api import errors, meta
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Object, Registry, Stream, SubresourceHandler, SubresourceRequest, Tunnel
from rota.apiserver.subresources import relay, streaming
from rota.client.credentials import CredentialError
from rota.client.endpoints import Endpoint, EndpointError
from rota.federation import kinds
from rota.federation.member import connections
from rota.kit.clock import Clock

_CLUSTERS: Final = GroupResource(kinds.CLUSTERS[0], kinds.CLUSTERS[2])
_SECRETS: Final = GroupResource("", "secrets")
_CONNECT_S: Final = 10.0
#: How long a member may take to begin its answer; what follows may be a watch.
_PATIENCE_S: Final = 60.0
#: Members of a Cluster's spec that placement uses, not connections.
_WITHOUT_CONNECTION: Final = frozenset({"provider", "region", "resourceModels", "taints", "zone", "zones"})


@dataclass(frozen=True, slots=True)
class _Way:
    """How a member is reached, and what runs there."""

    #: What the address and the credentials were read from.
    made_from: tuple[object, ...]
    endpoint: Endpoint
    session: aiohttp.ClientSession
    tunnels: "weakref.WeakSet[streaming.SocketStream]" = field(default_factory=weakref.WeakSet)

    answers: set[aiohttp.ClientResponse] = field(default_factory=set)

    async def close(self) -> None:
        """End all requests."""
        for tunnel in tuple(self.tunnels):
            tunnel.close()
        for answer in self.answers:
            # Closing a session does not wake readers of a body.
            answer.content.set_exception(aiohttp.ClientConnectionError("the credentials of the cluster have changed"))
        await self.session.close()


class ClusterProxy:
    """Passes requests on to members; keeps connections to those that were asked for."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock: Final = clock
        self._known: Final[dict[str, _Way]] = {}

    @property
    def handlers(self) -> Mapping[tuple[GroupResource, str], SubresourceHandler]:
        """For the API server."""
        return {(_CLUSTERS, "proxy"): self}

    async def close(self) -> None:
        """Close all connections."""
        for name in tuple(self._known):
            await self._drop(name)

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Stream | Tunnel:
        """The member's answer."""
        name = request.at.name
        if any(unquote(segment) in (".", "..") for segment in request.tail.split("/")):
            # The server of a Cluster may have a path, which is not left.
            raise errors.bad_request("a proxied path has no segments . and ..")
        try:
            cluster = (await registry.read(registry.resource(_CLUSTERS), "", name)).object
        except errors.NotFound:
            await self._drop(name)
            raise
        way = await self._way(cluster, registry)
        headers = [*relay.sent(request.headers), *relay.identity(request.at.user)]
        try:
            authorization = await way.endpoint.credentials.authorization()
        except CredentialError as error:
            raise errors.service_unavailable(f"the credentials of cluster {name} cannot be used: {error}") from error
        if authorization:
            headers.append(("Authorization", authorization))
        path = (request.tail or "/") + (f"?{request.raw_query.decode('latin-1')}" if request.raw_query else "")
        if any(not value.isprintable() for _, value in headers):
            raise errors.bad_request("a header or the user's name has characters that cannot be passed on")
        if request.headers.get(b"upgrade", b"").lower() == b"websocket":
            return await _upgraded(name, way, path, headers, request)
        return await _answered(name, way, path, headers, request)

    async def _drop(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            await known.close()

    async def _way(self, cluster: Object, registry: Registry) -> _Way:
        name, spec = meta.name(cluster), cluster.get("spec") or {}
        reference = spec.get("impersonatorSecretRef") or spec.get("secretRef")
        secret = None
        if reference is not None:
            stored = await registry.find(registry.resource(_SECRETS), reference["namespace"], reference["name"])
            secret = None if stored is None else stored.object
        made_from = (
            meta.uid(cluster),
            {member: value for member, value in spec.items() if member not in _WITHOUT_CONNECTION},
            None if secret is None else (meta.uid(secret), secret.get("data")),
        )
        known = self._known.get(name)
        if known is not None and known.made_from == made_from:
            return known
        try:
            endpoint = connections.endpoint(cluster, secret, clock=self._clock)
            tls = endpoint.tls()
        except (connections.NoConnection, EndpointError) as error:
            raise errors.service_unavailable(str(error)) from error
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls if tls is not None else True, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding"),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
        )
        way = _Way(made_from, endpoint, session)
        await self._drop(name)
        self._known[name] = way
        return way


async def _answered(
    name: str, way: _Way, path: str, headers: list[tuple[str, str]], request: SubresourceRequest
) -> Stream:
    endpoint = way.endpoint
    server = endpoint.server.rstrip("/")
    try:
        async with asyncio.timeout(_PATIENCE_S):
            answer = await way.session.request(
                request.method,
                URL(server + path, encoded=True),
                data=request.content or None,
                headers=headers,
                allow_redirects=False,
                server_hostname=endpoint.tls_server_name or None,
            )
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as problem:
        raise _unreachable(name, problem) from problem
    kind, returned = relay.returned(answer.headers.items(), server=server, prefix=request.prefix)

    async def chunks() -> AsyncIterator[bytes]:
        way.answers.add(answer)
        try:
            async for chunk in answer.content.iter_any():
                yield chunk
        finally:
            way.answers.discard(answer)
            answer.close()

    return Stream(content_type=kind, chunks=chunks(), code=answer.status, headers=returned)


async def _upgraded(
    name: str, way: _Way, path: str, headers: list[tuple[str, str]], request: SubresourceRequest
) -> Tunnel:
    """The client's connection, once the member has accepted it as a WebSocket."""
    endpoint = way.endpoint
    there = urlsplit(endpoint.server)
    try:
        async with asyncio.timeout(_CONNECT_S):
            tls = endpoint.tls()
            reader, writer = await asyncio.open_connection(
                there.hostname,
                there.port or (443 if tls is not None else 80),
                ssl=tls,
                server_hostname=None if tls is None else endpoint.tls_server_name or there.hostname,
            )
    except (TimeoutError, OSError) as problem:
        raise _unreachable(name, problem) from problem
    asked = streaming.upgrade_request(there.path.rstrip("/") + path, there.netloc, headers, request.headers)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            accepted = await streaming.agree(reader, writer, asked, f"cluster {name}")
    except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError, ValueError) as problem:
        writer.close()
        raise _unreachable(name, problem) from problem
    except BaseException:
        writer.close()
        raise
    peer = streaming.SocketStream(reader, writer)
    way.tunnels.add(peer)
    return Tunnel(peer=peer, headers=accepted)


def _unreachable(name: str, problem: BaseException) -> errors.ApiError:
    return errors.service_unavailable(f"cluster {name} does not answer: {str(problem) or type(problem).__name__}")
