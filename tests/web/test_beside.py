"""The dashboard beside a stock Kubernetes, before a master that comes back, and before three of which one is killed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.conftest import EVERYWHERE, ROTA, Visit, visiting

from rota.testing.process_cluster import ProcessCluster

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


def look_everywhere(visit: Visit) -> None:
    """Open every page: each one comes to rest, and shows something or says why not."""
    for path in EVERYWHERE:
        visit.open(path)
        visit.settled()
        assert visit.page.get_by_text("cannot be read").count() == 0, path


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
                # Exec has no way through this server, so it is not offered, and the page says why.
                for tab in ("Terminal", "Files"):
                    barred = visit.page.get_by_role("link", name=tab, disabled=True)
                    barred.wait_for()
                    assert "passes no terminals on" in (barred.get_attribute("title") or "")
                visit.page.get_by_role("link", name="Why here").click()
                visit.see("This API server does not explain pods")
                visit.page.get_by_role("button", name="Delete").click()
                visit.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
                visit.page.get_by_role("heading", name="Pods", exact=True).wait_for()
                visit.open("nodes/dashboard-node")
                for action in ("Cordon", "Uncordon"):
                    visit.page.get_by_role("button", name=action, exact=True).click()
                    visit.page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()
                    visit.page.get_by_role("dialog").wait_for(state="detached")
                look_everywhere(visit)
                visit.page.get_by_role("button", name="Sign out").click()
                visit.see("This dashboard belongs to one user")
            with visiting(browser, url) as stranger:
                stranger.page.goto(url)
                stranger.see("This dashboard belongs to one user")
                assert stranger.page.get_by_role("button", name="Sign in").count() == 0
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


class Balancer:
    """A load balancer of TCP connections: each goes to the first server that accepts it."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._ports = [int(one.rpartition(":")[2]) for one in servers]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._clients: list[socket.socket] = []
        self._threads[0].start()

    def close(self) -> None:
        _end(self._listener)
        self._threads[0].join()
        for client in self._clients:
            _end(client)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with self._listener, contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                self._threads.append(threading.Thread(target=self._connect, args=(client,)))
                self._threads[-1].start()

    def _connect(self, client: socket.socket) -> None:
        with client:
            for port in self._ports:
                try:
                    server = socket.create_connection(("127.0.0.1", port))
                except OSError:
                    continue
                with server:
                    back = threading.Thread(target=_copy, args=(server, client))
                    back.start()
                    _copy(client, server)
                    back.join()
                return


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while portion := source.recv(65536):
            target.sendall(portion)
    _end(source)
    _end(target)


def _end(one: socket.socket) -> None:
    """End both directions of a connection, also for a thread that waits for it."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def test_pages_go_on_when_one_of_three_masters_is_killed(browser: "Browser", tmp_path: Path) -> None:
    """One page comes through a load balancer, the other one from `rota dashboard --serve`."""
    with (
        ProcessCluster(tmp_path, store_url=f"sqlite:///{tmp_path}/rota.db") as cluster,
        contextlib.ExitStack() as parts,
    ):
        first, second, third = (cluster.master(name) for name in ("m1", "m2", "m3"))
        balancer = Balancer([one.endpoint().server for one in (first, second, third)])
        parts.callback(balancer.close)
        config = str(first.folder / "kubeconfig")
        _, line = parts.enter_context(
            running("dashboard", "--serve", "--no-open", "--kubeconfig", config, until="#ticket=")
        )
        served = parts.enter_context(visiting(browser, line.strip().partition("#")[0]))
        served.page.goto(line.strip())
        ticket = cluster.rota("dashboard", "--json")["url"].partition("#")[2]
        balanced = parts.enter_context(visiting(browser, f"{balancer.url}/dashboard/", ignore_https_errors=True))
        balanced.page.goto(f"{balancer.url}/dashboard/#{ticket}")
        for visit in (served, balanced):
            visit.page.get_by_role("heading", name="Overview").wait_for()
            for master in (first, second, third):
                visit.page.get_by_role("listitem").filter(
                    has_text=master.endpoint().server.partition("//")[2]
                ).get_by_text("Ready").wait_for()
            visit.open("pods")
            visit.see("There are no pods")
            # A page that is loaded again forgets it.
            visit.page.evaluate("() => { window.loadedBefore = true; }")
        first.kill()
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "later"},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        }
        rota(second.folder / "kubeconfig", "submit", "-", stdin=json.dumps(pod))
        for visit in (served, balanced):
            link = visit.page.get_by_role("link", name="later", exact=True)
            link.wait_for()
            link.click()
            visit.see("none yet")
            visit.page.get_by_role("link", name="YAML").click()
            visit.see("creationTimestamp:")
            for tab in ("Terminal", "Files"):
                why = visit.page.get_by_role("link", name=tab, disabled=True).get_attribute("title") or ""
                # At a master the pod only has to run first.
                assert ("passes no terminals on" if visit is served else "the pod is not running") in why
            assert visit.page.evaluate("() => window.loadedBefore") is True
        second.kill()
        rota(third.folder / "kubeconfig", "delete", "pod", "later")
        for visit in (served, balanced):
            visit.see("This pod does not exist any more")
            look_everywhere(visit)
            visit.page.get_by_role("button", name="Sign out").click()
            visit.page.get_by_role("button", name="Sign out").wait_for(state="detached")
