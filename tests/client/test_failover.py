"""Several servers of one cluster: when calls go on with the next, and when that is not theirs to decide."""

import asyncio

import pytest

from rota.client.endpoints import Endpoint, EndpointError
from rota.client.transports.failover import FailoverTransport
from rota.client.transports.http import HttpTransport
from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.replaceable import ReplaceableTransport
from rota.client.transports.transport import Call, Interrupted, Transport, Unreachable
from rota.kit.system import SystemClock
from rota.testing.scripted_api import CUT, Reply, ScriptedApi

CLOCK = SystemClock()
#: Port 9 discards; nobody listens there on a machine where tests run.
DEAD = HttpTransport(Endpoint(server="http://127.0.0.1:9"))
READ, WRITE = Call(method="GET", path="/x"), Call(method="POST", path="/x", body=b"{}")


def to(api: ScriptedApi) -> Transport:
    return InProcessTransport(api, clock=CLOCK)


async def code(transport: Transport, call: Call) -> int:
    async with transport.open(call) as answer:
        return answer.code


async def test_a_call_that_never_left_goes_to_the_next_server_and_so_do_all_after_it() -> None:
    second, third = ScriptedApi(), ScriptedApi()
    transport = FailoverTransport([DEAD, to(second), to(third)])
    for call in (WRITE, READ, WRITE):
        assert await code(transport, call) == 200
    assert (len(second.asked), len(third.asked)) == (3, 0)
    await transport.close()


async def test_a_call_that_broke_off_is_not_sent_twice_but_the_next_one_goes_elsewhere() -> None:
    first, second = ScriptedApi(), ScriptedApi()
    first.replies.append(CUT)
    transport = FailoverTransport([to(first), to(second)])
    with pytest.raises(Interrupted):
        await code(transport, WRITE)
    assert await code(transport, WRITE) == 200
    assert (len(first.asked), len(second.asked)) == (1, 1)
    await transport.close()


async def test_reads_ask_the_next_server_when_one_cannot_serve_and_writes_do_not() -> None:
    first, second = ScriptedApi(), ScriptedApi()
    first.replies.append(Reply(code=503))
    transport = FailoverTransport([to(first), to(second)])
    assert await code(transport, READ) == 200
    second.replies.append(Reply(code=503))
    assert await code(transport, WRITE) == 503
    assert (len(first.asked), len(second.asked)) == (1, 2)
    await transport.close()


async def test_without_an_answer_each_server_was_asked_once() -> None:
    apis = [ScriptedApi(), ScriptedApi()]
    for api in apis:
        api.replies.append(Reply(code=503))
    transport = FailoverTransport([to(api) for api in apis])
    assert await code(transport, READ) == 503
    assert [len(api.asked) for api in apis] == [1, 1]
    with pytest.raises(Unreachable):
        await code(FailoverTransport([DEAD, DEAD]), READ)
    await transport.close()


def test_every_address_is_checked() -> None:
    with pytest.raises(EndpointError, match="'b:6443' is no server address"):
        Endpoint(server="https://a:6443", fallbacks=("b:6443",))


async def test_the_streams_of_a_server_that_does_not_answer_are_broken_off() -> None:
    """A machine without power closes nothing: its streams would just be quiet."""
    told: list[int] = []
    transport = FailoverTransport([DEAD, to(ScriptedApi())], interrupt=told.append)
    assert await code(transport, READ) == 200
    assert told == [0]
    second, third = ScriptedApi(), ScriptedApi()
    second.replies.append(Reply(code=503))
    transport = FailoverTransport([to(second), to(third)], interrupt=told.append)
    assert await code(transport, READ) == 200
    assert told == [0]


async def test_a_stream_over_http_can_be_broken_off() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(endless, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = HttpTransport(Endpoint(server=f"http://127.0.0.1:{port}"))
        async with transport.open(Call(method="GET", path="/x", timeout_s=None)) as answer:
            pieces = answer.chunks()
            assert await anext(pieces) == b"{}"
            transport.interrupt()
            with pytest.raises(Interrupted, match="does not answer"):
                await anext(pieces)
        await transport.close()


async def test_a_way_can_be_replaced_while_it_is_used() -> None:
    first, second = ScriptedApi(), ScriptedApi()
    transport = ReplaceableTransport(to(first))
    assert await code(transport, READ) == 200
    await transport.replace(to(second))
    assert await code(transport, WRITE) == 200
    assert (len(first.asked), len(second.asked)) == (1, 1)
    await transport.close()
