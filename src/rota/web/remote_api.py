"""Another API server as an application of this process: requests go on to it with the credentials of a kubeconfig.

Nothing of a browser's credentials goes on, and nothing that the server sets in browsers comes back; see
`apiserver/subresources/relay.py`. Proxied paths are refused before they come here.
"""

import asyncio
from collections.abc import MutableMapping
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
#: Of these the answer is not a page.
_SAFE: Final = ((b"content-security-policy", b"default-src 'none'"), (b"x-content-type-options", b"nosniff"))


class RemoteApi:
    """An ASGI application that is the API of another server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint: Final = endpoint
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
            answer = await self._asked(scope, await _body(receive))
        except errors.ApiError as error:
            await _refuse(send, error)
            return
        try:
            kind, headers = relay.returned(answer.headers.items(), server=self._endpoint.server, prefix="")
            kept = [one for one in headers if one[0] not in (b"content-security-policy", b"x-content-type-options")]
            await send(
                {
                    "type": "http.response.start",
                    "status": answer.status,
                    "headers": [(b"content-type", kind.encode("latin-1", "replace")), *kept, *_SAFE],
                }
            )
            await self._stream(answer, receive, send)
        finally:
            answer.close()

    async def _asked(self, scope: Any, body: bytes) -> aiohttp.ClientResponse:
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        headers = relay.sent(dict(scope["headers"]))
        try:
            authorization = await self._endpoint.credentials.authorization()
        except CredentialError as error:
            raise errors.service_unavailable(f"the credentials of the kubeconfig cannot be used: {error}") from error
        if authorization:
            headers.append(("Authorization", authorization))
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._session.request(
                    scope["method"],
                    URL(f"{self._endpoint.server.rstrip('/')}{path}{'?' + query if query else ''}", encoded=True),
                    data=body or None,
                    headers=headers,
                    allow_redirects=False,
                    server_hostname=self._endpoint.tls_server_name or None,
                )
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as problem:
            raise errors.service_unavailable(
                f"{self._endpoint.server} does not answer: {str(problem) or type(problem).__name__}"
            ) from problem

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
