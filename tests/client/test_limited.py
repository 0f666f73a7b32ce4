"""Answers that are too large are not read to the end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.limited import LimitedTransport, TooLarge
from rota.client.transports.transport import Call
from rota.testing.clocks import FakeClock

MOST = 1000


class Server:
    """Sends a chunk again and again, until its caller leaves or the last one is sent."""

    def __init__(self, chunk: bytes, times: int) -> None:
        self.chunk, self.times, self.sent = chunk, times, 0

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        for _ in range(self.times):
            await send({"type": "http.response.body", "body": self.chunk, "more_body": True})
            self.sent += len(self.chunk)
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[Server], LimitedTransport]]:
    made: list[LimitedTransport] = []

    def to(server: Server) -> LimitedTransport:
        made.append(LimitedTransport(InProcessTransport(server, clock=FakeClock()), most_bytes=MOST))
        return made[-1]

    yield to
    for one in made:
        await one.close()


async def test_an_answer_is_read_up_to_the_limit(opened: Callable[[Server], LimitedTransport]) -> None:
    async with opened(Server(b"x" * 100, 10)).open(Call(method="GET", path="/")) as answer:
        assert (answer.code, answer.headers, answer.warnings) == (200, {"a": "b"}, ())
        assert await answer.read() == b"x" * MOST
    endless = Server(b"x" * 100, 1_000)
    async with opened(endless).open(Call(method="GET", path="/")) as answer:
        with pytest.raises(TooLarge, match="more than 1000 bytes"):
            await answer.read()
        assert endless.sent < 50 * MOST


async def test_a_stream_has_no_limit_but_its_lines_have(opened: Callable[[Server], LimitedTransport]) -> None:
    async with opened(Server(b"x" * 99 + b"\n", 50)).open(Call(method="GET", path="/")) as answer:
        assert sum([len(chunk) async for chunk in answer.chunks()]) == 50 * 100
    async with opened(Server(b"x" * 100, 1_000)).open(Call(method="GET", path="/")) as answer:
        with pytest.raises(TooLarge, match="a line"):
            async for _ in answer.chunks():
                pass
