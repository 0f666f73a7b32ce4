"""Both transports, by the same promises; and what repeating calls may and may not do."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rota.apiserver.server import http_server
from rota.client.endpoints import Endpoint
from rota.client.transports.http import HttpTransport
from rota.client.transports.in_process import Application, InProcessTransport
from rota.client.transports.retries import RetryingTransport
from rota.client.transports.transport import Call, Interrupted, TimedOut, Transport, TransportError, Unreachable
from rota.kit.system import SystemClock
from rota.testing.clocks import FakeClock
from rota.testing.scripted_api import CUT, Reply, ScriptedApi

Opener = Callable[[Application], contextlib.AbstractAsyncContextManager[Transport]]


class _Closable:
    """What `serving` asks of an application besides being one."""

    def __init__(self, app: Application) -> None:
        self._app = app

    def close(self) -> None:
        """Nothing to end."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


@contextlib.asynccontextmanager
async def _over_http(app: Application) -> AsyncIterator[Transport]:
    async with http_server.serve(_Closable(app)) as served:
        transport = HttpTransport(Endpoint(server=served.url))
        yield transport
        await transport.close()


@contextlib.asynccontextmanager
async def _in_process(app: Application) -> AsyncIterator[Transport]:
    transport = InProcessTransport(app, clock=SystemClock())
    yield transport
    await transport.close()


@pytest.fixture(params=[_over_http, _in_process], ids=["http", "in-process"])
def opened(request: pytest.FixtureRequest) -> Opener:
    opener: Opener = request.param
    return opener


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what another task does to the server has no event
            await asyncio.sleep(0.001)


async def test_an_answer_has_its_code_headers_warnings_and_body(opened: Opener) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"X-Kind", b"a"), (b"Warning", b'299 - "one"'), (b"warning", b'299 - "two"')]
        await send({"type": "http.response.start", "status": 418, "headers": headers})
        await send({"type": "http.response.body", "body": b"tea", "more_body": True})
        await send({"type": "http.response.body", "body": b"pot"})

    async with opened(app) as transport, transport.open(Call(method="GET", path="/x")) as answer:
        assert answer.code == 418
        assert answer.headers["x-kind"] == "a"
        assert answer.warnings == ('299 - "one"', '299 - "two"')
        assert await answer.read() == b"teapot"


async def test_path_query_headers_and_body_arrive_as_they_were_sent(api: ScriptedApi, opened: Opener) -> None:
    call = Call(
        method="POST",
        path="/api/v1/a%2Fb",
        query=(("labelSelector", "a in (b,c),d!=ü"), ("empty", "")),
        headers={"X-Me": "1"},
        body=b"\x00body",
    )
    async with opened(api) as transport, transport.open(call) as answer:
        await answer.read()
    asked = api.asked[0]
    assert (asked.method, asked.path, asked.body) == ("POST", "/api/v1/a/b", b"\x00body")
    assert asked.query == {"labelSelector": "a in (b,c),d!=ü", "empty": ""}
    assert asked.headers["x-me"] == "1"


async def test_a_body_can_be_streamed_to_the_server(api: ScriptedApi, opened: Opener) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async with opened(api) as transport, transport.open(Call(method="POST", path="/x", body=parts())) as answer:
        await answer.read()
    assert api.asked[0].body == b"onetwo"


async def test_chunks_arrive_while_the_answer_goes_on(api: ScriptedApi, opened: Opener) -> None:
    call = Call(method="GET", path="/x", query=(("watch", "true"),), timeout_s=None)
    async with opened(api) as transport, transport.open(call) as answer:
        chunks = answer.chunks()
        for name in ("a", "b"):
            api.put(name)
            async with asyncio.timeout(60):
                assert f'"{name}"'.encode() in await anext(chunks)


async def test_leaving_early_lets_the_server_know(api: ScriptedApi, opened: Opener) -> None:
    call = Call(method="GET", path="/x", query=(("watch", "true"),), timeout_s=None)
    async with opened(api) as transport:
        async with transport.open(call):
            await _until(lambda: api.streams == 1)
        await _until(lambda: api.streams == 0)


async def test_a_cancelled_reader_lets_the_server_know(api: ScriptedApi, opened: Opener) -> None:
    async def read(transport: Transport) -> None:
        call = Call(method="GET", path="/x", query=(("watch", "true"),), timeout_s=None)
        async with transport.open(call) as answer:
            async for _ in answer.chunks():
                pass

    async with opened(api) as transport:
        task = asyncio.create_task(read(transport))
        await _until(lambda: api.streams == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _until(lambda: api.streams == 0)


async def test_a_stream_that_breaks_off_is_not_mistaken_for_its_end(api: ScriptedApi, opened: Opener) -> None:
    call = Call(method="GET", path="/x", query=(("watch", "true"),), timeout_s=None)
    async with opened(api) as transport, transport.open(call) as answer:
        api.put("a")
        chunks = answer.chunks()
        await anext(chunks)
        api.cut()
        with pytest.raises(Interrupted):
            await anext(chunks)


async def test_an_answer_that_does_not_come_in_time_is_given_up(api: ScriptedApi, opened: Opener) -> None:
    api.open.clear()
    async with opened(api) as transport:
        with pytest.raises(TimedOut, match=r"GET /x: no complete answer within 0\.05 s") as caught:
            async with transport.open(Call(method="GET", path="/x", timeout_s=0.05)):
                pass
        assert caught.value.uncertain
        api.open.set()


async def test_a_closed_transport_makes_no_calls(api: ScriptedApi, opened: Opener) -> None:
    async with opened(api) as transport:
        await transport.close()
        with pytest.raises(Unreachable):
            async with transport.open(Call(method="GET", path="/x")):
                pass
    assert api.asked == []


async def test_closing_ends_the_streams_under_way(api: ScriptedApi, opened: Opener) -> None:
    call = Call(method="GET", path="/x", query=(("watch", "true"),), timeout_s=None)
    async with opened(api) as transport, transport.open(call) as answer:
        await _until(lambda: api.streams == 1)
        reading = asyncio.ensure_future(anext(answer.chunks()))
        await asyncio.sleep(0)
        await transport.close()
        with pytest.raises(TransportError):
            await reading


async def test_a_closed_port_is_unreachable() -> None:
    transport = HttpTransport(Endpoint(server="http://127.0.0.1:1"))
    with pytest.raises(Unreachable):
        async with transport.open(Call(method="POST", path="/x")):
            pass
    await transport.close()


class _Renewed:
    """Credentials that are good from the second time on."""

    def __init__(self) -> None:
        self.rejected = 0

    async def authorization(self) -> str:
        return f"Bearer {self.rejected}"

    def reject(self) -> bool:
        self.rejected += 1
        return True


async def test_a_call_refused_for_its_credentials_is_sent_again_with_fresh_ones(api: ScriptedApi) -> None:
    async with http_server.serve(_Closable(api)) as served:
        transport = HttpTransport(Endpoint(server=served.url, credentials=_Renewed()))
        api.replies.append(Reply(code=401, reason="Unauthorized"))
        async with transport.open(Call(method="POST", path="/x")) as answer:
            assert answer.code == 200
        assert [asked.headers["authorization"] for asked in api.asked] == ["Bearer 0", "Bearer 1"]
        api.replies.extend([Reply(code=401)] * 2)
        async with transport.open(Call(method="GET", path="/x")) as answer:
            assert answer.code == 401
        await transport.close()


async def test_a_crash_of_the_application_is_an_interruption(clock: FakeClock) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("boom")

    transport = InProcessTransport(app, clock=clock)
    with pytest.raises(Interrupted, match="crashed"):
        async with transport.open(Call(method="GET", path="/x")):
            pass
    await transport.close()


async def test_a_slow_reader_holds_the_application_back(clock: FakeClock) -> None:
    produced = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal produced
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            produced += 1
            if produced == 1000:
                await asyncio.Event().wait()

    transport = InProcessTransport(app, clock=clock)
    async with transport.open(Call(method="GET", path="/x", timeout_s=None)) as answer:
        await clock.settle()
        assert produced < 100
        chunks = answer.chunks()
        for _ in range(200):
            await anext(chunks)
        assert produced >= 200
    # This application never looks whether anyone is left; only closing stops it.
    closing = asyncio.create_task(transport.close())
    await clock.advance(10)
    assert produced == 1000
    await closing


async def test_a_caller_that_is_cancelled_does_not_cancel_the_write(clock: FakeClock) -> None:
    done = asyncio.Event()
    going_on = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await going_on.wait()
        done.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def call() -> None:
        async with transport.open(Call(method="POST", path="/x")):
            pass

    transport = InProcessTransport(app, clock=clock)
    task = asyncio.create_task(call())
    await clock.settle()
    task.cancel()
    await asyncio.wait([task])
    going_on.set()
    await transport.close()
    assert done.is_set()


# --- retries --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def retrying(api: ScriptedApi, clock: FakeClock) -> AsyncIterator[RetryingTransport]:
    transport = RetryingTransport(InProcessTransport(api, clock=clock), clock=clock, rng=random.Random(0))
    yield transport
    await transport.close()


async def _code(transport: Transport, clock: FakeClock, call: Call, wait_s: float = 100) -> int:
    async def run() -> int:
        async with transport.open(call) as answer:
            return answer.code

    task = asyncio.create_task(run())
    await clock.advance(wait_s)
    assert task.done()
    return task.result()


async def test_a_read_is_repeated_after_a_broken_connection(
    api: ScriptedApi, clock: FakeClock, retrying: RetryingTransport
) -> None:
    api.replies.extend([CUT, CUT])
    assert await _code(retrying, clock, Call(method="GET", path="/x")) == 200
    assert len(api.asked) == 3


async def test_a_write_is_not_repeated_after_a_broken_connection(
    api: ScriptedApi, clock: FakeClock, retrying: RetryingTransport
) -> None:
    api.replies.extend([CUT])
    with pytest.raises(Interrupted):
        await _code(retrying, clock, Call(method="POST", path="/x"))
    assert len(api.asked) == 1


@pytest.mark.parametrize("code", [429, 503])
async def test_a_busy_server_is_asked_again_when_it_says_so(
    api: ScriptedApi, clock: FakeClock, retrying: RetryingTransport, code: int
) -> None:
    api.replies.append(Reply(code=code, headers={"retry-after": "7"}))
    task = asyncio.create_task(_code(retrying, clock, Call(method="POST", path="/x"), wait_s=0))
    await asyncio.wait([task])
    assert isinstance(task.exception(), AssertionError)  # it waits
    await clock.advance(6)
    assert len(api.asked) == 1
    await clock.advance(2)
    assert len(api.asked) == 2


async def test_a_refusal_without_a_time_is_the_callers(
    api: ScriptedApi, clock: FakeClock, retrying: RetryingTransport
) -> None:
    api.replies.append(Reply(code=429))
    assert await _code(retrying, clock, Call(method="POST", path="/x")) == 429


async def test_the_last_attempt_is_the_answer(api: ScriptedApi, clock: FakeClock, retrying: RetryingTransport) -> None:
    api.replies.extend([Reply(code=503, headers={"retry-after": "1"})] * 9)
    assert await _code(retrying, clock, Call(method="GET", path="/x")) == 503
    assert len(api.asked) == 5


async def test_requests_with_their_own_timeout_are_not_retried(
    api: ScriptedApi, clock: FakeClock, retrying: RetryingTransport
) -> None:
    api.replies.extend([CUT])
    with pytest.raises(Interrupted):
        await _code(retrying, clock, Call(method="GET", path="/x", retry=False))


# --- broken connections ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
async def test_a_write_on_a_kept_connection_that_breaks_is_sent_once(method: str) -> None:
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                requests.append(await reader.readuntil(b"\r\n\r\n"))
                if len(requests) > 1:
                    break
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                await writer.drain()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    transport = HttpTransport(Endpoint(server=f"http://127.0.0.1:{port}"))
    async with transport.open(Call(method="GET", path="/x")) as answer:
        await answer.read()
    with pytest.raises(Interrupted):
        async with transport.open(Call(method=method, path="/x")):
            pass
    assert len(requests) == 2
    await transport.close()
    listener.close()
    await listener.wait_closed()
