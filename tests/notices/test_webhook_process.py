"""The webhook of `rota spot-controller`, as a process: over TLS, with a token, to the node's end."""

import http.client
import ipaddress
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
from tests.notices.processes import PATIENCE_S, line, running, taints, wait

from rota.cli import spot_controller
from rota.kit import system
from rota.kit.errors import UserError
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Names, Subject
from rota.testing import manifests
from rota.testing.live import LiveServer

pytestmark = pytest.mark.slow
SECRET = "0123456789abcdef0123"


def certificate(folder: Path) -> bytes:
    """Write a certificate for loopback into a folder; the authority."""
    now = system.SystemClock().now()
    authority = Authority.create(now=now)
    names = Names(addresses=(ipaddress.ip_address("127.0.0.1"),))
    made = authority.issue(
        Subject(common_name="webhook"), purpose=Purpose.SERVER, now=now, lifetime_s=3600, names=names
    )
    (folder / "tls.crt").write_bytes(made.certificate)
    (folder / "tls.key").write_bytes(made.key)
    return authority.certificate_pem


def send(url: str, body: Any, *, authority: bytes) -> int:
    parts = urlsplit(url)
    assert parts.hostname is not None
    context = ssl.create_default_context(cadata=authority.decode())
    connection = http.client.HTTPSConnection(parts.hostname, parts.port, context=context, timeout=PATIENCE_S)
    try:
        headers = {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"}
        connection.request("POST", parts.path, json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


@pytest.mark.timeout(180)
def test_a_notice_that_is_sent_makes_the_controller_leave_the_node(tmp_path: Path) -> None:
    authority = certificate(tmp_path)
    (tmp_path / "token").write_text(SECRET)
    options = ["--webhook", "127.0.0.1:0", "--webhook-token", str(tmp_path / "token")]
    tls = ["--webhook-tls-cert", str(tmp_path / "tls.crt"), "--webhook-tls-key", str(tmp_path / "tls.key")]
    with LiveServer() as server:
        made = manifests.node("n1")
        made["spec"] = {**made.get("spec", {}), "providerID": "aws:///us-east-1a/i-0abc"}
        server.create("/api/v1/nodes", made)
        with running("spot-controller", "--server", server.url, "--http", "0", *options, *tls) as controller:
            metrics = line(controller, "Metrics at ")
            url = line(controller, "Taking notices at ")
            assert url.startswith("https://127.0.0.1:")
            with pytest.raises(ssl.SSLCertVerificationError):
                send(url, {}, authority=Authority.create(now=system.SystemClock().now()).certificate_pem)
            notice = {"instance": "i-0abc", "kind": "termination", "provider": "aws", "in": 90, "id": "1"}
            wait(lambda: send(url, notice, authority=authority) == 200)
            wait(lambda: "rota.dev/leaving" in taints(server, "n1"))
            assert taints(server, "n1")["rota.dev/terminating"] == "aws"
            page = urlsplit(metrics)
            asked = http.client.HTTPConnection(str(page.hostname), page.port, timeout=PATIENCE_S)
            asked.request("GET", "/metrics")
            told = asked.getresponse().read().decode()
            asked.close()
            assert 'rota_spot_notices_heard_total{kind="termination",outcome="marked",provider="aws"' in told
            assert 'rota_spot_notices_total{kind="rota.dev/terminating",provider="aws"} 1.0' in told


@pytest.mark.timeout(180)
def test_record_only_writes_notices_and_evicts_nothing(tmp_path: Path) -> None:
    authority = certificate(tmp_path)
    (tmp_path / "token").write_text(SECRET)
    options = ["--record-only", "--webhook", "127.0.0.1:0", "--webhook-token", str(tmp_path / "token")]
    tls = ["--webhook-tls-cert", str(tmp_path / "tls.crt"), "--webhook-tls-key", str(tmp_path / "tls.key")]
    with LiveServer() as server:
        server.create("/api/v1/nodes", manifests.node("n1"))
        with running("spot-controller", "--server", server.url, *options, *tls) as controller:
            url = line(controller, "Taking notices at ")
            notice = {"node": "n1", "kind": "termination", "in": 90, "id": "1"}
            wait(lambda: send(url, notice, authority=authority) == 200)
            assert taints(server, "n1") == {"rota.dev/terminating": ""}
            leases = server.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")[1]
            assert leases["items"] == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--webhook", "8443"], "accepts notices from any sender; give --webhook-token or --webhook-insecure"),
        (["--webhook", "0.0.0.0:8443", "--webhook-token", "token"], "can be reached from other machines"),
        (["--webhook-insecure"], "the options of a webhook need --webhook"),
        (["--webhook", "1", "--webhook-tls-cert", "token"], "--webhook-tls-cert and --webhook-tls-key go together"),
        (["--webhook", "1", "--webhook-token", "short"], "holds no token of at least 16 characters"),
        (
            ["--webhook", "1", "--webhook-tls-cert", "token", "--webhook-tls-key", "token"],
            "the certificate, key or CA cannot be used",
        ),
        (["--webhook", "here"], "is no address"),
    ],
)
def test_a_webhook_that_would_believe_anybody_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], why: str
) -> None:
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "short").write_text("x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UserError, click.UsageError)) as told:
        spot_controller.command(["--server", "http://127.0.0.1:1", *options], standalone_mode=False)
    assert why in str(told.value)
