"""Connections to the workers: logs, streams and usage.

Workers have the kubelet's API, so real kubelets and Rota's workers are reached in the same way: `GET
/containerLogs/<namespace>/<pod>/<container>`, over TLS with certificates on both sides.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from yarl import URL

from rota.api import errors, gotext
from rota.apiserver.subresources import streaming
from rota.apiserver.subresources.logs import LogRequest
from rota.apiserver.subresources.summaries import Summary
from rota.apiserver.subresources.worker_addresses import Address
from rota.kit import sockets

_CONNECT_S: Final = 10.0
_MOST_OF_A_REFUSAL: Final = 4096
#: For a node with a thousand pods.
_MOST_OF_A_SUMMARY: Final = 16 * 1024 * 1024
_REFUSALS: Final = {400: errors.BadRequest, 403: errors.Forbidden, 404: errors.NotFound}


class Workers:
    """Connections to workers; implements `LogSource`, `WorkerStreams` and `UsageSource`.

    Without `tls` connections are in plain text, which is for tests only.
    """

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls: Final = tls
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def stream(self, request: LogRequest, /) -> AsyncIterator[bytes]:
        """See `LogSource.stream`."""
        if request.address is None:
            raise errors.InternalError(f"node {gotext.quote(request.node)} does not say where its worker listens")
        parts = "/".join(quote(one, safe="") for one in (request.namespace, request.pod, request.container))
        query = urlencode(_query(request))
        url = request.address.url("https" if self._tls is not None else "http", f"/containerLogs/{parts}")
        if query:
            url = f"{url}?{query}"
        try:
            async with self._connected().get(URL(url, encoded=True), ssl=self._tls or False) as answer:
                if answer.status != 200:
                    raise _refusal(answer.status, await answer.content.read(_MOST_OF_A_REFUSAL))
                async for chunk in answer.content.iter_any():
                    yield chunk
        except (TimeoutError, aiohttp.ClientError, OSError) as problem:
            raise errors.InternalError(
                f"Get {gotext.quote(url)}: {str(problem) or type(problem).__name__}"
            ) from problem

    async def connect(self, node: str, address: Address | None, /) -> streaming.Stream:
        """See `WorkerStreams.connect`."""
        if address is None:
            raise errors.InternalError(f"node {gotext.quote(node)} does not say where its worker listens")
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(address.host, address.port, ssl=self._tls)
        except OSError as problem:
            raise errors.InternalError(
                f"error dialing the worker of node {gotext.quote(node)} at {address.host}:{address.port}: "
                f"{str(problem) or type(problem).__name__}"
            ) from problem
        sockets.notice_loss(writer.transport)
        return reader, writer

    async def usage(self, node: str, address: Address | None, /) -> Summary:
        """See `UsageSource.usage`."""
        if address is None:
            raise errors.InternalError(f"node {gotext.quote(node)} does not say where its worker listens")
        url = address.url("https" if self._tls is not None else "http", "/stats/summary")
        try:
            async with self._connected().get(URL(url, encoded=True), ssl=self._tls or False) as answer:
                if answer.status != 200:
                    raise _refusal(answer.status, await answer.content.read(_MOST_OF_A_REFUSAL))
                said = bytearray()
                async for chunk in answer.content.iter_any():
                    said += chunk
                    if len(said) > _MOST_OF_A_SUMMARY:
                        raise errors.InternalError(f"Get {gotext.quote(url)}: the answer is too long")
            return msgspec.json.decode(said, type=Summary)
        except (TimeoutError, aiohttp.ClientError, OSError, msgspec.MsgspecError) as problem:
            raise errors.InternalError(
                f"Get {gotext.quote(url)}: {str(problem) or type(problem).__name__}"
            ) from problem

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
            self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=False)
        return self._session


def _query(request: LogRequest) -> list[tuple[str, str]]:
    flags = (("follow", request.follow), ("previous", request.previous), ("timestamps", request.timestamps))
    values = (
        ("sinceSeconds", request.since_seconds),
        ("sinceTime", request.since_time),
        ("tailLines", request.tail_lines),
        ("limitBytes", request.limit_bytes),
    )
    return [(name, "true") for name, on in flags if on] + [
        (name, str(value)) for name, value in values if value is not None
    ]


def _refusal(code: int, body: bytes) -> errors.ApiError:
    text = body.decode("utf-8", "replace").strip() or f"the worker answered {code}"
    return _REFUSALS.get(code, errors.InternalError)(text)
