"""An authority that is known by its hash alone."""

import asyncio
import contextlib
import hashlib
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.kit.system import SystemClock
from rota.pki import contexts, pinning
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Identity, Names, Subject
from rota.pki.pinning import PinMismatch


@contextlib.asynccontextmanager
async def serving(identity: Identity) -> AsyncIterator[int]:
    def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    # no authorities for clients here: OpenSSL would complete the chain from them
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    contexts.use(tls, identity)
    server = await asyncio.start_server(leave, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


def issued(authority: Authority, *, with_root: bool = True) -> Identity:
    now = SystemClock().now()
    made = authority.issue(
        Subject(common_name="s"), purpose=Purpose.SERVER, now=now, lifetime_s=DAY_S, names=Names.of(["127.0.0.1"])
    )
    chain = made.certificate + (authority.signing_pem if with_root else b"")
    return Identity(certificate=chain, key=made.key)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create(now=SystemClock().now())


async def test_the_authority_is_found_by_its_hash(authority: Authority) -> None:
    async with serving(issued(authority)) as port:
        found = await pinning.authority_of("127.0.0.1", port, pinning.pin(authority.certificate_pem))
    assert found == authority.certificate_pem


async def test_a_machine_in_the_middle_is_detected(authority: Authority) -> None:
    other = Authority.create(now=SystemClock().now(), name="rota")
    async with serving(issued(other)) as port:
        with pytest.raises(PinMismatch, match="does not have the authority sha256:"):
            await pinning.authority_of("127.0.0.1", port, pinning.pin(authority.certificate_pem))


async def test_a_server_that_hides_its_root_is_not_believed(authority: Authority) -> None:
    async with serving(issued(authority, with_root=False)) as port:
        with pytest.raises(PinMismatch):
            await pinning.authority_of("127.0.0.1", port, pinning.pin(authority.certificate_pem))


def test_the_hash_is_kubeadms(authority: Authority, tmp_path: Path) -> None:
    """As its documentation has it: openssl x509 -pubkey | openssl ... -outform der | openssl dgst -sha256."""
    path = tmp_path / "ca.crt"
    path.write_bytes(authority.certificate_pem)
    public = subprocess.run(["openssl", "x509", "-pubkey", "-noout", "-in", path], capture_output=True, check=True)
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-outform", "der"], input=public.stdout, capture_output=True, check=True
    )
    assert pinning.pin(authority.certificate_pem) == f"sha256:{hashlib.sha256(der.stdout).hexdigest()}"
