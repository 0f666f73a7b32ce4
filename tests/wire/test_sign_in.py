"""Authentication over TLS at a real `rota up`: kubectl, Rota's client, and clients that must be refused."""

import base64
import contextlib
import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.api import errors
from rota.client import client_factory, credentials, kubeconfig
from rota.client.endpoints import Endpoint
from rota.kit import system
from rota.pki import keys, pinning, signing_requests
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Identity, Subject
from rota.testing.kubectl import Kubectl, documents

pytestmark = pytest.mark.slow

ROTA = str(Path(sys.executable).with_name("rota"))
NAMESPACES = ("", "v1", "namespaces")
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ANN = Subject(common_name="ann", organizations=("system:masters",))


@dataclass(frozen=True)
class Running:
    """A cluster that runs, with an authority that the test has."""

    url: str
    data: Path
    authority: Authority

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def identity(self, subject: Subject = ANN, *, purpose: Purpose = Purpose.CLIENT, life_s: float = DAY_S) -> Identity:
        now = system.SystemClock().now()
        return self.authority.issue(subject, purpose=purpose, now=now, lifetime_s=life_s)

    def whoami(self, folder: Path, *, identity: Identity | None = None, token: str = "") -> tuple[int, Any]:
        """The server's response to a client with a certificate or a token; ssl.SSLError if the handshake fails."""
        context = ssl.create_default_context(cadata=self.authority.certificate_pem.decode())
        if identity is not None:
            path = folder / "identity.pem"
            path.write_bytes(identity.certificate + identity.key)
            context.load_cert_chain(path)
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=20)
        with contextlib.closing(connection):
            connection.request("POST", SELF, b"{}", headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("cluster")
    authority = Authority.create(now=system.SystemClock().now(), name="the test's own")
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    (folder / "ca.key").write_bytes(authority.key_pem)
    (folder / "tokens.csv").write_text('bobs-token,bob,1,"dev,ops"\n')
    command = [ROTA, "up", "--workers", "0", "--data", str(folder / "data"), "--store", "memory://", "--port", "0"]
    command += ["--ca-dir", str(folder), "--token-auth-file", str(folder / "tokens.csv")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        url = next(line.split()[1] for line in lines if line.strip().startswith("api "))
        assert any("Rota is up" in line for line in lines)
        yield Running(url, folder / "data", authority)
        process.send_signal(signal.SIGINT)


@pytest.fixture
def kubectl(cluster: Running, kubectl_program: Path, kubectl_home: Path) -> Kubectl:
    """kubectl with the kubeconfig that `rota up` wrote."""
    home = kubectl_home / kubectl_program.name
    return Kubectl(kubectl_program, namespace="default", home=home, kubeconfig=cluster.data / "kubeconfig")


def with_user(cluster: Running, path: Path, user: dict[str, str]) -> Path:
    """The administrator's kubeconfig, with another user's credentials."""
    content = yaml.safe_load((cluster.data / "kubeconfig").read_text())
    content["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(content))
    return path


def user_of(kubectl: Kubectl) -> Any:
    """As `kubectl auth whoami`, which asks old versions of the API only in kubectl 1.27."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    told = kubectl("create", "--filename=-", "--output=json", stdin=documents(review))
    return json.loads(told)["status"]["userInfo"]


def test_kubectl_is_the_administrator_by_the_written_kubeconfig(kubectl: Kubectl) -> None:
    assert "kube-system" in kubectl("get", "namespaces")
    who = user_of(kubectl)
    assert (who["username"], who["groups"]) == ("rota-admin", ["system:masters", "system:authenticated"])


def test_a_service_accounts_token_works_with_kubectl(
    kubectl: Kubectl, cluster: Running, kubectl_program: Path, tmp_path: Path
) -> None:
    kubectl("create", "serviceaccount", "robot")
    try:
        token = kubectl("create", "token", "robot", "--duration=10m").strip()
        path = with_user(cluster, tmp_path / "config", {"token": token})
        robot = Kubectl(kubectl_program, namespace="default", home=tmp_path, kubeconfig=path)
        who = user_of(robot)
        assert who["username"] == "system:serviceaccount:default:robot"
        refused = robot.run("get", "secrets")
        assert refused.code != 0
        assert 'User "system:serviceaccount:default:robot" cannot list resource "secrets"' in refused.err
    finally:
        kubectl("delete", "serviceaccount", "robot")


def test_a_certificate_by_request_works_with_kubectl(
    kubectl: Kubectl, cluster: Running, kubectl_program: Path, tmp_path: Path
) -> None:
    key = keys.generate()
    pem = signing_requests.make(key, Subject(common_name="eve", organizations=("dev",)))
    asked = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "eve"},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "client auth"],
        },
    }
    kubectl.apply(asked)
    try:
        assert "Pending" in kubectl("get", "csr", "eve")
        kubectl("certificate", "approve", "eve")
        with kubectl.running("get", "csr", "eve", "--watch") as lines:
            lines.until("Approved,Issued")
        certificate = kubectl.json("get", "csr", "eve")["status"]["certificate"]
        user = {
            "client-certificate-data": certificate,
            "client-key-data": base64.b64encode(keys.to_pem(key)).decode(),
        }
        path = with_user(cluster, tmp_path / "config", user)
        eve = Kubectl(kubectl_program, namespace="default", home=tmp_path, kubeconfig=path)
        assert user_of(eve)["username"] == "eve"
    finally:
        kubectl("delete", "csr", "eve")


def test_a_wrong_token_gets_kubectl_nowhere(cluster: Running, kubectl_program: Path, tmp_path: Path) -> None:
    path = with_user(cluster, tmp_path / "config", {"token": "wrong"})
    nobody = Kubectl(kubectl_program, namespace="default", home=tmp_path, kubeconfig=path)
    refused = nobody.run("get", "namespaces")
    assert refused.code != 0
    assert "You must be logged in to the server" in refused.err


def test_a_static_token_is_let_in(cluster: Running, tmp_path: Path) -> None:
    code, said = cluster.whoami(tmp_path, token="bobs-token")
    assert code == 201
    assert said["status"]["userInfo"]["groups"] == ["dev", "ops", "system:authenticated"]


def test_a_good_certificate_is_let_in(cluster: Running, tmp_path: Path) -> None:
    code, said = cluster.whoami(tmp_path, identity=cluster.identity())
    assert (code, said["status"]["userInfo"]["username"]) == (201, "ann")


def test_a_certificate_of_a_foreign_authority_is_not_listened_to(cluster: Running, tmp_path: Path) -> None:
    foreign = Authority.create(now=system.SystemClock().now(), name="the test's own")
    forged = foreign.issue(ANN, purpose=Purpose.CLIENT, now=system.SystemClock().now(), lifetime_s=DAY_S)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        cluster.whoami(tmp_path, identity=forged)


def test_a_certificate_of_a_server_is_refused_in_the_handshake(cluster: Running, tmp_path: Path) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        cluster.whoami(tmp_path, identity=cluster.identity(purpose=Purpose.SERVER))


def test_an_expired_certificate_is_answered_with_the_reason(cluster: Running, tmp_path: Path) -> None:
    code, said = cluster.whoami(tmp_path, identity=cluster.identity(life_s=-60))
    assert code == 401
    assert "the client certificate of ann expired at" in said["message"]


def test_a_certificate_without_a_user_is_anonymous(cluster: Running, tmp_path: Path) -> None:
    nobody = cluster.identity(Subject(common_name="", organizations=("system:masters",)))
    code, said = cluster.whoami(tmp_path, identity=nobody)
    assert code == 403
    assert 'User "system:anonymous" cannot create resource "selfsubjectreviews"' in said["message"]


def test_plain_http_is_not_spoken_on_the_port_of_tls(cluster: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=20)
    with contextlib.closing(connection):
        connection.request("GET", "/version")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            connection.getresponse()


def test_no_version_of_tls_before_1_2_is_spoken(cluster: Running) -> None:
    context = ssl.create_default_context(cadata=cluster.authority.certificate_pem.decode())
    with (
        socket.create_connection(("127.0.0.1", cluster.port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        assert secured.version() == "TLSv1.3"
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(cadata=cluster.authority.certificate_pem.decode())
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", cluster.port), timeout=20) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        old.wrap_socket(plain, server_hostname="127.0.0.1")


async def test_our_own_client_signs_in_by_the_written_kubeconfig(cluster: Running) -> None:
    clock, rng = system.SystemClock(), system.rng()
    endpoint = kubeconfig.load(cluster.data / "kubeconfig", clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        assert any(one["metadata"]["name"] == "default" for one in (await client.list(NAMESPACES)).items)


async def test_our_own_client_follows_a_token_file_that_changes(cluster: Running, tmp_path: Path) -> None:
    clock, rng = system.SystemClock(), system.rng()
    path = tmp_path / "token"
    path.write_text("old-token\n")
    endpoint = Endpoint(
        server=cluster.url,
        certificate_authority=cluster.authority.certificate_pem,
        credentials=credentials.TokenFile(path, clock=clock),
    )
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    target = ("authentication.k8s.io", "v1", "selfsubjectreviews")
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        with pytest.raises(errors.Unauthorized):
            await client.create(target, review)
        path.write_text("bobs-token\n")
        assert (await client.create(target, review))["status"]["userInfo"]["username"] == "bob"


async def test_our_own_client_asks_a_plugin_for_its_token(cluster: Running, tmp_path: Path) -> None:
    clock, rng = system.SystemClock(), system.rng()
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "bobs-token"},
    }
    plugin = credentials.ExecPlugin("echo", [json.dumps(answer)], clock=clock)
    authority = cluster.authority.certificate_pem
    endpoint = Endpoint(server=cluster.url, certificate_authority=authority, credentials=plugin)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        said = await client.create(("authentication.k8s.io", "v1", "selfsubjectreviews"), review)
    assert said["status"]["userInfo"]["username"] == "bob"


@pytest.fixture
def join_token(cluster: Running) -> str:
    made = subprocess.run(
        [ROTA, "token", "create", "--kubeconfig", str(cluster.data / "kubeconfig")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return made.stdout.strip()


async def test_a_new_worker_joins_with_a_token_and_gets_its_own_certificate(cluster: Running, join_token: str) -> None:
    """As for a worker: a join token, a request, a certificate, and then its own node and no other."""
    clock, rng = system.SystemClock(), system.rng()
    # all that it is told: where the server is, the hash of its authority, and the token
    authority = await pinning.authority_of("127.0.0.1", cluster.port, pinning.pin(cluster.authority.certificate_pem))
    joining = Endpoint(server=cluster.url, certificate_authority=authority, credentials=credentials.bearer(join_token))
    key = keys.generate()
    pem = signing_requests.make(key, Subject(common_name="system:node:w1", organizations=("system:nodes",)))
    requests = ("certificates.k8s.io", "v1", "certificatesigningrequests")
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"],
    }
    body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "spec": spec}
    async with client_factory.to_server(joining, clock=clock, rng=rng) as newcomer:
        asked = await newcomer.create(requests, {**body, "metadata": {"generateName": "join-"}})
        for _ in range(200):
            asked = await newcomer.get(requests, asked["metadata"]["name"])
            if "certificate" in (asked.get("status") or {}):
                break
            await clock.sleep(0.05)
        with pytest.raises(errors.Forbidden):
            await newcomer.list(("", "v1", "nodes"))
    worker = Endpoint(
        server=cluster.url,
        certificate_authority=authority,
        client_certificate=base64.b64decode(asked["status"]["certificate"]),
        client_key=keys.to_pem(key),
    )
    async with client_factory.to_server(worker, clock=clock, rng=rng) as client:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}}
        await client.create(("", "v1", "nodes"), node)
        with pytest.raises(errors.Forbidden):
            await client.create(("", "v1", "nodes"), {**node, "metadata": {"name": "w2"}})
