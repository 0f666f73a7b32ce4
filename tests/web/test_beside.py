"""The dashboard beside a stock Kubernetes, and before a master that goes away and comes back."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.conftest import ROTA, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from rota.testing.servers.kubernetes import StockApiServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    # A page waits up to a minute for each of several things on a busy machine.
    pytest.mark.timeout(600),
]


@contextlib.contextmanager
def running(*command: str, until: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command, and the line that it prints when it is ready."""
    with subprocess.Popen(
        [ROTA, *command], stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        assert process.stdout is not None
        try:
            yield process, next(line for line in iter(process.stdout.readline, "") if until in line)
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


def rota(config: Path, *arguments: str, stdin: str = "") -> str:
    environment = {**os.environ, "KUBECONFIG": str(config)}
    done = subprocess.run([ROTA, *arguments], env=environment, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_stock_cluster_is_shown_with_the_rights_of_the_kubeconfig(
    browser: "Browser", stock_server: "StockApiServer"
) -> None:
    config = stock_server.kubeconfig()
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dashboard-node"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "dashboard-pod", "namespace": "default"},
        "spec": {"nodeName": "dashboard-node", "containers": [{"name": "main", "image": "none"}]},
    }
    # No controller makes the account here; another test may have.
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    with contextlib.suppress(AssertionError):
        rota(config, "submit", "-", stdin=json.dumps(account))
    for one in (node, pod):
        rota(config, "submit", "-", stdin=json.dumps(one))
    try:
        with running("dashboard", "--kubeconfig", str(config), "--no-open", until="#ticket=") as (_, line):
            url = line.strip().partition("#")[0]
            with visiting(browser, url) as visit:
                visit.page.goto(line.strip())
                # Tests share the server, so other nodes may be there.
                visit.see_like(r"of \d+ nodes? ready")
                visit.open("pods?q=dashboard-pod")
                visit.page.get_by_role("link", name="dashboard-pod", exact=True).click()
                visit.page.get_by_role("heading", name="dashboard-pod").wait_for()
                visit.page.get_by_role("link", name="Why here").click()
                visit.see("This API server does not explain pods")
                visit.page.get_by_role("button", name="Delete").click()
                visit.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
                visit.page.get_by_role("heading", name="Pods", exact=True).wait_for()
            with visiting(browser, url) as stranger:
                stranger.page.goto(url)
                stranger.page.get_by_role("button", name="Sign in").wait_for()
                status = stranger.page.evaluate("async () => (await fetch('/api/v1/namespaces')).status")
                assert status == 401
    finally:
        rota(config, "delete", "node", "dashboard-node")


def test_the_page_goes_on_when_its_master_comes_back(browser: "Browser", tmp_path: Path) -> None:
    """The master is killed while the page is open; its successor at the same address knows the session."""
    command = ["up", "--workers", "0", "--data", str(tmp_path)]
    with running(*command, "--port", "0", "--dashboard-port", "0", until="dashboard ") as (process, line):
        url = line.split()[1]
        assert process.stdout is not None
        assert any("Rota is up" in one for one in iter(process.stdout.readline, ""))
        with visiting(browser, url) as visit:
            visit.page.goto(json.loads(rota(tmp_path / "kubeconfig", "dashboard", "--json"))["url"])
            visit.page.get_by_role("heading", name="Overview").wait_for()
            visit.open("pods")
            visit.see("There are no pods")
            process.kill()
            process.wait()
            visit.see("reconnecting")
            port = url.partition("/dashboard")[0].rpartition(":")[2]
            with running(*command, "--port", "0", "--dashboard-port", port, until="Rota is up"):
                pod = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "later"},
                    "spec": {"containers": [{"name": "main", "image": "none"}]},
                }
                rota(tmp_path / "kubeconfig", "submit", "-", stdin=json.dumps(pod))
                visit.page.get_by_role("link", name="later", exact=True).wait_for()
