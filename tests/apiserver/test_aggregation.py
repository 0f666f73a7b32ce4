"""Aggregation: requests for the APIs of other servers, what those see of them, discovery and availability."""

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from rota.api.identifiers import GroupVersion
from rota.apiserver.aggregation import api_services, front_proxy
from rota.apiserver.aggregation.discovered_resources import discovered
from rota.apiserver.aggregation.front_proxy import FrontProxyIdentity, FrontProxySettings
from rota.apiserver.interfaces import User
from rota.apiserver.server import http_server
from rota.apiserver.service_endpoints import Found
from rota.kit import system
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Names, Subject
from rota.pki.contexts import use
from rota.testing.api import ApiServer
from rota.web.sessions import PAGE_KEY_PROTOCOL

_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_API = "/apis/fruit.example.com/v1"
_APPLES = f"{_API}/namespaces/default/apples"
_RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "fruit.example.com/v1",
    "resources": [
        {"name": "apples", "singularName": "apple", "namespaced": True, "kind": "Apple", "verbs": ["get", "list"]},
        {"name": "apples/status", "singularName": "", "namespaced": True, "kind": "Apple", "verbs": ["get"]},
    ],
}


class Fruit:
    """The server of an API: only the front proxy may call it, and it says what it got."""

    def __init__(self, front: Authority) -> None:
        now = system.SystemClock().now()
        self._authority = Authority.create(now=now, name="fruit")
        names = Names.of(["fruit.default.svc"])
        identity = self._authority.issue(
            Subject(common_name="fruit"), now=now, lifetime_s=3600, purpose=Purpose.SERVER, names=names
        )
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.verify_mode = ssl.CERT_REQUIRED
        self._tls.load_verify_locations(cadata=front.certificate_pem.decode())
        use(self._tls, identity)
        self.port = 0
        self.requests: list[web.Request] = []
        self.more = asyncio.Event()
        self.broken = False
        #: Instead of the list of its resources.
        self.listing = b""

    @property
    def bundle(self) -> str:
        return base64.b64encode(self._authority.signing_pem).decode()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Fruit"]:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls)
            await site.start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == _API and self.listing:
            return web.Response(body=self.listing, content_type="application/json")
        if request.path == _API:
            return web.json_response({} if self.broken else _RESOURCES, status=500 if self.broken else 200)
        self.requests.append(request)
        if request.method == "GET" and request.headers.get("Upgrade", "").lower() == "websocket":
            socket = web.WebSocketResponse(protocols=("fruit",))
            await socket.prepare(request)
            async for message in socket:
                await socket.send_str(f"{request.headers['X-Remote-User']} said {message.data}")
            return socket
        if request.query.get("watch"):
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            await stream.write(b'{"type":"ADDED","object":{"n":1}}\n')
            await self.more.wait()
            await stream.write(b'{"type":"ADDED","object":{"n":2}}\n')
            return stream
        said = {
            "kind": "Apple",
            "method": request.method,
            "path": request.path_qs,
            "body": (await request.read()).decode(),
        }
        status = int(request.query.get("status") or (201 if request.method == "POST" else 200))
        return web.json_response(said, status=status, headers={"Set-Cookie": "a=b"})


@pytest.fixture
def front() -> Authority:
    return Authority.create(now=system.SystemClock().now(), name="front")


@pytest.fixture
async def api(front: Authority) -> AsyncIterator[ApiServer]:
    settings = FrontProxySettings(authority=front, client_authorities=b"the cluster's CA")
    async with ApiServer(front_proxy=settings) as server:
        yield server


@pytest.fixture
async def fruit(front: Authority) -> AsyncIterator[Fruit]:
    async with Fruit(front).running() as server:
        yield server


def _declared(fruit: Fruit, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "v1.fruit.example.com"},
        "spec": {
            "group": "fruit.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": "fruit"},
            "caBundle": fruit.bundle,
            **spec,
        },
    }


async def _serve(api: ApiServer, fruit: Fruit) -> None:
    service = {"metadata": {"name": "fruit"}, "spec": {"ports": [{"name": "tls", "port": 443}]}}
    assert (await api.post("/api/v1/namespaces/default/services", service)).code == 201
    slices = {
        "metadata": {"name": "fruit-1", "labels": {"kubernetes.io/service-name": "fruit"}},
        "addressType": "IPv4",
        "ports": [{"name": "tls", "port": fruit.port}],
        "endpoints": [{"addresses": ["127.0.0.1"]}],
    }
    assert (await api.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slices)).code == 201


async def _until(api: ApiServer, reason: str, status: str) -> str:
    """Wait for the condition of the API; returns its message."""
    found: dict[str, Any] = {}
    for _ in range(6000):
        obj = (await api.get(f"{_SERVICES}/v1.fruit.example.com")).json
        found = next(iter((obj.get("status") or {}).get("conditions") or ()), {})
        if (found.get("reason"), found.get("status")) == (reason, status):
            return str(found["message"])
        await asyncio.sleep(0.01)
    raise AssertionError(f"the condition is {found}")


async def _answers(api: ApiServer, path: str, code: int) -> None:
    """Wait until the server has seen a condition itself: it follows the store."""
    for _ in range(6000):
        if (await api.get(path)).code == code:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} does not answer {code}")


async def _available(api: ApiServer, fruit: Fruit, **spec: Any) -> None:
    await _serve(api, fruit)
    made = await api.post(_SERVICES, _declared(fruit, **spec))
    assert (made.code, made.warnings) == (201, []), made
    assert await _until(api, "Passed", "True") == "all checks passed"
    await _answers(api, _API, 200)


async def _allow(api: ApiServer, user: str, *, verbs: list[str], **rule: Any) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": ["fruit.example.com"], "resources": ["apples"], "verbs": verbs, **rule}]
    assert (await api.post(f"{roles}/clusterroles", {"metadata": {"name": user}, "rules": rules})).code == 201
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    assert (await api.post(f"{roles}/clusterrolebindings", binding)).code == 201


async def test_a_request_goes_on_with_its_user_and_without_its_credentials(api: ApiServer, fruit: Fruit) -> None:
    await _available(api, fruit)
    await _allow(api, "ann", verbs=["create"])
    ann = api.acting_as("ann", "growers")
    sent = {
        "authorization": "Bearer secret",
        "cookie": "session=secret",
        "x-remote-user": "admin",
        "x-remote-group": "system:masters",
        "x-remote-extra-scopes": "all",
        "content-type": "application/json",
    }
    answer = await ann.request("POST", _APPLES, body={"a": 1}, headers=sent, query={"dryRun": "All"})
    assert (answer.code, answer.json["path"]) == (201, f"{_APPLES}?dryRun=All"), answer
    assert json.loads(answer.json["body"]) == {"a": 1}
    (got,) = fruit.requests
    assert got.headers.getall("X-Remote-User") == ["ann"]
    assert got.headers.getall("X-Remote-Group") == ["growers", "system:authenticated"]
    assert not {"Authorization", "Cookie", "X-Remote-Extra-Scopes"} & {*got.headers}
    assert "secret" not in str(got.headers)
    refused = await ann.get(_APPLES)
    assert (refused.code, refused.json["reason"], len(fruit.requests)) == (403, "Forbidden", 1)


async def test_a_watch_is_streamed(api: ApiServer, fruit: Fruit) -> None:
    await _available(api, fruit)
    async with api.watch(_APPLES) as events:
        assert (await events.next())["object"] == {"n": 1}
        fruit.more.set()
        assert (await events.next())["object"] == {"n": 2}


async def test_a_websocket_is_handed_over(api: ApiServer, fruit: Fruit) -> None:
    await _available(api, fruit)
    async with http_server.serve(api.app) as served, aiohttp.ClientSession() as session:
        headers = {"Authorization": "Bearer secret"}
        async with session.ws_connect(f"{served.url}{_APPLES}", protocols=("fruit",), headers=headers) as socket:
            await socket.send_str("hello")
            assert await socket.receive_str() == "system:admin said hello"
            assert socket.protocol == "fruit"
    assert "Authorization" not in fruit.requests[-1].headers


async def test_a_request_is_authorized_as_the_other_server_reads_it(api: ApiServer, fruit: Fruit) -> None:
    await _available(api, fruit)
    fruit.more.set()
    await _allow(api, "ann", verbs=["list"])
    await _allow(api, "bob", verbs=["get"], resourceNames=["a:b"])
    ann, bob = api.acting_as("ann"), api.acting_as("bob")
    assert (await ann.request("GET", _APPLES, query={"watch": "0"})).code == 200
    for value in ("T", "yes", ""):
        assert (await ann.request("GET", _APPLES, query={"watch": value})).code == 403, value
    assert (await bob.get(f"{_APPLES}/a%3Ab")).json["path"] == f"{_APPLES}/a%3Ab"
    assert (await bob.get(f"{_APPLES}/a%3Ac")).code == 403


@pytest.mark.parametrize("rest", ["..", "../pears", "%2e%2e/pears", "%2E%2e%2fpears", ".", "a%2Fb"])
async def test_paths_that_servers_read_differently_are_not_passed_on(api: ApiServer, fruit: Fruit, rest: str) -> None:
    await _available(api, fruit)
    assert (await api.get(f"{_APPLES}/{rest}")).code == 404
    assert not fruit.requests


async def test_credentials_among_the_subprotocols_stay_here(api: ApiServer, fruit: Fruit) -> None:
    await _available(api, fruit)
    offered = ("base64url.bearer.authorization.k8s.io.c2VjcmV0", f"{PAGE_KEY_PROTOCOL}secret", "fruit")
    async with (
        http_server.serve(api.app) as served,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{served.url}{_APPLES}", protocols=offered) as socket,
    ):
        assert socket.protocol == "fruit"
    assert fruit.requests[-1].headers["Sec-WebSocket-Protocol"] == "fruit"


async def test_only_a_get_opens_a_websocket(api: ApiServer, fruit: Fruit) -> None:
    """Another method is authorized as what it is, so it goes on as what it is."""
    await _available(api, fruit)
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "A" * 22 + "=="}
    async with (
        http_server.serve(api.app) as served,
        aiohttp.ClientSession() as session,
        session.post(f"{served.url}{_APPLES}", json={"a": 1}, headers=upgrade) as answer,
    ):
        assert (answer.status, (await answer.json())["method"]) == (201, "POST")


async def test_an_answer_that_breaks_off_does_not_look_complete(api: ApiServer, fruit: Fruit) -> None:
    await _available(api, fruit)
    async with (
        http_server.serve(api.app) as served,
        aiohttp.ClientSession() as session,
        session.get(f"{served.url}{_APPLES}?watch=1") as answer,
    ):
        assert await answer.content.readline() == b'{"type":"ADDED","object":{"n":1}}\n'
        transport = fruit.requests[-1].transport
        assert transport is not None
        transport.abort()
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_status_that_has_no_name_is_returned(api: ApiServer, fruit: Fruit) -> None:
    await _available(api, fruit)
    async with (
        http_server.serve(api.app) as served,
        aiohttp.ClientSession() as session,
        session.get(f"{served.url}{_APPLES}", params={"status": "520"}) as answer,
    ):
        assert answer.status == 520


async def test_discovery_shows_the_api_in_both_forms(api: ApiServer, fruit: Fruit) -> None:
    await _available(api, fruit)
    groups = {one["name"]: one for one in (await api.get("/apis")).json["groups"]}
    assert groups["fruit.example.com"]["preferredVersion"]["version"] == "v1"
    assert "apps" in groups
    group = (await api.get("/apis/fruit.example.com")).json
    assert (group["kind"], group["versions"][0]["groupVersion"]) == ("APIGroup", "fruit.example.com/v1")
    assert (await api.get(_API)).json == _RESOURCES
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    items = {one["metadata"]["name"]: one for one in (await api.get("/apis", accept=accept)).json["items"]}
    (version,) = items["fruit.example.com"]["versions"]
    assert (version["freshness"], [one["resource"] for one in version["resources"]]) == ("Current", ["apples"])
    assert version["resources"][0]["subresources"][0]["subresource"] == "status"
    assert (await api.delete(f"{_SERVICES}/v1.fruit.example.com")).code == 200
    for _ in range(1000):
        if "fruit.example.com" not in {one["name"] for one in (await api.get("/apis")).json["groups"]}:
            break
        await asyncio.sleep(0.01)
    assert (await api.get(_API)).code == 404


async def test_versions_of_one_priority_are_ordered_as_those_of_any_kind(api: ApiServer, fruit: Fruit) -> None:
    for version, priority in (("v1", 10), ("v1beta1", 20), ("v2", 10), ("v10", 10)):
        body = _declared(fruit, version=version, versionPriority=priority)
        body["metadata"]["name"] = f"{version}.fruit.example.com"
        assert (await api.post(_SERVICES, body)).code == 201
        await _answers(api, f"/apis/fruit.example.com/{version}", 503)
    group = (await api.get("/apis/fruit.example.com")).json
    assert [one["version"] for one in group["versions"]] == ["v1beta1", "v10", "v2", "v1"]


async def test_an_api_that_is_not_available_gets_503_and_the_reason(api: ApiServer, fruit: Fruit) -> None:
    assert (await api.post(_SERVICES, _declared(fruit))).code == 201
    assert await _until(api, "ServiceNotFound", "False") == 'service/fruit in "default" is not present'
    answer = await api.get(_APPLES)
    assert (answer.code, answer.body) == (503, b"service unavailable")
    await _serve(api, fruit)
    await _until(api, "Passed", "True")
    fruit.broken = True
    message = await _until(api, "FailedDiscoveryCheck", "False")
    url = f"https://127.0.0.1:{fruit.port}{_API}"
    assert message == f"failing or missing response from {url}: bad status from {url}: 500"
    await _answers(api, _APPLES, 503)
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    items = {one["metadata"]["name"]: one for one in (await api.get("/apis", accept=accept)).json["items"]}
    assert items["fruit.example.com"]["versions"][0]["freshness"] == "Stale"


async def test_a_list_that_cannot_be_read_does_not_end_the_checks(api: ApiServer, fruit: Fruit) -> None:
    fruit.listing = b"[" * 100_000
    await _available(api, fruit)


async def test_the_servers_certificate_is_checked_unless_the_api_says_otherwise(api: ApiServer, fruit: Fruit) -> None:
    other = Authority.create(now=system.SystemClock().now(), name="other")
    await _serve(api, fruit)
    wrong = base64.b64encode(other.signing_pem).decode()
    assert (await api.post(_SERVICES, _declared(fruit, caBundle=wrong))).code == 201
    assert "certificate signed by unknown authority" in await _until(api, "FailedDiscoveryCheck", "False")
    live = (await api.get(f"{_SERVICES}/v1.fruit.example.com")).json
    live["spec"] |= {"caBundle": None, "insecureSkipTLSVerify": True}
    assert (await api.put(f"{_SERVICES}/v1.fruit.example.com", live)).code == 200
    await _until(api, "Passed", "True")
    await _answers(api, _APPLES, 200)


async def test_groups_of_this_server_are_not_passed_on(api: ApiServer, fruit: Fruit) -> None:
    await _serve(api, fruit)
    declared = _declared(fruit, group="apps", version="v1")
    declared["metadata"]["name"] = "v1.apps"
    assert (await api.post(_SERVICES, declared)).code == 201
    obj: dict[str, Any] = {}
    for _ in range(6000):
        obj = (await api.get(f"{_SERVICES}/v1.apps")).json
        if (obj.get("status") or {}).get("conditions"):
            break
        await asyncio.sleep(0.01)
    (condition,) = obj["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "Local",
        "this server serves apps/v1 itself, fruit.default.svc is not called",
    )
    assert (await api.get("/apis/apps/v1/deployments")).json["kind"] == "DeploymentList"
    assert fruit.requests == []


async def test_what_servers_of_apis_trust_is_published(api: ApiServer, front: Authority) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    data = (await api.get(path)).json["data"]
    assert data["requestheader-client-ca-file"] == front.certificate_pem.decode()
    assert data["client-ca-file"] == "the cluster's CA"
    assert json.loads(data["requestheader-allowed-names"]) == ["front-proxy-client"]
    assert json.loads(data["requestheader-username-headers"]) == ["X-Remote-User"]


async def test_servers_of_one_store_share_the_authority(api: ApiServer) -> None:
    first = await front_proxy.ensure(api.store, now=api.clock.now())
    second = await front_proxy.ensure(api.store, now=api.clock.now())
    assert first.certificate_pem == second.certificate_pem


def test_the_certificate_is_renewed_when_half_of_its_time_is_over(front: Authority) -> None:
    now, identity = system.SystemClock().now(), FrontProxyIdentity(front)
    first = identity.at(now)
    assert identity.at(now + 14 * 86_400) is first
    assert identity.at(now + 16 * 86_400) is not first


def test_the_user_is_named_in_headers() -> None:
    user = User(name="ann", uid="7", groups=("a", "b"), extra={"example.com/Scope": ("x", "y")})
    assert list(front_proxy.remote_user(user)) == [
        ("X-Remote-User", "ann"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-example.com%2Fscope", "x"),
        ("X-Remote-Extra-example.com%2Fscope", "y"),
    ]


_ONE = api_services.read(
    {
        "metadata": {"name": "v1.g"},
        "spec": {"group": "g", "version": "v1", "service": {"namespace": "n", "name": "s", "port": 7}},
    }
)


@pytest.mark.parametrize(
    ("found", "reason", "message"),
    [
        ({}, "ServiceNotFound", 'service/s in "n" is not present'),
        ({"exists": True}, "ServicePortError", 'service/s in "n" is not listening on port 7'),
        ({"exists": True, "port_name": ""}, "EndpointsNotFound", 'cannot find endpointslices for service/s in "n"'),
        (
            {"exists": True, "port_name": "x", "slices": 1},
            "MissingEndpoints",
            'endpointslices for service/s in "n" have no addresses with port name "x"',
        ),
    ],
)
def test_why_a_service_has_no_address(found: dict[str, Any], reason: str, message: str) -> None:
    assert _ONE is not None
    condition = api_services.unresolved(_ONE, Found(namespace="n", name="s", port=7, **found))
    assert condition == api_services.Condition("False", reason, message)


def test_the_time_of_a_condition_is_that_of_its_status() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "x"}}
    first = api_services.with_condition(obj, api_services.PASSED, now=0)
    again = api_services.with_condition(first, api_services.PASSED, now=60)
    assert again == first
    local = api_services.with_condition(first, api_services.LOCAL, now=60)
    assert local["status"]["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    failed = api_services.with_condition(first, api_services.failed("u", "w"), now=60)
    assert failed["status"]["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:01:00Z"


def test_a_list_that_is_not_one_is_shown_as_empty() -> None:
    for listed in (None, {}, {"resources": "x"}, {"resources": [1, {"kind": "A"}]}):
        assert discovered(GroupVersion("g", "v1"), listed, fresh=False)["resources"] == []


def test_fields_of_another_type_are_left_out() -> None:
    """One server must not break the discovery of all."""
    wrong = {"verbs": 5, "shortNames": True, "categories": {"a": 1}, "singularName": None}
    listed = {"resources": [{"name": 1}, {"name": "apples", **wrong}, {"name": "apples/status", "verbs": ["get", 1]}]}
    (apples,) = discovered(GroupVersion("g", "v1"), listed, fresh=True)["resources"]
    assert (apples["verbs"], apples["subresources"][0]["verbs"]) == ([], ["get"])
    assert not {"shortNames", "categories"} & {*apples}
