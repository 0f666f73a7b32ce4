"""Masters that are killed without a word: the same one comes back and goes on at once, or another takes over."""

import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROTA = str(Path(sys.executable).with_name("rota"))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PODS = "/api/v1/namespaces/default/pods"

pytestmark = pytest.mark.slow


class Master:
    """A `rota up` that serves HTTP without TLS, and can be killed."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self._process = process
        self._url = url

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def ask(self, path: str, body: Any = None) -> Any:
        payload = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, payload, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def add_node(self, name: str) -> None:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        # A node that is not ready would receive no pods.
        status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        self.ask("/api/v1/nodes", {"metadata": {"name": name}, "status": status})

    def add_pod(self, name: str) -> None:
        self.ask(PODS, {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})

    def bound(self, name: str) -> bool:
        return bool(self.ask(f"{PODS}/{name}")["spec"].get("nodeName"))

    def lease(self, name: str) -> dict[str, Any]:
        found = {one["metadata"]["name"]: one["spec"] for one in self.ask(LEASES)["items"]}
        spec: dict[str, Any] = found.get(name, {})
        return spec


@contextlib.contextmanager
def master(store: Path, data: Path, *options: str) -> Iterator[Master]:
    where = ["--store", f"sqlite:///{store}", "--data", str(data), "--port", "0", "--http", "0"]
    command = [ROTA, "up", "--workers", "0", *where, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        try:
            url = next(line.split()[1] for line in lines if line.strip().startswith("http "))
            assert any("Rota is up" in line for line in lines)
            yield Master(process, url)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)


def until(condition: Callable[[], bool]) -> float:
    """Wait for something; how long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + 30
        time.sleep(0.05)
    return time.monotonic() - began


def test_a_master_that_was_killed_has_its_leases_back_at_once(tmp_path: Path) -> None:
    store, data = tmp_path / "rota.db", tmp_path / "data"
    with master(store, data) as first:
        first.add_node("n1")
        first.add_pod("before")
        until(lambda: first.bound("before"))
        until(lambda: bool(first.lease("rota-controllers")))
        held = {name: first.lease(name) for name in ("kube-scheduler", "rota-controllers")}
        first.kill()
    with master(store, data) as again:
        again.add_pod("after")
        until(lambda: again.bound("after"))
        for name, before in held.items():
            now = renewed(again, name, before)
            # Not taken from another after its time, but from its former self, whose term is over by that.
            assert now["holderIdentity"] == before["holderIdentity"]
            assert now["leaseTransitions"] > before["leaseTransitions"]


def renewed(at: Master, name: str, before: dict[str, Any]) -> dict[str, Any]:
    """A lease, as soon as it is not what it was before."""
    until(lambda: at.lease(name)["renewTime"] != before["renewTime"])
    return at.lease(name)


def test_when_the_leading_master_is_killed_another_decides(tmp_path: Path) -> None:
    store, keys = tmp_path / "rota.db", ("--encryption-keys", str(tmp_path / "one" / "encryption-keys.yaml"))
    with master(store, tmp_path / "one") as one:
        one.add_node("n1")
        one.add_pod("before")
        until(lambda: one.bound("before"))
        with master(store, tmp_path / "two", *keys) as two:
            two.add_pod("between")
            until(lambda: two.bound("between"))
            leader = two.lease("kube-scheduler")["holderIdentity"]
            one.kill()
            two.add_pod("after")
            # Three seconds on a machine that has nothing else to do; in virtual time they are exact.
            assert until(lambda: two.bound("after")) < 10
            taken = two.lease("kube-scheduler")
            assert taken["holderIdentity"] != leader
            assert taken["leaseTransitions"] > 0
