"""Containers are asked how they are, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from rota.testing.clocks import FakeClock
from rota.worker import health, probes
from rota.worker.probes import Answer

LOOPBACK = "127.0.0.1"


async def _execute(command: Sequence[str]) -> tuple[int, bytes]:
    return int(command[0]), b"said"


async def _ask(probe: dict[str, Any], ports: dict[str, int] | None = None) -> Answer:
    return await probes.ask(probe, execute=_execute, ports=ports or {}, address=LOOPBACK)


@contextlib.asynccontextmanager
async def _http(status: int) -> AsyncIterator[int]:
    async def answer(request: web.Request) -> web.Response:
        good = request.headers.get("X-Key") == "v" and request.path == "/ready"
        return web.Response(status=status if good else 400)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _grpc(answers: dict[bytes, bytes]) -> AsyncIterator[int]:
    grpc = pytest.importorskip("grpc")
    aio = pytest.importorskip("grpc.aio")

    async def check(request: bytes, context: Any) -> bytes:
        if request not in answers:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return answers[request]

    server = aio.server()
    handlers = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("grpc.health.v1.Health", handlers)])
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def test_a_command_answers_with_its_code() -> None:
    assert await _ask({"exec": {"command": ["0"]}}) == (True, "said")
    assert await _ask({"exec": {"command": ["3"]}}) == (False, "said")


@pytest.mark.parametrize(("status", "good"), [(200, True), (302, True), (404, False), (500, False)])
async def test_an_http_answer_is_good_below_400(status: int, good: bool) -> None:
    async with _http(status) as port:
        wanted = {"path": "ready", "port": "web", "httpHeaders": [{"name": "X-Key", "value": "v"}]}
        assert (await _ask({"httpGet": wanted}, {"web": port})).success is good


async def test_a_port_answers_by_being_open() -> None:
    async with _http(200) as port:
        assert (await _ask({"tcpSocket": {"port": port}})).success
    assert not (await _ask({"tcpSocket": {"port": port}})).success
    assert (await _ask({"tcpSocket": {"port": "none"}})).message == "there is no port none"


@pytest.mark.slow
async def test_a_grpc_service_answers_whether_it_serves() -> None:
    answers = {health.request(""): b"\x08\x01", health.request("down"): b"\x08\x02", health.request("new"): b""}
    async with _grpc(answers) as port:
        assert await _ask({"grpc": {"port": port}}) == (True, "")
        down = await _ask({"grpc": {"port": port, "service": "down"}})
        assert down == (False, 'service unhealthy (responded with "NOT_SERVING")')
        assert '"UNKNOWN"' in (await _ask({"grpc": {"port": port, "service": "new"}})).message
        missing = await _ask({"grpc": {"port": port, "service": "x"}})
        assert missing == (False, "gRPC health check failed: NOT_FOUND: unknown service")


@pytest.mark.slow
async def test_an_open_port_without_grpc_is_not_healthy() -> None:
    async with _http(200) as port:
        assert not (await _ask({"grpc": {"port": port}, "timeoutSeconds": 1})).success


async def test_a_worker_without_grpc_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("rota.worker.health.importlib.import_module", missing)
    answer = await _ask({"grpc": {"port": 1}})
    assert not answer.success
    assert "pip install grpcio" in answer.message


@pytest.mark.slow
async def test_no_answer_in_time_is_a_bad_answer() -> None:
    async def never(_: Sequence[str]) -> tuple[int, bytes]:
        await asyncio.sleep(60)
        return 0, b""

    answer = await probes.ask({"exec": {"command": []}, "timeoutSeconds": 0.3}, execute=never, ports={}, address="")
    assert answer == (False, "no answer within 0.3s")


async def test_probes_are_asked_in_their_rhythm() -> None:
    clock, told = FakeClock(), list[Answer]()
    probe = {"exec": {"command": ["0"]}, "initialDelaySeconds": 5, "periodSeconds": 3}
    asking = asyncio.create_task(
        probes.run_probe(probe, told.append, execute=_execute, ports={}, address="", clock=clock)
    )
    await clock.settle()
    await clock.advance(4)
    assert told == []
    await clock.advance(1)
    assert len(told) == 1
    await clock.advance(6)
    assert len(told) == 3
    asking.cancel()
    await asyncio.wait([asking])


@given(st.integers(min_value=0, max_value=2**40))
def test_any_status_that_is_written_can_be_read(value: int) -> None:
    assert health.status(b"\x08" + health._varint(value)) == value


@given(st.binary(max_size=20))
def test_any_answer_is_a_status_or_no_answer(answer: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert health.status(answer) >= 0
