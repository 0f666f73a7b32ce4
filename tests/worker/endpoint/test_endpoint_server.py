"""The worker's endpoint behind TLS: who gets in, and what is served."""

import asyncio
import functools
import json

import aiohttp
import pytest
from aiohttp import web
from tests.worker.endpoint.harness import PATIENCE_S, Endpoint, start_pod

from rota.api import users
from rota.client.verbs import Client
from rota.kit import system
from rota.kit.errors import UserError
from rota.pki.authorities import Authority
from rota.pki.certificates import Subject
from rota.worker.endpoint import endpoint_server
from rota.worker.endpoint.client_authentication import ClientCertificateAuthentication

pytestmark = pytest.mark.slow
_LOGS = "/containerLogs/default/p/c"


async def test_only_the_api_server_gets_in(endpoint: Endpoint) -> None:
    assert await endpoint.get("/healthz") == (200, "ok")
    code, _ = await endpoint.get("/healthz", endpoint.tls(None))
    assert code == 401
    node = Subject(common_name="system:node:w2", organizations=("system:nodes",))
    code, said = await endpoint.get("/healthz", endpoint.tls(node))
    assert (code, said) == (403, "Forbidden (user=system:node:w2)\n")
    code, _ = await endpoint.get("/no/such/path", endpoint.tls(None))
    assert code == 401, "strangers are not told what there is"


async def test_certificates_of_another_authority_are_not_believed(endpoint: Endpoint) -> None:
    stranger = Authority.create(now=system.SystemClock().now())
    forged = Subject(common_name="kube-apiserver-kubelet-client", organizations=(users.MASTERS,))
    with pytest.raises(aiohttp.ClientError):
        await endpoint.get("/healthz", endpoint.tls(forged, authority=stranger))


async def test_logs_are_served_in_the_kubelets_words(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "sh", "-c", "echo one; echo two; echo three; sleep 300")
    assert await endpoint.get(f"{_LOGS}?tailLines=3&follow=false") == (200, "one\ntwo\nthree\n")
    assert await endpoint.get(f"{_LOGS}?tailLines=1") == (200, "three\n")
    assert await endpoint.get(f"{_LOGS}?limitBytes=5") == (200, "one\nt")
    code, said = await endpoint.get(f"{_LOGS}?timestamps=true&tailLines=1")
    assert code == 200
    assert said[:2] == "20"
    assert said.endswith("Z three\n")
    assert await endpoint.get(f"{_LOGS}?sinceTime=2099-01-01T00:00:00Z") == (200, "")


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/containerLogs/default/q/c", (404, 'pod "default/q" is not on node w1\n')),
        ("/containerLogs/default/p/d", (404, 'container "d" not found in pod "p"\n')),
        (f"{_LOGS}?previous=true", (400, 'previous terminated container "c" in pod "p" not found\n')),
        (f"{_LOGS}?tailLines=many", (400, "tailLines must be a number\n")),
        (f"{_LOGS}?sinceTime=soon", (400, "sinceTime is no time\n")),
    ],
)
async def test_what_cannot_be_had_is_refused_with_a_line_of_text(
    client: Client, endpoint: Endpoint, path: str, answer: tuple[int, str]
) -> None:
    await start_pod(client, "sleep", "300")
    assert await endpoint.get(path) == answer


async def test_the_endpoint_lists_the_pods_of_the_worker(client: Client, endpoint: Endpoint) -> None:
    await start_pod(client, "true")
    code, said = await endpoint.get("/pods")
    assert code == 200
    assert [one["metadata"]["name"] for one in json.loads(said)["items"]] == ["p"]


async def test_a_taken_port_is_said_to_be_taken() -> None:
    first = endpoint_server.listen("127.0.0.1", 0)
    try:
        with pytest.raises(UserError, match="cannot listen"):
            endpoint_server.listen("127.0.0.1", first.getsockname()[1])
    finally:
        first.close()


async def test_idle_unauthorized_connections_are_closed_and_authorized_ones_are_not(endpoint: Endpoint) -> None:
    lobby = ClientCertificateAuthentication(moment_s=0.2)
    application = web.Application(middlewares=[lobby.guard()])
    application.router.add_get("/", _hello)
    runner = web.AppRunner(application)
    await runner.setup()
    assert runner.server is not None
    tls = endpoint.server_tls()
    served = await asyncio.get_running_loop().create_server(
        functools.partial(lobby.entered, runner.server), "127.0.0.1", 0, ssl=tls
    )
    port = served.sockets[0].getsockname()[1]
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=endpoint.tls())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b"hello")
        silent, other = await asyncio.open_connection("127.0.0.1", port, ssl=endpoint.tls(None))
        async with asyncio.timeout(PATIENCE_S):
            assert await silent.read() == b""
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b"hello")
        for one in (writer, other):
            one.close()
    finally:
        served.close()
        await runner.cleanup()


async def _hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")
