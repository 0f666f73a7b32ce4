"""Opening a store: its content, users and TLS."""

import asyncio
import base64
import contextlib
import http.client
import json
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.kit import system
from rota.store import errors, store_factory
from rota.store.backends.etcd import address, methods
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.keyspace import FORMAT
from rota.testing.servers.etcd import EtcdServer
from rota.testing.store_contract import gather_to, opened, revision_of

pytestmark = [pytest.mark.etcd, pytest.mark.slow]


async def keys(etcd: Connection) -> list[bytes]:
    answer = await etcd.call(methods.RANGE, pb.RangeRequest(key=b"\0", range_end=b"\0"))
    return [kv.key for kv in answer.kvs]


async def open_existing(url: str) -> None:
    store = await store_factory.open_store(url, time=system.SystemClock(), rng=system.rng(), create=False)
    await store.close()


async def test_without_leave_to_create_nothing_is_written(server: EtcdServer, neighbour: Connection) -> None:
    with pytest.raises(errors.BadAddress, match="no store"):
        await open_existing(server.url)
    assert await keys(neighbour) == []
    async with opened(server.url):
        pass
    await open_existing(server.url)
    assert await keys(neighbour) == [b"/rota/meta/format"]


async def test_many_may_make_a_store_at_once(server: EtcdServer) -> None:
    async with contextlib.AsyncExitStack() as stack:
        stores = await asyncio.gather(*(stack.enter_async_context(opened(server.url)) for _ in range(5)))
        revision_of(await stores[0].create("/a/x", b"1"))
        assert [(await store.get("/a/x")) is not None for store in stores] == [True] * 5


async def test_stores_under_different_prefixes_do_not_see_each_other(server: EtcdServer) -> None:
    async with opened(f"{server.url}/one") as one, opened(f"{server.url}/one/two") as two, opened(server.url) as three:
        for store in (one, two, three):
            revision_of(await store.create("/a/x", b""))
        assert [len((await store.list("")).entries) for store in (one, two, three)] == [1, 1, 1]


async def test_a_prefix_with_keys_of_another_program_is_left_alone(server: EtcdServer, neighbour: Connection) -> None:
    await neighbour.call(methods.PUT, pb.PutRequest(key=b"/rota/something"))
    with pytest.raises(errors.Corrupt, match=r"another program.*another /prefix"):
        async with opened(server.url):
            pass
    assert await keys(neighbour) == [b"/rota/something"]


async def test_a_store_of_a_newer_rota_is_refused(server: EtcdServer, neighbour: Connection) -> None:
    await neighbour.call(methods.PUT, pb.PutRequest(key=b"/rota/meta/format", value=b"%d" % (FORMAT + 1)))
    with pytest.raises(errors.NewerFormat):
        async with opened(server.url):
            pass
    assert await keys(neighbour) == [b"/rota/meta/format"]


# Users


@pytest.fixture
def guarded(private_etcd: Callable[[], EtcdServer]) -> EtcdServer:
    """An etcd with users: root, and one who may use /rota/ only."""
    server = private_etcd()

    def ask(path: str, **words: object) -> None:
        url = f"http://127.0.0.1:{server.port}/v3/auth/{path}"
        with urllib.request.urlopen(url, json.dumps(words).encode()) as answer:
            answer.read()

    def base64_of(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    # etcd's HTTP gateway.
    ask("user/add", name="root", password="top secret")
    ask("user/add", name="rota", password="p@ss:word")
    ask("role/add", name="scheduling")
    everything = {"permType": "READWRITE", "key": base64_of("/rota/"), "range_end": base64_of("/rota0")}
    ask("role/grant", name="scheduling", perm=everything)
    ask("user/grant", user="rota", role="scheduling")
    ask("user/grant", user="root", role="root")
    ask("enable")
    return server


def as_user(server: EtcdServer, login: str, path: str = "") -> str:
    return server.url.replace("etcd://", f"etcd://{login}@") + path


async def test_a_user_with_a_role_for_the_prefix_has_all_of_the_store(guarded: EtcdServer) -> None:
    async with opened(as_user(guarded, "rota:p%40ss:word")) as store:
        lease = await store.grant(30)
        revision = revision_of(await store.create("/a/x", b"1", lease=lease))
        async with store.watch("/a/", after=revision) as watch:
            last = revision_of(await store.update("/a/x", b"2", expected=revision))
            assert len(await gather_to(watch, last)) == 1
        assert await store.renew(lease)
        await store.compact(last)
        assert (await store.revision_range()).floor == last


@pytest.mark.parametrize("login", ["rota:wrong", "nobody:p%40ss:word", "rota"])
async def test_a_wrong_password_is_reported_in_one_line(guarded: EtcdServer, login: str) -> None:
    with pytest.raises(errors.AccessDenied, match="check user and password"):
        async with opened(as_user(guarded, login)):
            pass


async def test_missing_users_and_wrong_prefixes_are_refused(guarded: EtcdServer) -> None:
    with pytest.raises(errors.AccessDenied):
        async with opened(guarded.url):
            pass
    with pytest.raises(errors.AccessDenied):
        async with opened(as_user(guarded, "rota:p%40ss:word", "/elsewhere")):
            pass


async def test_a_login_that_ran_out_is_renewed_without_anybody_noticing(guarded: EtcdServer) -> None:
    """etcd forgets its tokens with a restart; calls and watches go on."""
    async with opened(as_user(guarded, "rota:p%40ss:word")) as store:
        start = (await store.revision_range()).revision
        async with store.watch("/a/", after=start) as watch:
            await store.create("/a/x", b"")
            await asyncio.to_thread(guarded.restart)
            outcomes = await asyncio.gather(*(store.create(f"/a/{number}", b"") for number in range(20)))
            last = max(revision_of(outcome) for outcome in outcomes)
            assert len(await gather_to(watch, last)) == 21


async def test_a_url_with_a_user_works_where_etcd_has_none(server: EtcdServer) -> None:
    async with opened(as_user(server, "rota:whatever")) as store:
        revision_of(await store.create("/a/x", b""))


# TLS


class TlsEtcd(EtcdServer):
    """An etcd with TLS and client certificates."""

    def __init__(self, certificates: Path) -> None:
        super().__init__()
        self._certificates = certificates
        for file in certificates.iterdir():
            shutil.copy(file, self.folder / file.name)
            self.own(self.folder / file.name)

    @property
    def url(self) -> str:
        return super().url.replace("etcd:", "etcds:")

    def command(self) -> list[str]:
        plain, tls = f"http://127.0.0.1:{self.port}", f"https://127.0.0.1:{self.port}"
        return [
            *(word.replace(plain, tls) for word in super().command()),
            f"--cert-file={self.folder}/server.pem",
            f"--key-file={self.folder}/server.key",
            f"--trusted-ca-file={self.folder}/ca.pem",
            "--client-cert-auth",
        ]

    def answers(self) -> bool:
        context = ssl.create_default_context(cafile=str(self._certificates / "ca.pem"))
        context.load_cert_chain(self._certificates / "client.pem", self._certificates / "client.key")
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=1, context=context)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/health")
            return b'"true"' in connection.getresponse().read()
        return False


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing; to get it: `apt install openssl`")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "stranger"):
        openssl(
            "req",
            "-x509",
            *new_key,
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
        )
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("server", "client"):
        openssl("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signing)
    return folder


@pytest.fixture(scope="module")
def tls_etcd(certificates: Path) -> Iterator[TlsEtcd]:
    with TlsEtcd(certificates) as server:
        yield server


async def test_tls_with_certificates_on_both_sides(tls_etcd: TlsEtcd, certificates: Path) -> None:
    files = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
    query = "&".join(f"{option}={certificates / file}" for option, file in files.items())
    async with opened(f"{tls_etcd.url}/tls?{query}") as store:
        start = (await store.revision_range()).revision
        async with store.watch("/a/", after=start) as watch:
            last = revision_of(await store.create("/a/x", b"1"))
            assert len(await gather_to(watch, last)) == 1


def test_a_key_of_another_certificate_is_refused_before_anything_is_sent(certificates: Path) -> None:
    with pytest.raises(errors.BadAddress, match="private key of cert"):
        address.parse(f"etcds://db?cert={certificates}/client.pem&key={certificates}/server.key")


@pytest.mark.parametrize(
    "files",
    [
        {"ca": "stranger.pem", "cert": "client.pem", "key": "client.key"},
        {"ca": "ca.pem"},
        {"ca": "ca.pem", "cert": "stranger.pem", "key": "stranger.key"},
    ],
)
async def test_tls_with_the_wrong_certificates_says_what_to_check(
    tls_etcd: TlsEtcd, certificates: Path, files: dict[str, str]
) -> None:
    query = "&".join(f"{option}={certificates / file}" for option, file in files.items())
    with pytest.raises(errors.Unavailable, match="check the URL's ca, cert and key"):
        async with opened(f"{tls_etcd.url}?{query}"):
            pass


async def test_a_plain_url_for_a_server_with_tls_names_the_remedy(tls_etcd: TlsEtcd) -> None:
    with pytest.raises(errors.Unavailable, match="etcds://"):
        async with opened(tls_etcd.url.replace("etcds:", "etcd:")):
            pass
