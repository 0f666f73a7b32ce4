"""Another API server as an application of this process: requests go on to it with the credentials of a kubeconfig.

Nothing of a browser's credentials goes on, and nothing that the server sets in browsers comes back; see
`apiserver/subresources/relay.py`. Proxied paths are refused before they come here.

If the cluster has several servers, a request that was never sent goes to the next one, and so does a read whose
connection broke. Streams of a server that does not answer are ended; pages open them again, at the next server.
"""

import asyncio
import contextlib
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

import aiohttp
from yarl import URL

from rota.api import errors
from rota.apiserver.http.requests import MAX_BODY_BYTES
from rota.apiserver.subresources import relay
from rota.client.credentials import CredentialError
from rota.client.endpoints import Endpoint

_CONNECT_S: Final = 10.0
#: How long the server may take to begin its answer; what follows may be a watch.
_PATIENCE_S: Final = 60.0
_READS: Final = frozenset({"GET", "HEAD"})
_UNAVAILABLE: Final = 503
#: Of these the answer is not a page.
_SAFE: Final = ((b"content-security-policy", b"default-src 'none'"), (b"x-content-type-options", b"nosniff"))


class RemoteApi:
    """An ASGI application that is the API of another server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._servers: Final = endpoint.each()
        self._current = 0
        #: Answers that are being sent on, by the number of their server.
        self._open: Final[dict[int, set[aiohttp.ClientResponse]]] = {at: set() for at in range(len(self._servers))}
        self._ending: Final = asyncio.Event()
        tls = endpoint.tls()
        self._session: Final = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls if tls is not None else True, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding"),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
        )

    def close(self) -> None:
        """End every running stream."""
        self._ending.set()

    async def aclose(self) -> None:
        """Close all connections."""
        self.close()
        await self._session.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, by ASGI."""
        try:
            number, answer = await self._asked(scope, await _body(receive))
        except errors.ApiError as error:
            await _refuse(send, error)
            return
        with self._sending_on(number, answer):
            kind, headers = relay.returned(answer.headers.items(), server=self._servers[number].server, prefix="")
            kept = [one for one in headers if one[0] not in (b"content-security-policy", b"x-content-type-options")]
            await send(
                {
                    "type": "http.response.start",
                    "status": answer.status,
                    "headers": [(b"content-type", kind.encode("latin-1", "replace")), *kept, *_SAFE],
                }
            )
            await self._stream(answer, receive, send)

    @contextlib.contextmanager
    def _sending_on(self, number: int, answer: aiohttp.ClientResponse) -> Iterator[None]:
        self._open[number].add(answer)
        try:
            yield
        finally:
            self._open[number].discard(answer)
            answer.close()

    async def _asked(self, scope: Any, body: bytes) -> tuple[int, aiohttp.ClientResponse]:
        """The answer of a server, and the number of that server."""
        left = len(self._servers)
        reads = scope["method"] in _READS
        while True:
            left -= 1
            number = self._current
            try:
                answer = await self._ask(self._servers[number], scope, body)
            except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as problem:
                self._leave(number)
                # A request that was never sent may be sent to another server, whatever it is.
                if left and (reads or isinstance(problem, aiohttp.ClientConnectorError)):
                    continue
                raise errors.service_unavailable(
                    f"{self._servers[number].server} does not answer: {str(problem) or type(problem).__name__}"
                ) from problem
            if answer.status == _UNAVAILABLE and reads and left:
                answer.close()
                self._current = (number + 1) % len(self._servers)
                continue
            return number, answer

    def _leave(self, number: int) -> None:
        """Go on with the next server, and end the streams of this one: a machine without power ends none."""
        if self._current != number or len(self._servers) == 1:
            return
        self._current = (number + 1) % len(self._servers)
        for answer in list(self._open[number]):
            answer.close()

    async def _ask(self, endpoint: Endpoint, scope: Any, body: bytes) -> aiohttp.ClientResponse:
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        headers = relay.sent(dict(scope["headers"]))
        try:
            authorization = await endpoint.credentials.authorization()
        except CredentialError as error:
            raise errors.service_unavailable(f"the credentials of the kubeconfig cannot be used: {error}") from error
        if authorization:
            headers.append(("Authorization", authorization))
        async with asyncio.timeout(_PATIENCE_S):
            return await self._session.request(
                scope["method"],
                URL(f"{endpoint.server.rstrip('/')}{path}{'?' + query if query else ''}", encoded=True),
                data=body or None,
                headers=headers,
                allow_redirects=False,
                server_hostname=endpoint.tls_server_name or None,
            )

    async def _stream(self, answer: aiohttp.ClientResponse, receive: Any, send: Any) -> None:
        async def pump() -> None:
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        works = [asyncio.ensure_future(one) for one in (pump(), gone(), self._ending.wait())]
        try:
            await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in works:
                one.cancel()
            await asyncio.gather(*works, return_exceptions=True)
        await send({"type": "http.response.body", "body": b""})


async def _body(receive: Any) -> bytes:
    parts: list[bytes] = []
    while True:
        message: MutableMapping[str, Any] = await receive()
        parts.append(message.get("body", b""))
        if sum(map(len, parts)) > MAX_BODY_BYTES:
            raise errors.request_entity_too_large(f"limit is {MAX_BODY_BYTES}")
        if not message.get("more_body"):
            return b"".join(parts)


async def _refuse(send: Any, error: errors.ApiError) -> None:
    body = error.encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": error.code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
