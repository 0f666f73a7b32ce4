"""A client that costs as little as possible, so that a benchmark measures the server and not the client.

It speaks just enough HTTP/1.1: keep-alive connections, bodies with a length, and chunked streams line by line.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Final, Self

#: The length of a body that comes in chunks.
CHUNKED: Final = -1


class Connection:
    """One keep-alive connection; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, headers: str) -> None:
        """`headers` go with every request, each with its line's end."""
        self._reader = reader
        self._writer = writer
        self._headers = headers

    @classmethod
    async def open(cls, host: str, port: int, *, tls: ssl.SSLContext | None = None, authorization: str = "") -> Self:
        """Connect; `authorization` goes with every request."""
        reader, writer = await asyncio.open_connection(host, port, limit=64 * 1024 * 1024, ssl=tls)
        headers = f"Host: {host}:{port}\r\n" + (f"Authorization: {authorization}\r\n" if authorization else "")
        return cls(reader, writer, headers=headers)

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """The status and the whole body of an answer."""
        code, length = await self._begin(method, path, body)
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
        """Hang up."""
        self._writer.close()

    async def _begin(self, method: str, path: str, body: bytes) -> tuple[int, int]:
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\n"
        self._writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        raw = await self._reader.readuntil(b"\r\n\r\n")
        lower = raw.lower()
        if b"transfer-encoding: chunked" in lower:
            return int(raw[9:12]), CHUNKED
        at = lower.find(b"content-length:")
        length = int(lower[at + 15 : lower.index(b"\r\n", at)]) if at >= 0 else 0
        return int(raw[9:12]), length
