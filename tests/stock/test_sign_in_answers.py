"""Requests for certificates and tokens, and reviews of them, to the stock kube-apiserver and to ours."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api.users import User
from rota.apiserver.authentication import authentication_config
from rota.client import kubeconfig
from rota.client.transports.http import HttpTransport
from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.transport import Call, Transport
from rota.kit import system
from rota.pki import keys, signing_requests
from rota.pki.certificates import Subject
from rota.testing.api import ApiServer
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = pytest.mark.slow

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
#: Stands for the last token that the server has issued for itself.
TOKEN = "@TOKEN"
PEM = base64.b64encode(signing_requests.make(keys.generate(), Subject(common_name="ann"))).decode()
MASTERS = base64.b64encode(
    signing_requests.make(keys.generate(), Subject(common_name="ann", organizations=("system:masters",)))
).decode()
CLIENT = "kubernetes.io/kube-apiserver-client"
#: What differs by its nature.
_VARYING = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "lastUpdateTime", "lastTransitionTime", "expirationTimestamp"}
)


def certificate_request(**spec: Any) -> dict[str, Any]:
    whole = {"request": PEM, "signerName": CLIENT, "usages": ["digital signature", "client auth"], **spec}
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "r"},
        "spec": whole,
    }


def token_request(spec: dict[str, Any] | None = None, **metadata: str) -> dict[str, Any]:
    about = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    return {**about, "metadata": metadata, "spec": spec or {}}


def bound_to(kind: str, version: str = "v1", **reference: str) -> dict[str, Any]:
    return token_request({"boundObjectRef": {"kind": kind, "apiVersion": version, **reference}})


def token_review(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}


def conditions(*types: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": one, "status": status} for one in types], **more}}


FLAWED: list[dict[str, Any]] = [
    {"request": ""},
    {"request": "AAAA"},
    {"request": base64.b64encode(b"-----BEGIN FOO-----\nAAAA\n-----END FOO-----\n").decode()},
    {"request": MASTERS},
    {"signerName": ""},
    {"signerName": "nodomain"},
    {"signerName": "kubernetes.io/legacy-unknown"},
    {"signerName": "example.com/UPPER"},
    {"signerName": "EXAMPLE.com/x"},
    {"signerName": "example.com/a/b"},
    {"usages": []},
    {"usages": ["flying"]},
    {"usages": ["client auth", "client auth"]},
    {"expirationSeconds": 599},
    {"expirationSeconds": -1},
]
#: Method, path, body; a PATCH here is a GET, the body laid over what came, and a PUT.
CERTIFICATES: list[tuple[str, str, Any]] = [
    *(("POST", REQUESTS, certificate_request(**spec)) for spec in FLAWED),
    ("POST", REQUESTS, certificate_request(username="eve", uid="1", groups=["x"], extra={"a": ["b"]})),
    ("GET", f"{REQUESTS}/r", None),
    ("PATCH", f"{REQUESTS}/r", {"spec": certificate_request(signerName="example.com/x")["spec"]}),
    ("PATCH", f"{REQUESTS}/r", conditions("Approved")),
    ("PATCH", f"{REQUESTS}/r/status", conditions("Approved")),
    ("PATCH", f"{REQUESTS}/r/approval", conditions("Approved", "Denied")),
    ("PATCH", f"{REQUESTS}/r/approval", conditions("Approved", status="False")),
    ("PATCH", f"{REQUESTS}/r/approval", conditions("Approved", "Approved")),
    ("PATCH", f"{REQUESTS}/r/approval", conditions("")),
    ("PATCH", f"{REQUESTS}/r/approval", conditions("Other", status="Maybe")),
    ("PATCH", f"{REQUESTS}/r/approval", conditions("Approved")),
    ("PATCH", f"{REQUESTS}/r/approval", {"status": {"conditions": []}}),
    ("PATCH", f"{REQUESTS}/r/approval", conditions("Denied")),
    ("PATCH", f"{REQUESTS}/r/approval", conditions("Approved", certificate=PEM)),
    ("PATCH", f"{REQUESTS}/r/status", conditions("Approved", certificate=PEM)),
    ("PATCH", f"{REQUESTS}/r/status", conditions("Approved", certificate="AAAA")),
    ("PATCH", f"{REQUESTS}/r/status", conditions("Approved", "Failed")),
    ("DELETE", f"{REQUESTS}/r", None),
]
TOKENS: list[tuple[str, str, Any]] = [
    ("POST", ACCOUNTS, {"metadata": {"name": "robot"}}),
    ("POST", ACCOUNTS, {"metadata": {"name": "other"}}),
    (
        "POST",
        "/api/v1/namespaces/default/secrets",
        {"metadata": {"name": "s"}, "type": "Opaque"},
    ),
    ("POST", f"{ACCOUNTS}/robot/token", token_request()),
    ("POST", f"{ACCOUNTS}/robot/token", {}),
    ("POST", f"{ACCOUNTS}/robot/token", token_request(name="other")),
    ("POST", f"{ACCOUNTS}/robot/token", token_request(namespace="kube-system")),
    ("POST", f"{ACCOUNTS}/robot/token", token_request(name="robot", namespace="default")),
    ("POST", f"{ACCOUNTS}/nobody/token", token_request()),
    ("POST", f"{ACCOUNTS}/robot/token", token_request({"expirationSeconds": 1})),
    ("POST", f"{ACCOUNTS}/robot/token", token_request({"expirationSeconds": 1 << 40})),
    ("POST", f"{ACCOUNTS}/robot/token", token_request({"audiences": ["a", "b"], "expirationSeconds": 700})),
    ("POST", f"{ACCOUNTS}/robot/token", bound_to("Secret", name="s")),
    ("POST", f"{ACCOUNTS}/robot/token", bound_to("Secret", name="s", uid="x")),
    ("POST", f"{ACCOUNTS}/robot/token", bound_to("Secret", name="gone")),
    ("POST", f"{ACCOUNTS}/robot/token", bound_to("Pod", name="gone")),
    ("POST", f"{ACCOUNTS}/robot/token", bound_to("Node", name="gone")),
    ("POST", f"{ACCOUNTS}/robot/token", bound_to("ConfigMap", name="gone")),
    ("POST", f"{ACCOUNTS}/robot/token", bound_to("Deployment", "apps/v1", name="gone")),
    ("POST", f"{ACCOUNTS}/robot/token", bound_to("Pod")),
    ("POST", f"{ACCOUNTS}/robot/token", token_request({"boundObjectRef": {}})),
    ("GET", f"{ACCOUNTS}/robot/token", None),
    ("DELETE", f"{ACCOUNTS}/robot/token", None),
    ("POST", TOKEN_REVIEWS, token_review()),
    ("POST", TOKEN_REVIEWS, token_review(token="bad")),
    ("POST", TOKEN_REVIEWS, token_review(token="a.b.c")),
    ("POST", f"{ACCOUNTS}/robot/token", token_request()),
    ("POST", TOKEN_REVIEWS, token_review(token=TOKEN)),
    ("POST", SELF_REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
    ("POST", SELF_REVIEWS, {"metadata": {"name": "x", "labels": {"a": "b"}}}),
    ("DELETE", f"{ACCOUNTS}/robot", None),
    ("DELETE", f"{ACCOUNTS}/other", None),
    ("DELETE", "/api/v1/namespaces/default/secrets/s", None),
]


class Side:
    """One of the two servers."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._token = ""

    async def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """The code, and the body without what differs by its nature."""
        if method == "PATCH":
            _, current = await self._send("GET", path.removesuffix("/status").removesuffix("/approval"), None)
            method, body = "PUT", {**current, **body}
        code, came = await self._send(method, path, body)
        issued = (came.get("status") or {}).get("token", "") if came.get("kind") == "TokenRequest" else ""
        self._token = issued or self._token
        return code, _comparable(came)

    async def _send(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        text = "" if body is None else json.dumps(body).replace(TOKEN, self._token)
        headers = {"content-type": "application/json", "accept": "application/json"}
        call = Call(method=method, path=path, headers=headers, body=text.encode(), retry=False)
        async with self._transport.open(call) as answer:
            return answer.code, json.loads(await answer.read())


def _comparable(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _comparable(item, key) for key, item in value.items() if key != "managedFields"}
    if isinstance(value, list):
        return [_comparable(item, name) for item in value]
    if name in _VARYING or (isinstance(value, str) and (value.startswith("JTI=") or value.count(".") == 2)):
        return "*"
    return value


@pytest.fixture
async def ours() -> AsyncIterator[Side]:
    administrator = User(name="administrator", uid="administrator", groups=("system:masters", "system:authenticated"))
    settings = authentication_config.Settings(issuer="https://kubernetes.default.svc")
    async with ApiServer(signing_in=settings) as api:
        transport = InProcessTransport(api.app, clock=api.clock, user=administrator)
        yield Side(transport)
        await transport.close()


@pytest.fixture
async def stock(stock_server: StockApiServer) -> AsyncIterator[Side]:
    transport = HttpTransport(kubeconfig.load(stock_server.kubeconfig(), clock=system.SystemClock()))
    yield Side(transport)
    await transport.close()


@pytest.mark.parametrize("steps", [CERTIFICATES, TOKENS], ids=["certificates", "tokens"])
async def test_both_servers_answer_the_same(steps: list[tuple[str, str, Any]], ours: Side, stock: Side) -> None:
    for number, (method, path, body) in enumerate(steps):
        theirs = await stock.answer(method, path, body)
        assert await ours.answer(method, path, body) == theirs, (number, method, path, body)
