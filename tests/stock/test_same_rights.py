"""Who is refused what, by the stock kube-apiserver and by ours: the same, in the same words.

Both are asked by an administrator who acts as others. They begin with the same roles and are told of the same new ones.
"""

import asyncio
import http.client
import json
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from rota.testing.access import GROUP, PATH, binding, rule
from rota.testing.api import ApiServer
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("stock_programs")]

_HERE: Final = "/api/v1/namespaces/default"
_PODS: Final = f"{_HERE}/pods"
_DEV: Final = f"{PATH}/namespaces/dev"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
#: How long the stock server's copies may take to hear of something new; until then it refuses more.
_NEWS_S: Final = 60.0


class _Ask(NamedTuple):
    """A request by somebody: `user`, or `user in group,group`, or the administrator."""

    who: str
    method: str
    path: str
    body: Any = None

    def headers(self) -> list[tuple[str, str]]:
        user, _, groups = self.who.partition(" in ")
        found = [("Impersonate-User", user)] if user else []
        return found + [("Impersonate-Group", group) for group in groups.split(",") if group]

    @property
    def content_type(self) -> str:
        return "application/merge-patch+json" if self.method == "PATCH" else "application/json"


_X = "x"
_ANONYMOUS = "system:anonymous in system:unauthenticated"
_MANAGER = "manager in managers"
_ONE, _TWO = "system:node:one in system:nodes", "system:node:two in system:nodes"
_TOKEN = f"{_HERE}/serviceaccounts/default/token"


def _pod(name: str, node: str, **spec: Any) -> dict[str, Any]:
    content = {"containers": [{"name": "c", "image": "x"}], "nodeName": node, "serviceAccountName": "default", **spec}
    return {"metadata": {"name": name}, "spec": content}


def _access(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


_GET_PODS = {"verb": "get", "resource": "pods"}

_REFUSALS = [
    *(
        _Ask(_X, method, path, {} if method in {"POST", "PUT", "PATCH"} else None)
        for method, path in (
            ("GET", _PODS), ("GET", f"{_PODS}?watch=true"), ("GET", f"{_PODS}/a"), ("GET", f"{_PODS}/a/log"),
            ("POST", "/apis/apps/v1/namespaces/dev/deployments"), ("DELETE", "/api/v1/nodes"),
            ("PATCH", "/api/v1/namespaces/dev"), ("PUT", "/api/v1/namespaces/dev/finalize"),
            ("GET", "/api/v1/namespaces/default"), ("POST", "/api/v1/pods"), ("PUT", "/api/v1/nodes/n/proxy/x/y"),
            ("DELETE", f"{_PODS}/p/status"), ("DELETE", f"{_PODS}?fieldSelector=metadata.name%3Da"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%21%3Da"),
            ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Da,metadata.name%3Db"),
            ("GET", f"{_PODS}?fieldSelector=metadata.name%3D.."),
            ("GET", "/api/v1/watch/namespaces/default/pods"), ("GET", "/api/v1/watch/namespaces/default/pods/p"),
            ("GET", f"{_HERE}/things/a/parts"), ("GET", "/apis/none.example.com/v1/things"),
            ("GET", "/"), ("GET", "/metrics"), ("GET", "/nowhere"), ("POST", "/version"), ("OPTIONS", "/version"),
            ("GET", "/healthz/ping"),
        )
    ),
    _Ask(_ANONYMOUS, "GET", "/api"),
    _Ask(_ANONYMOUS, "GET", "/metrics"),
    _Ask(" in developers", "GET", _PODS),
]  # fmt: skip

_GRANTING = [
    _Ask(_MANAGER, "POST", f"{_DEV}/roles", {"metadata": {"name": "r"}, "rules": [rule("get,list", "pods,secrets")]}),
    _Ask(_MANAGER, "POST", f"{_DEV}/roles", {"metadata": {"name": "r"}, "rules": [rule("get", "pods")]}),
    _Ask(_MANAGER, "PATCH", f"{_DEV}/roles/r", {"rules": [rule("get,list", "pods", resourceNames=["a", "b"])]}),
    _Ask(_MANAGER, "PATCH", f"{_DEV}/roles/r", {"rules": [rule("*", "*", "*")]}),
    _Ask(_MANAGER, "PUT", f"{_DEV}/roles/new", {"metadata": {"name": "new"}, "rules": [rule("get", "secrets")]}),
    _Ask(
        _MANAGER, "POST", f"{_DEV}/roles", {"metadata": {"name": "bad"}, "rules": [{"verbs": [], "resources": ["p"]}]}
    ),
    _Ask(_MANAGER, "POST", f"{_DEV}/rolebindings", binding("f", "system:node-proxier", name="f")),
    _Ask(_MANAGER, "POST", f"{_DEV}/rolebindings", binding("f", "none")),
    _Ask(_MANAGER, "POST", f"{_DEV}/rolebindings", binding("f", "none", kind="Role")),
    _Ask(_MANAGER, "POST", f"{PATH}/clusterrolebindings", binding("f", "cluster-admin")),
    _Ask(
        _MANAGER,
        "POST",
        f"{PATH}/clusterroles",
        {"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
    ),
    _Ask(
        _MANAGER,
        "POST",
        f"{PATH}/clusterroles",
        {"metadata": {"name": "p"}, "rules": [{"verbs": ["get", "post"], "nonResourceURLs": ["/metrics", "/logs/*"]}]},
    ),
]

_ASKING = [
    _Ask("", "POST", f"{_REVIEWS}/selfsubjectaccessreviews", _access()),
    _Ask("", "POST", f"{_REVIEWS}/selfsubjectaccessreviews", _access(resourceAttributes=_GET_PODS)),
    _Ask(
        "",
        "POST",
        f"{_REVIEWS}/selfsubjectaccessreviews",
        _access(resourceAttributes=_GET_PODS, nonResourceAttributes={"path": "/", "verb": "get"}),
    ),
    _Ask("", "POST", f"{_REVIEWS}/subjectaccessreviews", _access(resourceAttributes=_GET_PODS)),
    _Ask("", "POST", f"{_REVIEWS}/subjectaccessreviews", _access(user="manager", resourceAttributes=_GET_PODS)),
    _Ask(
        "",
        "POST",
        f"{_REVIEWS}/subjectaccessreviews",
        _access(user="x", resourceAttributes={**_GET_PODS, "fieldSelector": {}}),
    ),
    _Ask(
        "",
        "POST",
        f"{_REVIEWS}/subjectaccessreviews",
        _access(groups=["system:monitoring"], nonResourceAttributes={"path": "/metrics", "verb": "get"}),
    ),
    _Ask(
        "",
        "POST",
        f"{_REVIEWS}/namespaces/dev/localsubjectaccessreviews",
        _access(user="x", resourceAttributes=_GET_PODS),
    ),
    _Ask(
        "",
        "POST",
        f"{_REVIEWS}/namespaces/dev/localsubjectaccessreviews",
        _access(user="x", resourceAttributes={**_GET_PODS, "namespace": "dev"}),
    ),
    _Ask(
        "",
        "POST",
        f"{_REVIEWS}/namespaces/dev/localsubjectaccessreviews",
        _access(user="x", nonResourceAttributes={"path": "/", "verb": "get"}),
    ),
    _Ask(_MANAGER, "POST", f"{_REVIEWS}/selfsubjectrulesreviews", _access()),
]

_NODES = [
    _Ask(_ONE, "POST", "/api/v1/nodes", {"metadata": {"name": "three"}}),
    _Ask(_ONE, "POST", "/api/v1/nodes", {"metadata": {"name": "one", "labels": {"kubernetes.io/foo": "z"}}}),
    *(
        _Ask(who, "GET", path)
        for who in (_ONE, _TWO)
        for path in (
            f"{_HERE}/secrets/s", f"{_HERE}/secrets", "/api/v1/secrets", f"{_HERE}/configmaps/m", f"{_PODS}/p",
            "/api/v1/nodes/one", "/api/v1/nodes", "/api/v1/pods", "/api/v1/pods?fieldSelector=spec.nodeName%3Done",
            "/api/v1/services", "/api/v1/persistentvolumes", "/api/v1/persistentvolumes/v", f"{_PODS}/p/log",
            f"{_HERE}/serviceaccounts/default", f"{_HERE}/serviceaccounts", f"{_HERE}/events", _LEASES,
            f"{_LEASES}/one", "/apis/storage.k8s.io/v1/csinodes", "/apis/storage.k8s.io/v1/volumeattachments/a",
            "/apis/resource.k8s.io/v1/resourceslices", "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            "/apis/apps/v1/deployments", "/metrics",
        )
    ),
    *(
        _Ask(who, "PATCH", path, body)
        for who in (_ONE, _TWO)
        for path, body in (
            (f"{_PODS}/p/status", {"status": {"phase": "Running"}}),
            (f"{_PODS}/p/status", {"metadata": {"labels": {"a": "b"}}}),
            (f"{_PODS}/p", {"metadata": {"labels": {"a": "b"}}}),
            ("/api/v1/nodes/one/status", {"status": {"phase": "Running"}}),
            ("/api/v1/nodes/one", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
            ("/api/v1/nodes/one", {"metadata": {"labels": {"foo.k8s.io/a": "b"}}}),
            ("/api/v1/nodes/one", {"metadata": {"labels": {"x.node-restriction.kubernetes.io/a": "b"}}}),
        )
    ),
    _Ask(_ONE, "POST", _PODS, {"metadata": {"name": "m"}, "spec": _pod("m", "one")["spec"]}),
    _Ask(_TWO, "POST", f"{_PODS}/p/eviction", {"metadata": {"name": "p"}}),
    _Ask(_TWO, "DELETE", f"{_PODS}/p"),
    _Ask(_ONE, "DELETE", _PODS),
    _Ask(_ONE, "DELETE", "/api/v1/nodes/one"),
    _Ask(_ONE, "DELETE", f"{_HERE}/secrets/s"),
    _Ask(_ONE, "POST", f"{_PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "one"}}),
    _Ask(_ONE, "POST", _LEASES, {"metadata": {"name": "one"}}),
    _Ask(_ONE, "POST", _LEASES, {"metadata": {"name": "two"}}),
    _Ask(_ONE, "POST", _LEASES.replace("kube-node-lease", "default"), {"metadata": {"name": "one"}}),
    _Ask(_ONE, "POST", "/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": "two"}, "spec": {"drivers": []}}),
    *(
        _Ask(who, "POST", _TOKEN, _access(boundObjectRef=bound) if bound else _access())
        for who in (_ONE, _TWO)
        for bound in (None, {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "x"})
    ),
    _Ask("worker in system:nodes", "GET", "/api/v1/services"),
    _Ask("system:node: in system:nodes", "GET", "/api/v1/services"),
]  # fmt: skip

_PREPARED = [
    _Ask("", "POST", "/api/v1/namespaces", {"metadata": {"name": "dev"}}),
    _Ask(
        "",
        "POST",
        f"{PATH}/clusterroles",
        {
            "metadata": {"name": "for-manager"},
            "rules": [
                rule("create,update,patch,get", "roles,rolebindings,clusterroles,clusterrolebindings", GROUP),
                rule("get", "pods"),
            ],
        },
    ),
    _Ask("", "POST", f"{PATH}/clusterrolebindings", binding("manager", "for-manager")),
    _Ask("", "POST", f"{_HERE}/serviceaccounts", {"metadata": {"name": "default"}}),
    _Ask("", "POST", f"{_HERE}/secrets", {"metadata": {"name": "s"}}),
    _Ask("", "POST", f"{_HERE}/configmaps", {"metadata": {"name": "m"}}),
    _Ask(_ONE, "POST", "/api/v1/nodes", {"metadata": {"name": "one"}}),
    _Ask(_TWO, "POST", "/api/v1/nodes", {"metadata": {"name": "two"}}),
    _Ask("", "POST", _PODS, _pod("p", "one", volumes=[{"name": "v", "secret": {"secretName": "s"}}])),
]


@pytest.fixture(scope="module")
def restricting() -> Iterator[StockApiServer]:
    """A stock server with the authorizers that clusters have; accounts are not waited for, as nobody makes them."""
    server = StockApiServer(
        authorization="Node,RBAC",
        enable_admission_plugins="NodeRestriction",
        disable_admission_plugins="ServiceAccount",
    )
    with server as running:
        for one in _PREPARED:
            code, answer = _of_stock(running, one)
            assert code == 201, (one, answer)
        yield running


@pytest.mark.parametrize(
    "asked", [_REFUSALS, _GRANTING, _ASKING, _NODES], ids=["refusals", "granting", "reviews", "nodes"]
)
async def test_both_servers_refuse_the_same_in_the_same_words(restricting: StockApiServer, asked: list[_Ask]) -> None:
    wrong = []
    async with ApiServer(conflict_check=False) as api:
        for one in _PREPARED:
            assert (await _of_ours(api, one))[0] == 201, one
        for one in asked:
            ours = await _of_ours(api, one)
            stock = await asyncio.to_thread(_of_stock, restricting, one)
            begun = time.monotonic()
            while stock != ours and stock[0] == 403 and time.monotonic() < begun + _NEWS_S:
                await asyncio.sleep(0.1)
                stock = await asyncio.to_thread(_of_stock, restricting, one)
            if stock != ours:
                wrong.append(f"{one.who} {one.method} {one.path}\n    stock: {stock}\n    ours:  {ours}")
    assert not wrong, "\n".join(wrong)


async def test_both_servers_begin_with_the_same_roles(restricting: StockApiServer) -> None:
    async with ApiServer() as api:
        for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"):
            ask = _Ask("", "GET", f"{PATH}/{plural}")
            listed = await asyncio.to_thread(_raw_of_stock, restricting, ask)
            stock = _by_name(json.loads(listed[1])["items"])
            ours = _by_name((await api.get(ask.path)).json["items"])
            assert {name: one for name, one in ours.items() if not name[1].startswith("rota:")} == stock


def _by_name(items: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """What the server itself has made, by namespace and name."""
    found = {}
    for one in items:
        metadata = one["metadata"]
        if "kubernetes.io/bootstrapping" not in metadata.get("labels", {}):
            continue
        content = {name: value for name, value in one.items() if name not in {"metadata", "apiVersion", "kind"}}
        if "aggregationRule" in content:
            content.pop("rules", None)  # nobody adds them up at the stock server
        content["labels"], content["annotations"] = metadata["labels"], metadata["annotations"]
        found[metadata.get("namespace", ""), metadata["name"]] = content
    return found


def _raw_of_stock(server: StockApiServer, ask: _Ask) -> tuple[int, bytes]:
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=server.tls(), timeout=30)
    data = json.dumps(ask.body).encode() if ask.body is not None else b""
    try:
        connection.putrequest(ask.method, ask.path)
        connection.putheader("Authorization", f"Bearer {server.token()}")
        connection.putheader("Content-Type", ask.content_type)
        connection.putheader("Content-Length", str(len(data)))
        for name, value in ask.headers():
            connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _of_stock(server: StockApiServer, ask: _Ask) -> tuple[int, Any]:
    code, body = _raw_of_stock(server, ask)
    return code, _essence(code, body)


async def _of_ours(api: ApiServer, ask: _Ask) -> tuple[int, Any]:
    headers = _Pairs([*ask.headers(), ("content-type", ask.content_type)])
    answer = await api.request(ask.method, ask.path, body=ask.body, headers=headers)
    return answer.code, _essence(answer.code, answer.body)


class _Pairs(dict[str, str]):
    """Headers of which some may come twice."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        super().__init__(pairs)
        self._pairs = pairs

    def items(self) -> Any:
        return self._pairs


def _essence(code: int, body: bytes) -> Any:
    """What a refusal or a review says; of other answers nothing."""
    if code < 400 and b"Review" not in body:
        return None
    answer = json.loads(body)
    if answer["kind"] != "Status":
        return answer["status"]
    return answer["message"], answer.get("reason"), answer.get("details")
