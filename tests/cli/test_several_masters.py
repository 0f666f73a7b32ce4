"""Several `rota up` on one store: a certificate or token of one is good at every other."""

import contextlib
import json
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.client import kubeconfig
from rota.kit import system

ROTA = str(Path(sys.executable).with_name("rota"))

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def master(store: Path, data: Path, *options: str) -> Iterator[str]:
    command = [
        ROTA,
        "up",
        "--workers",
        "0",
        "--store",
        f"sqlite:///{store}",
        "--data",
        str(data),
        "--port",
        "0",
        *options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        try:
            url = next(line.split()[1] for line in lines if line.strip().startswith("api "))
            assert any("Rota is up" in line for line in lines)
            yield url
        finally:
            process.send_signal(signal.SIGINT)


def ask(url: str, config: Path, path: str, body: Any = None, *, token: str = "") -> Any:
    """One request with the credentials of a kubeconfig, or with a token, but at any server."""
    endpoint = kubeconfig.load(config, clock=system.SystemClock())
    context = endpoint.tls()
    headers = {"content-type": "application/json"}
    if token:
        assert endpoint.certificate_authority is not None
        context = ssl.create_default_context(cadata=endpoint.certificate_authority.decode())
        headers["authorization"] = f"Bearer {token}"
    payload = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, payload, headers)
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return json.loads(answer.read())


def test_certificates_and_tokens_of_one_master_are_good_at_the_other(tmp_path: Path) -> None:
    store, first, second = tmp_path / "rota.db", tmp_path / "first", tmp_path / "second"
    keys = first / "encryption-keys.yaml"
    with master(store, first) as one, master(store, second, "--encryption-keys", str(keys)) as other:
        whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        for url in (one, other):
            for config in (first / "kubeconfig", second / "kubeconfig"):
                assert ask(url, config, whoami, {})["status"]["userInfo"]["username"] == "rota-admin"
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        ask(one, first / "kubeconfig", accounts, {"metadata": {"name": "robot"}})
        made = ask(one, first / "kubeconfig", f"{accounts}/robot/token", {"spec": {}})
        said = ask(other, second / "kubeconfig", whoami, {}, token=made["status"]["token"])
        assert said["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
        authorities = {
            yaml.safe_load((data / "kubeconfig").read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
            for data in (first, second)
        }
        assert len(authorities) == 1


def test_a_master_without_the_clusters_key_file_does_not_start(tmp_path: Path) -> None:
    store = tmp_path / "rota.db"
    with master(store, tmp_path / "first"):
        command = [
            ROTA,
            "up",
            "--workers",
            "0",
            "--store",
            f"sqlite:///{store}",
            "--data",
            str(tmp_path / "second"),
            "--port",
            "0",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "the store is encrypted with the key" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_restart_keeps_the_authority(tmp_path: Path) -> None:
    store, data = tmp_path / "rota.db", tmp_path / "data"
    with master(store, data):
        before = (data / "kubeconfig").read_bytes()
    kept = tmp_path / "kept"
    kept.write_bytes(before)
    with master(store, data) as url:
        assert ask(url, kept, "/version")["major"]
        assert ask(url, kept, "/api/v1/namespaces")["items"]
