"""`rota up`, `backup`, `restore` and `bench` as a user meets them: real processes, exit codes, one-line errors."""

import asyncio
import base64
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from rota.bench import store as bench_store
from rota.cli import up
from rota.store.store_interface import Committed
from rota.testing.store_contract import opened

ROTA = str(Path(sys.executable).with_name("rota"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of the test's own, never the user's."""
    monkeypatch.setenv("ROTA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ROTA_STORE", raising=False)
    return tmp_path / "home"


def rota(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROTA, *arguments], capture_output=True, text=True, check=False, timeout=300)


def fill(path: Path, count: int) -> None:
    async def write() -> None:
        async with opened(f"sqlite:///{path}") as store:
            for number in range(count):
                assert isinstance(await store.create(f"/a/{number}", b"x"), Committed)

    asyncio.run(write())


def listed(path: Path) -> list[str]:
    async def read() -> list[str]:
        async with opened(f"sqlite:///{path}") as store:
            return [entry.key for entry in (await store.list("")).entries]

    return asyncio.run(read())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_starts_says_so_and_stops_on_a_signal(home: Path, number: signal.Signals) -> None:
    with subprocess.Popen([ROTA, "up"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("Rota is up" in line for line in lines)
        assert (home / "rota.db").exists()
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert sorted(path.name for path in home.iterdir()) == [
        "encryption-keys.yaml",
        "kubeconfig",
        "master.lock",
        "rota.db",
        "rota.db.lock",
        "workers",
    ]
    assert home.stat().st_mode & 0o077 == 0
    assert (home / "kubeconfig").stat().st_mode & 0o077 == 0


def test_a_backup_taken_while_up_runs_restores_elsewhere(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    fill(home / "rota.db", 5)
    with subprocess.Popen([ROTA, "up", "--workers", "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Rota is up" in line for line in iter(process.stdout.readline, ""))
        done = rota("backup", str(tmp_path / "b"), "--json")
        process.send_signal(signal.SIGINT)
    assert done.returncode == 0, done.stderr
    entries = json.loads(done.stdout)["entries"]
    done = rota("restore", str(tmp_path / "b"), "--store", f"sqlite:///{tmp_path}/new.db")
    assert done.returncode == 0, done.stderr
    assert f"restored {entries} objects" in done.stdout
    restored = listed(tmp_path / "new.db")
    assert len(restored) == entries
    assert {f"/a/{number}" for number in range(5)} < set(restored)


def one_line_error(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("rota: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_up_and_the_other_verbs_mean_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "elsewhere.db", 3)
    monkeypatch.setenv("ROTA_STORE", f"sqlite:///{tmp_path}/elsewhere.db")
    with subprocess.Popen([ROTA, "up", "--workers", "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "elsewhere.db" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
    done = rota("backup", str(tmp_path / "b"), "--json")
    assert json.loads(done.stdout)["entries"] == len(listed(tmp_path / "elsewhere.db")) > 3
    assert f"objects of sqlite:///{tmp_path}/elsewhere.db as of" in rota("backup", str(tmp_path / "b")).stdout


def test_without_rota_on_the_path_its_full_path_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin of mine" / "rota"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(program), "up"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert up.typed() == f"'{program}'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert up.typed() == "rota"
    monkeypatch.setattr("sys.argv", ["/usr/lib/rota/__main__.py", "up"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert up.typed() == "rota"


@pytest.mark.postgres
def test_waiting_for_a_silent_server_can_be_interrupted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://rota@127.0.0.1:{silent.getsockname()[1]}/rota"
        with subprocess.Popen(
            [ROTA, "up", "--workers", "0", "--store", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            connection.close()


def test_a_data_folder_that_cannot_be_made_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert "set ROTA_HOME" in one_line_error(rota("up", "--data", str(tmp_path / "file" / "data")))
    monkeypatch.setenv("ROTA_HOME", str(tmp_path / "file" / "home"))
    assert "set ROTA_HOME" in one_line_error(rota("bench", "store", "--quick"))


def test_a_wrong_address_gets_one_line(tmp_path: Path) -> None:
    file = str(tmp_path / "b")
    assert "is not the URL of a store" in one_line_error(rota("backup", file, "--store", "ftp://x"))
    assert "there is no store" in one_line_error(rota("backup", file))
    missing = f"sqlite:///{tmp_path}/none/store.db"
    assert "does not exist; create it" in one_line_error(rota("up", "--store", missing))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "scheme", [pytest.param("postgresql", marks=pytest.mark.postgres), pytest.param("etcd", marks=pytest.mark.etcd)]
)
def test_an_unreachable_server_gets_one_line(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}://rota:secret@127.0.0.1:1" + ("/rota" if scheme == "postgresql" else "")
    message = one_line_error(rota("backup", str(tmp_path / "b"), "--store", url))
    assert "127.0.0.1" in message
    assert "secret" not in message


@pytest.mark.postgres
def test_a_wrong_password_gets_one_line(tmp_path: Path, postgres_url: str) -> None:
    head, _, tail = postgres_url.rpartition("@")
    wrong = head.rpartition(":")[0] + ":wrong@" + tail
    message = one_line_error(rota("backup", str(tmp_path / "b"), "--store", wrong))
    assert "password" in message
    assert "wrong@" not in message


def test_a_store_of_a_newer_version_gets_one_line(tmp_path: Path) -> None:
    fill(tmp_path / "store.db", 1)
    connection = sqlite3.connect(tmp_path / "store.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "newer Rota" in one_line_error(rota("up", "--store", f"sqlite:///{tmp_path}/store.db"))


def test_a_damaged_store_or_backup_gets_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"garbage" * 1000)
    assert "damaged" in one_line_error(rota("up", "--store", f"sqlite:///{tmp_path}/store.db"))
    (tmp_path / "b").write_bytes(b"rota-backup\n" + os.urandom(100))
    done = rota("restore", str(tmp_path / "b"), "--store", f"sqlite:///{tmp_path}/new.db")
    assert "truncated or was altered" in one_line_error(done)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "store.db"]


def test_an_encrypted_backup_restores_with_its_key_only(tmp_path: Path) -> None:
    fill(tmp_path / "store.db", 2)
    key, file, new = tmp_path / "key", str(tmp_path / "b"), f"sqlite:///{tmp_path}/new.db"
    url = f"sqlite:///{tmp_path}/store.db"
    assert "there is no key file" in one_line_error(rota("backup", file, "--store", url, "--key", str(key)))
    key.touch(mode=0o600)
    key.write_bytes(base64.b64encode(os.urandom(32)))
    assert rota("backup", file, "--store", url, "--key", str(key)).returncode == 0
    assert "is encrypted; name the key file" in one_line_error(rota("restore", file, "--store", new))
    assert not (tmp_path / "new.db").exists()
    assert rota("restore", file, "--store", new, "--key", str(key)).returncode == 0
    assert listed(tmp_path / "new.db") == ["/a/0", "/a/1"]
    verified = rota("backup", file, "--verify", "--key", str(key))
    assert "2 objects as of revision 3 were restored and are equal" in verified.stdout, verified.stderr


def test_restoring_over_existing_data_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "store.db", 2)
    url = f"sqlite:///{tmp_path}/store.db"
    assert rota("backup", str(tmp_path / "b"), "--store", url).returncode == 0
    assert "holds keys already" in one_line_error(rota("restore", str(tmp_path / "b"), "--store", url))
    assert listed(tmp_path / "store.db") == ["/a/0", "/a/1"]


def test_a_bench_prints_one_object_of_the_promised_shape_and_cleans_up(home: Path) -> None:
    done = rota("bench", "store", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["bench"] == "store"
    assert {"cpu", "cores", "memory_gib"} <= report["machine"].keys()
    assert len(report["results"]) >= 6
    for row in report["results"]:
        assert row.keys() == {"name", "value", "unit", "against", "ratio"}
        assert row["value"] > 0
        assert row["ratio"] > 0
        assert row["against"]
    delivered = [row["value"] for row in report["results"] if "delivered" in row["name"]]
    assert delivered == [1.0]
    assert list(home.iterdir()) == []


def test_a_bench_leaves_the_store_that_it_measured_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "store.db", 3)
    little = bench_store.Effort(rounds=1, single_writes=5, group_writes=64, watchers=3, writes_per_s=50, watch_s=0.2)
    monkeypatch.setattr(bench_store, "QUICK", little)
    bench_store.measure(store_url=f"sqlite:///{tmp_path}/store.db", quick=True)
    assert listed(tmp_path / "store.db") == ["/a/0", "/a/1", "/a/2"]
    assert not list(tmp_path.glob(".bench*"))


@pytest.mark.kubectl
def test_up_serves_the_api_to_kubectl_and_keeps_its_promises(tmp_path: Path) -> None:
    """What an object owns goes with it, and a namespace goes with all that is in it."""
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    with subprocess.Popen([ROTA, "up", "--workers", "0", "--http", "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = next(
                line.split()[1] for line in iter(process.stdout.readline, "") if line.strip().startswith("http ")
            )
            say = [kubectl, "-s", url, "--cache-dir", str(tmp_path / "cache")]

            def kubectl_says(*command: str, given: str = "") -> str:
                done = subprocess.run(
                    [*say, *command], input=given, check=True, capture_output=True, text=True, timeout=90
                )
                return done.stdout

            kubectl_says("create", "ns", "trial")
            kubectl_says("-n", "trial", "create", "configmap", "c", "--from-literal=a=b")
            uid = kubectl_says("-n", "trial", "get", "configmap", "c", "-o", "jsonpath={.metadata.uid}")
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": uid}
            owned = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "ownerReferences": [owner]}}
            kubectl_says("-n", "trial", "create", "-f", "-", given=json.dumps(owned))
            kubectl_says("-n", "trial", "delete", "configmap", "c")
            kubectl_says("-n", "trial", "wait", "--for=delete", "secret/s", "--timeout=60s")
            kubectl_says("delete", "ns", "trial", "--timeout=60s")
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_port_in_use_gets_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "choose another" in one_line_error(rota("up", "--http", port))
        assert "choose another" in one_line_error(rota("up", "--port", port))


@pytest.mark.parametrize(("check", "code"), [("on", 409), ("off", 201)])
def test_up_does_not_overcommit_nodes_unless_conflict_checks_are_off(check: str, code: int) -> None:
    """A pod that does not fit the node is bound only where nobody checks."""
    with subprocess.Popen(
        [ROTA, "up", "--workers", "0", "--http", "0", "--conflict-check", check], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            url = next(
                line.split()[1] for line in iter(process.stdout.readline, "") if line.strip().startswith("http ")
            )
            node = {"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}, "metadata": {"name": "n"}}
            assert post(f"{url}/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node}) == 201
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
            pods = f"{url}/api/v1/namespaces/default/pods"
            pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
            assert post(pods, {"apiVersion": "v1", "kind": "Pod", **pod}) == 201
            binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
            assert post(f"{pods}/p/binding", {"apiVersion": "v1", "kind": "Binding", **binding}) == code
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def post(url: str, body: object) -> int:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code


@pytest.mark.slow
def test_a_second_rota_on_the_same_data_is_refused_and_leaves_the_first_alone(home: Path) -> None:
    command = [ROTA, "up", "--workers", "0", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Rota is up" in line for line in iter(process.stdout.readline, ""))
        before = (home / "kubeconfig").read_text()
        assert "Rota runs already" in one_line_error(rota("up", "--workers", "0", "--port", "0"))
        assert (home / "kubeconfig").read_text() == before
        process.terminate()
        assert process.wait(20) == 0


def test_a_killed_follower_loses_nothing_that_it_confirmed(home: Path, tmp_path: Path) -> None:
    source, folder = tmp_path / "source.db", tmp_path / "history"
    fill(source, 3)
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(base64.b64encode(os.urandom(32)))
    sealed = ("--key", str(key))
    arguments = [ROTA, "backup", str(folder), "--follow", "--json", "--store", f"sqlite:///{source}", *sealed]
    confirmed = 0
    for round_ in range(3):
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None

            async def write(number: int) -> int:
                async with opened(f"sqlite:///{source}") as store:
                    outcome = await store.create(f"/b/{number}", b"y")
                    assert isinstance(outcome, Committed)
                    return outcome.revision

            if not round_:
                confirmed = json.loads(process.stdout.readline())["revision"]
            last = 0
            for number in range(5):
                last = asyncio.run(write(10 * round_ + number))
            while confirmed < last:
                confirmed = json.loads(process.stdout.readline())["revision"]
            process.kill()
    assert "is encrypted; name the key file" in one_line_error(rota("backup", str(folder), "--list"))
    restored = rota("restore", str(folder), "--json", "--store", f"sqlite:///{tmp_path}/restored.db", *sealed)
    assert restored.returncode == 0, restored.stderr
    assert json.loads(restored.stdout)["restored_revision"] >= confirmed
    assert listed(tmp_path / "restored.db") == listed(source)
    windows = json.loads(rota("backup", str(folder), "--list", "--json", *sealed).stdout)["windows"]
    assert len(windows) == 1
    first, base = str(windows[0]["first_revision"]), f"sqlite:///{tmp_path}/base.db"
    assert rota("restore", str(folder), "--revision", first, "--store", base, *sealed).returncode == 0
    assert listed(tmp_path / "base.db") == ["/a/0", "/a/1", "/a/2"]


def test_moments_that_cannot_be_restored_get_one_line(home: Path, tmp_path: Path) -> None:
    for arguments, text in (
        (("restore", str(tmp_path), "--at", "yesterday"), "'yesterday' is no time; write it as"),
        (("restore", str(tmp_path)), "holds no base backup; run `rota backup --follow` first"),
        (("restore", "file", "--revision", "3"), "is not a folder"),
        (("backup", str(tmp_path), "--follow", "--list"), "exclude each other"),
        (("backup", str(tmp_path), "--follow", "--keep", "3"), "--keep is a duration"),
        (("backup", "file", "--keep", "3"), "--keep is for --follow and --every"),
        (("backup", "file", "--http", "0"), "--http is for --follow and --every"),
        (("backup", "s3://bucket/prefix", "--list"), "set AWS_ACCESS_KEY_ID"),
    ):
        done = rota(*arguments, "--store", f"sqlite:///{tmp_path}/new.db")
        assert done.returncode != 0
        assert text in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "new.db").exists()
