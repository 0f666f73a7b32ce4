"""HTTP clients with minimal overhead, so that a benchmark measures the server and not the client.

They implement a subset of HTTP/1.1: keep-alive connections, bodies with a length, chunked streams by line or by
mark.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Self, TypeAlias

_Connect: TypeAlias = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
#: The length of a chunked body.
CHUNKED: Final = -1
_JSON: Final = "application/json"


class Connection:
    """One keep-alive connection; one request at a time."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    def __init__(self, connect: _Connect, *, headers: str) -> None:
        """`headers` go with every request, each with its line's end."""
        self._connect = connect
        self._headers = headers

    @classmethod
    async def open(cls, host: str, port: int, *, tls: ssl.SSLContext | None = None, authorization: str = "") -> Self:
        """Connect; `authorization` goes with every request."""
        headers = f"Host: {host}:{port}\r\n" + (f"Authorization: {authorization}\r\n" if authorization else "")
        made = cls(lambda: asyncio.open_connection(host, port, limit=64 * 1024 * 1024, ssl=tls), headers=headers)
        made._reader, made._writer = await made._connect()
        return made

    async def request(self, method: str, path: str, body: bytes = b"", *, kind: str = _JSON) -> tuple[int, bytes]:
        """The status and the whole body of an answer; `kind` is that of what is sent."""
        try:
            code, length = await self._begin(method, path, body, kind)
        except (asyncio.IncompleteReadError, ConnectionError):
            # kube-apiserver sometimes closes connections to rebalance its clients; an unanswered request is
            # repeated.
            self.close()
            self._reader, self._writer = await self._connect()
            code, length = await self._begin(method, path, body, kind)
        if length == CHUNKED:
            return code, b"".join([chunk async for chunk in self._chunks()])
        return code, await self._reader.readexactly(length)

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a chunked stream, as they come."""
        code, _ = await self._begin("GET", path, b"")
        if code != 200:
            raise RuntimeError(f"the stream was refused: {code}")
        rest = b""
        async for chunk in self._chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline(), 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def _begin(self, method: str, path: str, body: bytes, kind: str = _JSON) -> tuple[int, int]:
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\nContent-Type: {kind}\r\n\r\n"
        self._writer.write(head.encode() + body)
        raw = await self._reader.readuntil(b"\r\n\r\n")
        lower = raw.lower()
        if b"transfer-encoding: chunked" in lower:
            return int(raw[9:12]), CHUNKED
        at = lower.find(b"content-length:")
        length = int(lower[at + 15 : lower.index(b"\r\n", at)]) if at >= 0 else 0
        return int(raw[9:12]), length


class Lookout(asyncio.Protocol):
    """A stream of which only the numbers behind a mark are read: `"watched":"17"`.

    `seen` is called with each number. Parsing the stream would cost several times as much as sending it does.
    """

    #: Longer than a mark with its number.
    _KEPT = 64

    def __init__(self, path: str, mark: bytes, seen: Callable[[int], None]) -> None:
        self._path = path
        self._mark = mark
        self._seen = seen
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int, path: str, mark: bytes, seen: Callable[[int], None]) -> Self:
        """Begin a stream."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: cls(path, mark, seen), "127.0.0.1", port)
        return made

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # streams have no other
        """Ask for the stream."""
        self._transport = transport
        transport.write(f"GET {self._path} HTTP/1.1\r\nHost: rota\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        """Look for numbers; what may be half of one is kept."""
        text = self._rest + data
        end = 0
        while (at := text.find(self._mark, end)) >= 0:
            start = at + len(self._mark)
            stop = text.find(b'"', start)
            if stop < 0:
                break
            self._seen(int(text[start:stop]))
            end = stop
        self._rest = text[max(end, len(text) - self._KEPT) :]

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()
