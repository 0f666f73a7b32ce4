"""Certificates from files: shown as they are, also after they were exchanged."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.cli import certificates
from rota.kit import system
from rota.kit.errors import UserError
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Names, Subject


def write(folder: Path) -> tuple[Path, Path]:
    """Another certificate of another authority, put where the last one was as Kubernetes exchanges Secrets."""
    now = system.SystemClock().now()
    names = Names.of(["127.0.0.1", "localhost"])
    made = Authority.create(now=now).issue(
        Subject(common_name="x"), purpose=Purpose.SERVER, now=now, lifetime_s=3600, names=names
    )
    for name, content in (("tls.crt", made.certificate), ("tls.key", made.key)):
        (folder / f"{name}.new").write_bytes(content)
        (folder / f"{name}.new").replace(folder / name)
    return folder / "tls.crt", folder / "tls.key"


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """Where somebody serves with the certificate in the folder."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=certificates.context(*write(tmp_path)))
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def shown(port: int, name: str | None) -> str:
    """The certificate that somebody is shown who asks for a server by its name, or by none."""

    def connect() -> str:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection(("127.0.0.1", port), 10)
        with plain, context.wrap_socket(plain, server_hostname=name) as secured:
            return ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True) or b"")

    return await asyncio.to_thread(connect)


@pytest.mark.parametrize("name", ["localhost", None])
async def test_new_connections_get_the_current_certificate(tmp_path: Path, port: int, name: str | None) -> None:
    assert await shown(port, name) == (tmp_path / "tls.crt").read_text()
    for _ in range(2):
        write(tmp_path)
        assert await shown(port, name) == (tmp_path / "tls.crt").read_text()


@pytest.mark.parametrize("harm", ["garbage", "gone"])
async def test_files_that_cannot_be_used_change_nothing_and_that_is_said_once(
    tmp_path: Path, port: int, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = (tmp_path / "tls.crt").read_text()
    if harm == "gone":
        (tmp_path / "tls.key").unlink()
    else:
        (tmp_path / "tls.crt").write_text("garbage")
    for _ in range(2):
        assert await shown(port, "localhost") == before
    assert [one.message for one in caplog.records].count("certificate not reloaded; the old one stays in use") == 1
    write(tmp_path)
    assert await shown(port, "localhost") == (tmp_path / "tls.crt").read_text() != before


def test_unusable_files_are_reported_at_the_start(tmp_path: Path) -> None:
    certificate, key = write(tmp_path)
    certificate.write_text("garbage")
    with pytest.raises(UserError, match="the certificate, key or CA cannot be used"):
        certificates.context(certificate, key)
