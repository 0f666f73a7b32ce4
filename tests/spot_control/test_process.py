"""The controller as a process beside an API server: its turn, its metrics, its end."""

import contextlib
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.testing import manifests
from rota.testing.live import LiveServer

ROTA = str(Path(sys.executable).with_name("rota"))
PATIENCE_S = 60.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/rota-spot-controller"
pytestmark = pytest.mark.slow


@contextlib.contextmanager
def controlling(server: LiveServer) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A controller, and where its metrics are."""
    process = subprocess.Popen(
        [ROTA, "spot-controller", "--server", server.url, "--http", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"Acting on notices of nodes at {server.url}")
        yield process, process.stdout.readline().removeprefix("Metrics at ").rstrip(".\n")
    finally:
        process.kill()
        process.communicate()


def wait(condition: Callable[[], Any]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.05)


def taints(server: LiveServer, node: str) -> set[str]:
    found = server.request("GET", f"/api/v1/nodes/{node}")[1]
    return {one["key"] for one in found.get("spec", {}).get("taints") or ()}


def holder(server: LiveServer) -> str:
    return str(server.request("GET", LEASE)[1].get("spec", {}).get("holderIdentity") or "")


def leads(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
        return "rota_spot_leads 1.0" in answer.read().decode()


@pytest.mark.timeout(180)
def test_one_of_two_processes_acts_on_a_notice_and_the_other_takes_over() -> None:
    with LiveServer() as server:
        for name in ("s1", "s2"):
            server.create("/api/v1/nodes", manifests.node(name, **{"node.kubernetes.io/capacity": "spot"}))
        with controlling(server) as (first, page):
            wait(lambda: leads(page))
            with controlling(server) as (_, other):
                assert not leads(other)
                notice(server, "s1")
                wait(lambda: "rota.dev/leaving" in taints(server, "s1"))
                first.send_signal(signal.SIGINT)
                rest, _ = first.communicate(timeout=PATIENCE_S)
                assert rest.endswith("The spot controller has stopped.\n")
                assert first.returncode == 0
                wait(lambda: leads(other))
                notice(server, "s2")
                wait(lambda: "rota.dev/leaving" in taints(server, "s2"))
        assert holder(server)


def notice(server: LiveServer, node: str) -> None:
    said = subprocess.run(
        [ROTA, "spot", "notice", node, "--in", "60s", "--server", server.url],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert said.stdout == f"node/{node} goes in 60 s\n"
