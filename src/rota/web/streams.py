"""Streamed requests of a tab, over its one WebSocket: logs and watches of single objects.

A browser opens at most six connections to a host over HTTP/1.1, in all of its tabs together, so streams over HTTP would
make the seventh one wait forever. A stream is a GET of the API as the user of the tab. Messages of the page are
`{"open": {"number": ..., "path": ...}}` and `{"end": number}`; it gets the text in portions, then the end or a problem.
"""

import asyncio
import codecs
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from rota.api import errors
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.web import request_rules

MOST_STREAMS: Final = 16
#: Of a stream whose connection to the API server broke.
_UNAVAILABLE: Final = 503

Tell = Callable[[dict[str, Any]], Awaitable[None]]


class Streams:
    """The open streams of one tab."""

    def __init__(self, client: Client, tell: Tell, *, on_end: Callable[[asyncio.Task[None]], None]) -> None:
        """`tell` sends a message to the tab, and waits while the tab has much to read. `on_end` gets ended tasks."""
        self._on_end: Final = on_end
        self._client: Final = client
        self._tell: Final = tell
        self._running: Final[dict[int, asyncio.Task[None]]] = {}

    async def open(self, number: int, path: str) -> None:
        """Begin a stream, which the page has numbered."""
        if number in self._running or len(self._running) >= MOST_STREAMS:
            await self._fail(number, 429, f"a page has at most {MOST_STREAMS} streams: close a part of it")
        elif not path.startswith(("/api/", "/apis/")) or request_rules.is_proxied(urlsplit(path).path):
            await self._fail(number, 403, "a page has streams of the API only")
        else:
            running = asyncio.create_task(self._run(number, path), name=f"stream {path}")
            self._running[number] = running
            running.add_done_callback(lambda task: self._forget(number, task))

    def end(self, number: int) -> None:
        """End a stream; one that has ended is no mistake."""
        if running := self._running.pop(number, None):
            running.cancel()

    def close(self) -> None:
        """End all streams."""
        for number in tuple(self._running):
            self.end(number)

    async def _run(self, number: int, path: str) -> None:
        parts = urlsplit(path)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            async with self._client.stream(parts.path, query=parse_qsl(parts.query, keep_blank_values=True)) as chunks:
                async for chunk in chunks:
                    if text := decoder.decode(chunk):
                        await self._tell({"stream": number, "text": text})
        except errors.ApiError as problem:
            await self._fail(number, problem.code, str(problem))
        except TransportError as problem:
            await self._fail(number, _UNAVAILABLE, str(problem))
        else:
            await self._tell({"stream": number, "ended": True})

    def _forget(self, number: int, task: asyncio.Task[None]) -> None:
        if self._running.get(number) is task:
            del self._running[number]
        self._on_end(task)

    async def _fail(self, number: int, code: int, problem: str) -> None:
        await self._tell({"stream": number, "code": code, "problem": problem})
