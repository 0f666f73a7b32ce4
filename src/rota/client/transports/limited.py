"""Limits the size of answers, for servers that are not trusted: a huge one must not use up the memory of its reader.

A complete answer is limited as a whole. A stream has no end, so each of its lines is limited.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from rota.client.transports.transport import Answer, Call, Transport, TransportError


class TooLarge(TransportError):
    """An answer, or a line of a stream, is larger than allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, uncertain=True)


class LimitedTransport:
    """A `Transport` over another one."""

    def __init__(self, inner: Transport, *, most_bytes: int) -> None:
        self._inner: Final = inner
        self._most_bytes: Final = most_bytes

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        """See `Transport.open`."""
        async with self._inner.open(call) as answer:
            yield _LimitedAnswer(call, answer, self._most_bytes)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._inner.close()


class _LimitedAnswer:
    """An `Answer` that is not read to the end if it is too large."""

    def __init__(self, call: Call, inner: Answer, most_bytes: int) -> None:
        self._call: Final = call
        self._inner: Final = inner
        self._most_bytes: Final = most_bytes

    @property
    def code(self) -> int:
        """See `Answer.code`."""
        return self._inner.code

    @property
    def headers(self) -> Mapping[str, str]:
        """See `Answer.headers`."""
        return self._inner.headers

    @property
    def warnings(self) -> tuple[str, ...]:
        """See `Answer.warnings`."""
        return self._inner.warnings

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer.chunks`; each line is limited."""
        size = 0
        async for chunk in self._inner.chunks():
            end = chunk.rfind(b"\n")
            size = size + len(chunk) if end < 0 else len(chunk) - end - 1
            if size > self._most_bytes or len(chunk) > self._most_bytes:
                raise TooLarge(f"{self._call}: a line has more than {self._most_bytes} bytes")
            yield chunk

    async def read(self) -> bytes:
        """See `Answer.read`; the whole answer is limited."""
        found = bytearray()
        async for chunk in self._inner.chunks():
            found += chunk
            if len(found) > self._most_bytes:
                raise TooLarge(f"{self._call}: the answer has more than {self._most_bytes} bytes")
        return bytes(found)
