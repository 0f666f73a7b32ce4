"""A cluster of `rota up` with work on it, and a browser that is signed in to its dashboard."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rota.testing import process_cluster
from rota.testing.openid_provider import OpenIdProvider
from rota.testing.servers import binaries

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

ROTA = str(Path(sys.executable).with_name("rota"))
#: The pages that every cluster has, also one without Rota's kinds.
EVERYWHERE = (
    "overview",
    "map",
    "pods",
    "workloads",
    "pipelines",
    "queues",
    "what-if",
    "schedulers",
    "federation",
    "simulations",
)
#: Generous: a busy machine is slow, and nothing here is measured.
WAIT_MS = 60_000

WORK = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command: [sh, -c, "echo 1,2,3 > result.csv; i=0; while true; do i=$((i+1)); echo request $i; sleep 0.2; done"]
    resources: {requests: {cpu: 100m, memory: 64Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: too-large, namespace: default}
spec:
  containers: [{name: main, image: none, command: [sleep, "1000"], resources: {requests: {cpu: "6400"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: breaks, namespace: default}
spec:
  restartPolicy: Never
  containers: [{name: main, image: none, command: [sh, -c, "echo cannot open the input; exit 3"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: restarts, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command:
    - sh
    - -c
    - if [ -e begun ]; then echo the second run; exec sleep 1000; fi; touch begun; echo the first run; exit 1
---
apiVersion: rota.dev/v1alpha1
kind: Pipeline
metadata: {name: report, namespace: default}
spec:
  parameters: [{name: greeting, default: hello}]
  steps:
  - name: greet
    template: {spec: {containers: [{name: main, image: none, command: [echo, "{{ parameters.greeting }}"]}]}}
  - name: close
    dependsOn: [greet]
    template: {spec: {containers: [{name: main, image: none, command: [sh, -c, "echo the disk is full; exit 1"]}]}}
---
apiVersion: rota.dev/v1alpha1
kind: PipelineRun
metadata: {name: first, namespace: default}
spec: {pipeline: report}
"""


@dataclass
class Cluster:
    """A running `rota up`."""

    folder: Path
    url: str

    def rota(self, *arguments: str, stdin: str = "") -> str:
        """A command, run to its end; what it prints."""
        environment = {**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig")}
        done = subprocess.run(
            [ROTA, *arguments], env=environment, capture_output=True, text=True, check=False, input=stdin
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ticket(self) -> str:
        """An address that signs in once."""
        found: str = json.loads(self.rota("dashboard", "--json"))["url"]
        return found


@dataclass
class Visit:
    """A page, and everything that went wrong in it."""

    page: "Page"
    url: str
    complaints: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)

    def shown(self) -> str:
        """What the page shows now, and what it wrote to the console: for the report of a failed test."""
        try:
            # The default time limit of a page is long, and a crashed page never answers.
            text = self.page.inner_text("body", timeout=5_000)
        except Exception as problem:  # noqa: BLE001 - the failure of the test is the one to report
            text = f"(it cannot be read: {problem})"
        return "\n".join((self.page.url, text, "--- console", *self.console[-50:]))

    def open(self, path: str) -> "Page":
        """Go to a page of the dashboard."""
        self.page.goto(self.url + path)
        return self.page

    def settled(self) -> None:
        """Wait until nothing on the page is being read."""
        self.page.wait_for_function(
            "() => document.querySelector('h1') && !/Reading|Asking|Looking for/.test(document.body.innerText)"
        )

    def see(self, text: str, **options: Any) -> None:
        """Wait until a text is there."""
        self.page.get_by_text(text, **options).first.wait_for(timeout=WAIT_MS)

    def see_like(self, pattern: str) -> None:
        """Wait until a text that matches a pattern is there."""
        self.page.get_by_text(re.compile(pattern)).first.wait_for(timeout=WAIT_MS)


#: Pages that are open, and what pages showed that a failed test has closed.
_OPEN: list[Visit] = []
_LEFT: list[str] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds what open pages show to the report of a failed test."""
    report = yield
    if report.failed:
        for text in (*_LEFT, *(one.shown() for one in _OPEN)):
            report.sections.append(("page", text))
    if report.when == "call":
        _LEFT.clear()
    return report


@pytest.fixture(scope="session")
def provider() -> Iterator[OpenIdProvider]:
    """The OpenID Connect provider of the cluster's users."""
    with OpenIdProvider().in_thread() as running:
        yield running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, provider: OpenIdProvider) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    command = [ROTA, "up", "--workers", "1", "--data", str(folder), "--port", "0", "--dashboard-port", "0"]
    authority = folder / "provider.crt"
    authority.write_bytes(provider.authority.certificate_pem)
    command += ["--oidc-issuer-url", provider.url, "--oidc-client-id", provider.client_id]
    command += ["--oidc-ca-file", str(authority), "--oidc-username-claim", "email"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = ""
            for line in iter(process.stdout.readline, ""):
                if line.strip().startswith("dashboard"):
                    url = line.split()[1]
                if "Rota is up" in line:
                    break
            made = Cluster(folder, url)
            made.rota("submit", "-", stdin=WORK)
            yield made
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process_cluster.end_tasks(folder)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A browser for the tests of a module.

    Playwright's event loop runs in this thread as long as the browser is open; tests of other modules need their own.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where there is a browser

    with sync_playwright() as driver:
        # Root has no sandbox to give away in a container; the pages are our own.
        opened = driver.chromium.launch(executable_path=str(binaries.chromium()), args=["--no-sandbox"])
        yield opened
        opened.close()


@contextlib.contextmanager
def visiting(browser: "Browser", url: str, *, also: str = "", **options: Any) -> Iterator[Visit]:
    """A page of its own; errors of scripts, violations of the policy, and requests to elsewhere fail the test.

    Elsewhere is everything but the server of the page and the one at `also`.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    visit = Visit(page, url)
    page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))

    def told(message: "ConsoleMessage") -> None:
        visit.console.append(f"{message.type}: {message.text}")
        if any(one in message.text for one in ("Content Security Policy", "TrustedHTML", "integrity")):
            visit.complaints.append(f"console: {message.text}")

    page.on("console", told)
    page.on("requestfailed", lambda asked: visit.console.append(f"failed: {asked.url} {asked.failure}"))
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith(
                (
                    url.partition("/dashboard")[0],
                    url.partition("/dashboard")[0].replace("http", "ws"),
                    also or url,
                )
            )
            else visit.complaints.append(f"request to elsewhere: {asked.url}")
        ),
    )
    _OPEN.append(visit)
    try:
        yield visit
        assert visit.complaints == []
    except BaseException:
        _LEFT.append(visit.shown())
        raise
    finally:
        _OPEN.remove(visit)
        context.close()


@pytest.fixture(scope="module")
def signed_in(browser: "Browser", cluster: Cluster) -> Any:
    """The cookies and the storage of a browser that is signed in."""
    with visiting(browser, cluster.url) as made:
        made.page.goto(cluster.ticket())
        made.page.get_by_role("heading", name="Overview").wait_for()
        return made.page.context.storage_state()


@pytest.fixture
def visit(browser: "Browser", cluster: Cluster, signed_in: Any) -> Iterator[Visit]:
    """A browser that is signed in."""
    with visiting(browser, cluster.url, storage_state=signed_in) as made:
        made.page.goto(cluster.url)
        made.page.get_by_role("heading", name="Overview").wait_for()
        yield made
