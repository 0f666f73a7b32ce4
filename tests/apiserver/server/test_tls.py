"""The listeners: TLS with a certificate that is renewed while the server runs, and plain HTTP on loopback."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest

from rota.api import users
from rota.apiserver.authentication import authentication_config
from rota.apiserver.server import http_server, tls
from rota.apiserver.server.http_server import Served
from rota.kit import system, tasks
from rota.pki import contexts
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Subject
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass
class Secured:
    """A server behind TLS whose time is the test's."""

    served: Served
    clock: FakeClock
    authority: Authority

    async def shown(self) -> bytes:
        """The certificate that a new client sees."""
        context = ssl.create_default_context()
        # whether it is valid is a matter of the machine's clock, which does not follow the test's
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", self.served.port, ssl=context)
        secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
        certificate = secured.getpeercert(binary_form=True)
        writer.close()
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            await writer.wait_closed()
        assert certificate is not None
        return certificate


@pytest.fixture
async def secured() -> AsyncIterator[Secured]:
    clock = FakeClock(system.SystemClock().now())
    authority = Authority.create(now=clock.now())
    async with (
        ApiServer(clock=clock, signing_in=authentication_config.Settings()) as api,
        tasks.Supervisor("test", clock=clock, rng=system.rng()) as beside,
        tls.serve(api.app, authority, beside=beside, clock=clock, known_as=("api.example",)) as served,
    ):
        yield Secured(served, clock, authority)


@pytest.mark.slow  # an hour of virtual time
async def test_a_running_server_renews_its_certificate(secured: Secured) -> None:
    first = await secured.shown()
    assert await secured.shown() == first
    secured.clock.step_wall(61 * DAY_S)
    await secured.clock.advance(3600)
    assert await secured.shown() != first


@pytest.mark.slow  # an hour of virtual time
async def test_a_connection_that_stands_is_not_touched_by_a_renewal(secured: Secured) -> None:
    context = ssl.create_default_context(cadata=secured.authority.certificate_pem.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", secured.served.port, ssl=context)

    async def ask() -> bytes:
        writer.write(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(60):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
        return head.split(b"\r\n")[0]

    assert await ask() == b"HTTP/1.1 200 OK"
    secured.clock.step_wall(61 * DAY_S)
    await secured.clock.advance(3600)
    assert await ask() == b"HTTP/1.1 200 OK"
    writer.close()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "kubernetes.default.svc", "api.example"])
async def test_a_server_is_known_by_all_its_names(name: str, secured: Secured) -> None:
    context = ssl.create_default_context(cadata=secured.authority.certificate_pem.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", secured.served.port, ssl=context, server_hostname=name)
    writer.close()


async def test_http_2_is_not_promised(secured: Secured) -> None:
    context = ssl.create_default_context(cadata=secured.authority.certificate_pem.decode())
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection("127.0.0.1", secured.served.port, ssl=context)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    writer.close()


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1", 201),
        ("localhost:8001", 201),
        ("[::1]:8001", 201),
        ("evil.example", 403),
        ("evil.example:8001", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
async def test_plain_http_accepts_loopback_host_names_only(host: str, code: int) -> None:
    """A web page in a browser whose host name resolves to loopback is not the administrator."""
    async with (
        ApiServer(signing_in=authentication_config.Settings()) as api,
        http_server.serve(api.app, acting_as=users.ADMINISTRATOR) as served,
        aiohttp.ClientSession() as session,
        session.post(served.url + SELF, json={}, headers={"host": host}) as answer,
    ):
        assert answer.status == code
        if code == 201:
            assert (await answer.json())["status"]["userInfo"]["username"] == "system:admin"


@pytest.mark.parametrize(
    ("begins_s", "lasts_s", "said"), [(-7200.0, 3600.0, "expired at "), (7200.0, 3600.0, "is not valid before ")]
)
async def test_a_certificate_that_is_not_valid_now_is_answered_in_words_and_logged(
    secured: Secured, caplog: pytest.LogCaptureFixture, begins_s: float, lasts_s: float, said: str
) -> None:
    now = secured.clock.now() + begins_s
    shown = secured.authority.issue(
        Subject(common_name="ann", organizations=("system:masters",)),
        purpose=Purpose.CLIENT,
        now=now,
        lifetime_s=lasts_s,
    )
    context = contexts.client(shown, server_authorities=secured.authority.certificate_pem)
    url = f"https://localhost:{secured.served.port}/api/v1/nodes"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
        assert answer.status == 401
        message = (await answer.json())["message"]
    assert message.startswith("Unauthorized: the client certificate of ann ")
    assert said in message
    (line,) = [one for one in caplog.records if "credentials refused" in one.getMessage()]
    assert "ann" in str(line.__dict__) or "ann" in line.getMessage()
