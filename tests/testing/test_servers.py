"""Private servers: they serve, survive what tests do to them, and are never left behind."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from rota.testing.servers import keeper
from rota.testing.servers.etcd import EtcdServer
from rota.testing.servers.postgres import PostgresServer
from rota.testing.servers.processes import Server, ServerError

pytestmark = pytest.mark.slow


class TestPostgres:
    def test_every_database_is_new_and_sorts_text_as_a_language_does(self, postgres_server: PostgresServer) -> None:
        first, second = postgres_server.create_database(), postgres_server.create_database()
        assert first != second
        with psycopg.connect(first) as connection:
            rows = connection.execute(
                "SELECT * FROM (VALUES ('b'), ('B'), ('ab')) AS t (name) ORDER BY name"
            ).fetchall()
        assert [name for (name,) in rows] == ["ab", "b", "B"]
        postgres_server.drop_database(second)
        with contextlib.closing(psycopg.connect(first)):
            postgres_server.drop_database(first)
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(first)

    def test_a_wrong_password_is_refused(self, postgres_server: PostgresServer) -> None:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(postgres_server.url_of("postgres", password="wrong"))

    def test_what_was_committed_survives_a_kill(self, private_postgres: Callable[[], PostgresServer]) -> None:
        server = private_postgres()
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE t AS SELECT 42 AS answer")
        before = server.url
        server.kill()
        assert not server.running
        server.start()
        assert server.url == before
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT answer FROM t").fetchone() == (42,)
        server.close()

    def test_a_paused_server_keeps_connections_and_does_not_respond_until_resumed(
        self, private_postgres: Callable[[], PostgresServer]
    ) -> None:
        server = private_postgres()
        with ThreadPoolExecutor(1) as threads, psycopg.connect(server.url) as connection:
            server.pause()
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(server.url, connect_timeout=2)
            answer = threads.submit(lambda: connection.execute("SELECT 1").fetchone())
            with pytest.raises(TimeoutError):
                answer.result(timeout=0.1)
            server.resume()
            assert answer.result(timeout=60) == (1,)
        server.close()

    def test_clients_can_be_cut_off_while_the_server_goes_on(
        self, private_postgres: Callable[[], PostgresServer]
    ) -> None:
        server = private_postgres()
        with psycopg.connect(server.url) as connection:
            assert server.disconnect_clients() == 1
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        server.close()

    def test_a_killed_and_closed_server_leaves_no_shared_memory(
        self, private_postgres: Callable[[], PostgresServer]
    ) -> None:
        server = private_postgres()
        mine = _shared_memory_of(server.folder)
        assert mine in _shared_memory()
        server.kill()
        server.close()
        assert mine not in _shared_memory()


class TestEtcd:
    def test_what_was_acknowledged_survives_a_kill(self, private_etcd: Callable[[], EtcdServer]) -> None:
        server = private_etcd()
        key, value = (base64.b64encode(word).decode() for word in (b"key", b"value"))
        _ask_etcd(server, "kv/put", {"key": key, "value": value})
        server.kill()
        server.start()
        found = _ask_etcd(server, "kv/range", {"key": key})
        assert isinstance(found["kvs"], list)
        assert found["kvs"][0]["value"] == value
        server.close()

    def test_a_quota_makes_a_full_database(self) -> None:
        value = base64.b64encode(bytes(1_000_000)).decode()
        with EtcdServer(quota_backend_bytes=2_000_000) as server:

            def fill() -> None:
                for number in range(10):
                    _ask_etcd(server, "kv/put", {"key": base64.b64encode(b"%d" % number).decode(), "value": value})

            with pytest.raises(urllib.error.HTTPError) as refused:
                fill()
            with refused.value as answer:
                assert b"database space exceeded" in answer.read()


def _shared_memory() -> set[str]:
    """Identifiers of System V segments on this machine."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


def _shared_memory_of(folder: Path) -> str:
    """The identifier of the segment of the PostgreSQL that lives in this folder."""
    return (folder / "data/postmaster.pid").read_text().splitlines()[6].split()[1]


def _ask_etcd(server: EtcdServer, path: str, body: dict[str, str]) -> dict[str, object]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v3/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        decoded: dict[str, object] = json.load(answer)
        return decoded


@pytest.mark.etcd
class TestEveryServer:
    """Shown on etcd, which starts fastest; the code is common to all."""

    def test_restarting_keeps_the_port(self, private_etcd: Callable[[], EtcdServer]) -> None:
        server = private_etcd()
        before = server.url
        server.restart()
        assert server.answers()
        assert server.url == before
        server.close()

    def test_closing_ends_the_process_and_removes_the_folder(self) -> None:
        with EtcdServer() as server:
            pid, folder = server.pid, server.folder
            assert keeper.family(pid)
            assert folder.exists()
        assert not keeper.family(pid)
        assert not folder.exists()
        server.close()

    def test_a_paused_server_can_be_closed(self) -> None:
        with EtcdServer() as server:
            pid = server.pid
            server.pause()
        assert not keeper.family(pid)

    def test_a_taken_port_makes_the_first_start_choose_another(self) -> None:
        with EtcdServer() as first:
            second = EtcdServer()
            second.port = first.port
            with second:
                assert second.port != first.port
                assert second.answers()

    def test_a_program_that_ends_at_once_is_reported_with_its_last_words(self) -> None:
        server = _Hopeless("hopeless")
        with pytest.raises(ServerError, match=r"(?s)ended while it started.*no such luck"):
            server.start()
        server.close()
        assert not server.folder.exists()

    def test_a_server_that_does_not_run_cannot_be_paused(self) -> None:
        server = _Hopeless("hopeless")
        with pytest.raises(ServerError, match="does not run"):
            server.pause()
        server.close()

    @pytest.mark.postgres
    @pytest.mark.parametrize(
        ("victim", "kind"), [("owner", "EtcdServer"), ("keeper", "EtcdServer"), ("owner", "PostgresServer")]
    )
    def test_a_killed_owner_or_keeper_leaves_no_server_behind(self, victim: str, kind: str) -> None:
        script = (
            "import sys; from rota.testing.servers.etcd import EtcdServer;"
            f"from rota.testing.servers.postgres import PostgresServer; server = {kind}(); server.start();"
            "print(server.pid, server._process.pid, server.folder, flush=True); sys.stdin.read()"
        )
        owner = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with owner:
            assert owner.stdout is not None
            pid, keeper_pid, folder = owner.stdout.readline().split()
            memory = _shared_memory_of(Path(folder)) if kind == "PostgresServer" else "none"
            exits = [os.pidfd_open(int(each)) for each in (pid, keeper_pid)]
            os.kill(owner.pid if victim == "owner" else int(keeper_pid), signal.SIGKILL)
            for each in exits:
                assert select.select([each], [], [], 10)[0], "still alive after 10 s"
                os.close(each)
            if victim == "owner":
                assert not Path(folder).exists()
                assert memory not in _shared_memory()
            else:
                shutil.rmtree(folder)


class _Hopeless(Server):
    """A server that says why it cannot start, and ends."""

    def choose_ports(self) -> None:
        self.port = 0

    @property
    def url(self) -> str:
        return "none://"

    def command(self) -> list[str]:
        return ["/bin/sh", "-c", "echo no such luck; exit 1"]

    def answers(self) -> bool:
        return False
