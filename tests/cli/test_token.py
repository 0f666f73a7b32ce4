"""`rota token` against a real `rota up`, over TLS."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.client import kubeconfig
from rota.kit import system
from rota.pki import pinning

ROTA = str(Path(sys.executable).with_name("rota"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data folder of a cluster that runs."""
    folder = tmp_path_factory.mktemp("rota")
    with subprocess.Popen(
        [ROTA, "up", "--workers", "0", "--data", str(folder), "--store", "memory://", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any("Rota is up" in line for line in iter(process.stdout.readline, ""))
        yield folder
        process.send_signal(signal.SIGINT)


def rota(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return subprocess.run(
        [ROTA, "token", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**known, "ROTA_HOME": str(home), **environment},
    )


def test_a_token_is_made_listed_and_taken_back(home: Path) -> None:
    made = rota(home, "create", "--ttl", "30m", "--description", "rack 7")
    assert (made.returncode, made.stderr) == (0, "")
    assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}\n", made.stdout)
    identifier, secret = made.stdout.strip().split(".")
    listed = rota(home, "list").stdout
    assert identifier in listed
    assert "rack 7" in listed
    assert secret not in listed
    gone = rota(home, "delete", made.stdout.strip())
    assert gone.stdout == f"token {identifier} deleted\n"
    assert identifier not in rota(home, "list").stdout


def test_programs_get_json(home: Path) -> None:
    made = json.loads(rota(home, "create", "--ttl", "0", "--json").stdout)
    assert made["expires"] is None
    assert made["token"].startswith(f"{made['id']}.")
    endpoint = kubeconfig.load(home / "kubeconfig", clock=system.SystemClock())
    assert endpoint.certificate_authority is not None
    assert (made["server"], made["ca_hash"]) == (endpoint.server, pinning.pin(endpoint.certificate_authority))
    (listed,) = [one for one in json.loads(rota(home, "list", "--json").stdout) if one["id"] == made["id"]]
    assert "token" not in listed
    deleted = json.loads(rota(home, "delete", made["id"], "--json").stdout)
    assert deleted == {"deleted": [made["id"]], "missing": []}


def test_the_join_command_is_complete(home: Path) -> None:
    said = rota(home, "create", "--join-command").stdout.split()
    endpoint = kubeconfig.load(home / "kubeconfig", clock=system.SystemClock())
    assert endpoint.certificate_authority is not None
    assert said[:5] == ["rota", "worker", "--join", endpoint.server, "--token"]
    assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", said[5])
    assert said[6:] == ["--ca-hash", pinning.pin(endpoint.certificate_authority)]


def test_the_kubeconfig_of_the_environment_counts_first(home: Path, tmp_path: Path) -> None:
    done = rota(tmp_path, "list", KUBECONFIG=str(home / "kubeconfig"))
    assert done.returncode == 0, done.stderr
    assert rota(tmp_path, "list").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["delete", "zzzzzz"], "there is no token zzzzzz; see 'rota token list'"),
        (["delete", "nonsense"], "is no token; its id has six letters and digits"),
        (["create", "--ttl", "soon"], "is no duration; write 30m, 24h or 7d"),
        (["creat"], "Did you mean 'create'?"),
    ],
)
def test_mistakes_get_one_line(arguments: list[str], words: str, home: Path) -> None:
    done = rota(home, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_cluster_that_is_not_there_gets_one_line(tmp_path: Path) -> None:
    done = rota(tmp_path, "list")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "run 'rota up'" in done.stderr


def test_a_server_that_does_not_answer_gets_one_line(home: Path, tmp_path: Path) -> None:
    text = (home / "kubeconfig").read_text()
    (tmp_path / "kubeconfig").write_text(re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:1", text))
    done = rota(tmp_path, "list")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is `rota up` running?" in done.stderr


def test_the_users_own_kubeconfig_is_never_taken_by_chance(home: Path, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_bytes((home / "kubeconfig").read_bytes())
    assert rota(tmp_path / "nothing", "list", HOME=str(tmp_path)).returncode == 2
