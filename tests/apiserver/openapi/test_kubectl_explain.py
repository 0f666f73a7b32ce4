"""The real kubectl, oldest and newest of those at hand, reads what we describe."""

import http.server
import os
import shutil
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.api import scheme
from rota.apiserver import discovery, documents
from rota.apiserver.openapi import v2, v3

pytestmark = pytest.mark.slow


def _binaries() -> list[Path]:
    found = shutil.which("kubectl")
    if found is None:
        return []
    real = Path(found).resolve()
    beside = sorted(real.parent.glob("kubectl.1.*"), key=lambda path: int(path.name.rpartition(".")[2]))
    return [beside[0], beside[-1]] if beside else [real]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    kinds = scheme.builtin()
    told = discovery.Discovery(kinds)
    described = v3.OpenApiV3(kinds, schema_of=lambda _resource: None, version="v1.33.0")
    of_version_2 = v2.OpenApiV2(kinds, described)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urllib.parse.urlsplit(self.path).path
            accept = self.headers.get("Accept", "")
            if path.startswith("/openapi/v3"):
                found = described.document(path)
            elif path == "/openapi/v2":
                found = of_version_2.document(accept)
            else:
                found = told.document(path, accept)
            if found is None:
                self.send_error(404)
                return
            answer = documents.respond(found, self.headers.get("If-None-Match", ""))
            self.send_response(answer.code)
            self.send_header("Content-Type", answer.content_type)
            for name, value in answer.headers:
                self.send_header(name.decode(), value.decode())
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Tests are silent."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@pytest.fixture(params=_binaries(), ids=lambda path: path.name)
def binary(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def _run(binary: Path, server: str, home: Path, *arguments: str) -> str:
    done = subprocess.run(
        [binary, "--server", server, *arguments],
        env={**os.environ, "HOME": str(home), "KUBECONFIG": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_explains_a_field_with_its_type_and_text(binary: Path, server: str, tmp_path: Path) -> None:
    text = _run(binary, server, tmp_path, "explain", "pods.spec.containers.ports")
    assert "FIELD: ports <[]ContainerPort>" in text
    assert "containerPort\t<integer> -required-" in text
    assert "Number of port to expose on the pod's IP address." in text


def test_kubectl_explains_kinds_of_other_groups(binary: Path, server: str, tmp_path: Path) -> None:
    text = _run(binary, server, tmp_path, "explain", "deploy.spec.strategy.rollingUpdate")
    assert "GROUP:      apps" in text
    assert "maxSurge\t<IntOrString>" in text


def test_kubectl_lists_resources_with_their_short_names(binary: Path, server: str, tmp_path: Path) -> None:
    text = _run(binary, server, tmp_path, "api-resources", "--api-group=batch", "--no-headers")
    assert [line.split() for line in text.splitlines()] == [
        ["cronjobs", "cj", "batch/v1", "true", "CronJob"],
        ["jobs", "batch/v1", "true", "Job"],
    ]
