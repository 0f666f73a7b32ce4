"""The dashboard before an API server, over real connections: signing in, and every way in that must stay closed."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from rota.api import errors
from rota.api.users import User
from rota.apiserver.authentication import authentication_config
from rota.apiserver.server import http_server
from rota.client.informers.informer import Informer
from rota.testing.api import ApiServer
from rota.web import feeds, request_rules, reviews, serving, sessions
from rota.web.application import Dashboard
from rota.web.sealing import Seal

ADMIN, READER = "admin-token", "reader-token"
TOKENS = {
    ADMIN: User(name="admin", groups=("system:masters",)),
    READER: User(name="reader"),
}


@dataclass
class Site:
    """A served dashboard, and a browser's side of it."""

    server: ApiServer
    dashboard: Dashboard
    url: str
    http: aiohttp.ClientSession
    cookie: str = ""
    page_key: str = ""

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def headers(self, **more: str) -> dict[str, str]:
        """What the dashboard's own page sends."""
        own = {
            "Sec-Fetch-Site": "same-origin",
            "Origin": self.url,
            "Cookie": self.cookie,
            "X-Rota-Page-Key": self.page_key,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        return {name: value for name, value in own.items() if value}

    async def sign_in(self, **proof: str) -> int:
        made = secrets.token_urlsafe(32)
        asked = {"pageKey": made, **proof}
        async with self.http.post(f"{self.url}/dashboard/session", json=asked, headers=self.headers()) as answer:
            if answer.status == 200:
                self.cookie, self.page_key = answer.headers["set-cookie"].partition(";")[0], made
            return answer.status

    async def get(self, path: str, headers: dict[str, str]) -> int:
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status

    async def listing(self, **more: str) -> int:
        return await self.get("/api/v1/namespaces", self.headers(**more))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with contextlib.AsyncExitStack() as parts:
        server = await parts.enter_async_context(
            ApiServer(signing_in=authentication_config.Settings(static_tokens=TOKENS))
        )
        dashboard = await parts.enter_async_context(
            serving.dashboard(server.app, secret=b"x" * 32, names=(), clock=server.clock, rng=server._rng)
        )
        served = await parts.enter_async_context(http_server.serve(dashboard))
        http = await parts.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()))
        yield Site(server, dashboard, served.url, http)


async def test_a_token_signs_in_and_requests_act_as_its_user(site: Site) -> None:
    assert await site.sign_in(token=ADMIN) == 200
    assert await site.listing() == 200
    assert await site.sign_in(token=READER) == 200
    assert await site.listing() == 403


@pytest.mark.parametrize("token", ["", "wrong", "zwölf", "a\nb", "x" * 5000])
async def test_what_is_no_token_does_not_sign_in(site: Site, token: str) -> None:
    assert await site.sign_in(token=token) in {400, 401}
    assert site.cookie == ""


async def test_a_ticket_signs_in_as_the_user_who_asked_for_it_once(site: Site) -> None:
    async with site.http.post(f"{site.url}/dashboard/tickets", headers={"Authorization": f"Bearer {ADMIN}"}) as answer:
        ticket = (await answer.json())["ticket"]
    assert await site.sign_in(ticket=ticket) == 200
    assert await site.listing() == 200
    assert await site.sign_in(ticket=ticket) == 401


async def test_tickets_are_not_for_strangers_nor_for_pages(site: Site) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {ADMIN}", "Origin": site.url}):
        async with site.http.post(f"{site.url}/dashboard/tickets", headers=headers) as answer:
            assert answer.status in {401, 403}, headers


async def test_signing_out_ends_the_session(site: Site) -> None:
    await site.sign_in(token=ADMIN)
    async with site.http.delete(f"{site.url}/dashboard/session", headers=site.headers()) as answer:
        assert answer.status == 200
        assert "Max-Age=0" in answer.headers["set-cookie"]
    assert await site.listing() == 401


async def test_the_cookie_alone_is_no_credential(site: Site) -> None:
    """Other servers on this host get the cookie, and so does a page that makes the browser send it."""
    await site.sign_in(token=ADMIN)
    for headers in (
        {"Cookie": site.cookie},
        {"Cookie": site.cookie, "Origin": site.url, "Sec-Fetch-Site": "same-origin"},
    ):
        assert await site.get("/api/v1/namespaces", headers) == 403  # anonymous
    assert await site.listing(X_Rota_Page_Key="guessed") == 401
    assert await site.listing(Cookie=f"{sessions.COOKIE}=forged") == 401


@pytest.mark.parametrize("site_of_page", ["cross-site", "same-site", "none"])
async def test_a_page_of_another_origin_does_not_act_as_the_user(site: Site, site_of_page: str) -> None:
    """CSRF, also from another port of the same host."""
    await site.sign_in(token=ADMIN)
    assert await site.listing(Sec_Fetch_Site=site_of_page) == 401
    assert await site.listing(Origin="http://evil.example", Sec_Fetch_Site=site_of_page) == 401
    name = {"metadata": {"name": "made-by-another"}}
    headers = site.headers(Origin="http://127.0.0.1:1", Sec_Fetch_Site="same-site")
    async with site.http.post(f"{site.url}/api/v1/namespaces", json=name, headers=headers) as answer:
        assert answer.status == 401
    async with site.http.post(
        f"{site.url}/dashboard/session", json={"token": ADMIN}, headers={"Origin": "http://evil.example"}
    ) as answer:
        assert answer.status == 403


async def test_another_host_name_is_not_this_server(site: Site) -> None:
    """DNS rebinding: a page of evil.example, whose name now points here, is of the same origin as we are."""
    await site.sign_in(token=ADMIN)
    rebound = {"Host": "evil.example:80", "Origin": "http://evil.example:80"}
    assert await site.get("/api/v1/namespaces", site.headers(**rebound)) == 401
    assert await site.get("/dashboard/", {"Host": "evil.example"}) == 421
    async with site.http.post(
        f"{site.url}/dashboard/session", json={"token": ADMIN}, headers={**rebound, "Sec-Fetch-Site": "same-origin"}
    ) as answer:
        assert answer.status == 421


@pytest.mark.parametrize("path", ["/api/v1/nodes/n/proxy/", "/api/v1/namespaces/a/pods/b/prox%79/x"])
async def test_a_session_is_not_valid_where_requests_go_on_to_other_servers(site: Site, path: str) -> None:
    await site.sign_in(token=ADMIN)
    assert await site.get(path, site.headers()) == 401


async def test_the_page_cannot_be_framed_and_says_so(site: Site) -> None:
    async with site.http.get(f"{site.url}/dashboard/pods") as answer:
        assert answer.status == 200
        assert answer.headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    async with site.http.get(f"{site.url}/dashboard/assets/app.js") as answer:
        etag = answer.headers["etag"]
        assert answer.headers["content-type"].startswith("text/javascript")
    assert await site.get("/dashboard/assets/app.js", {"If-None-Match": etag}) == 304
    assert await site.get("/dashboard/assets/none.js", {}) == 404


async def features(dashboard: Dashboard, http: aiohttp.ClientSession) -> Any:
    async with http_server.serve(dashboard) as served, http.get(f"{served.url}/dashboard/features") as answer:
        assert answer.status == 200
        return await answer.json()


async def test_pages_learn_what_they_may_offer(site: Site) -> None:
    """Also before anyone has signed in: the form for signing in asks, too."""
    assert await features(site.dashboard, site.http) == {"exec": True, "tokens": True, "provider": ""}
    beside = Dashboard(
        site.server.app,
        seal=Seal(b"x" * 32),
        names=request_rules.own_names(()),
        clock=site.server.clock,
        tickets=False,
        tokens=False,
        execs=False,
    )
    assert await features(beside, site.http) == {"exec": False, "tokens": False, "provider": ""}


async def opened(site: Site, **more: str) -> aiohttp.ClientWebSocketResponse:
    headers = site.headers(**more)
    headers.pop("X-Rota-Page-Key", None)
    headers = {name: value for name, value in headers.items() if value != "-"}
    protocols = ["live.rota.dev", *([f"page-key.rota.dev.{site.page_key}"] if site.page_key else [])]
    return await site.http.ws_connect(f"{site.url}/dashboard/live", headers=headers, protocols=protocols)


async def view(socket: aiohttp.ClientWebSocketResponse, name: str, namespace: str = "") -> dict[str, Any]:
    await socket.send_json({"subscribe": {"view": name, "namespace": namespace}})
    async with asyncio.timeout(30):
        told: dict[str, Any] = await socket.receive_json()
    assert told["view"] == name
    return told


async def test_a_web_socket_is_opened_by_the_own_page_only(site: Site) -> None:
    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        assert "begin" in await view(socket, "namespaces")
    refused: list[dict[str, str]] = [
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "-"},
        {"Origin": "-"},
        {"Cookie": "-"},
    ]
    for more in refused:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await opened(site, **more)
        assert refusal.value.status == 401, more
    site.page_key = ""
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await opened(site)


async def test_a_view_begins_and_goes_on_with_changes(site: Site) -> None:
    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        begun = await view(socket, "namespaces")
        known = {key for key, _ in begun["begin"]["rows"]}
        assert "/kube-system" in known
        admin = site.server.acting_as("admin", "system:masters")
        await admin.post("/api/v1/namespaces", {"metadata": {"name": "fresh"}})
        async with asyncio.timeout(30):
            told = await socket.receive_json()
        assert [key for key, _ in told["delta"]["set"]] == ["/fresh"]
        assert (await view(socket, "clusters"))["absent"] == "clusters.cluster.karmada.io"
        assert "failed" in await view(socket, "nothing")
        assert "failed" in await view(socket, "nodes", "default")


BINDING = "/apis/rbac.authorization.k8s.io/v1/namespaces/mine/rolebindings"


async def test_rights_are_asked_for_each_view_and_a_withdrawn_one_ends_it(site: Site) -> None:
    admin = site.server.acting_as("admin", "system:masters")
    await admin.post("/api/v1/namespaces", {"metadata": {"name": "mine"}})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "reader"}],
    }
    assert (await admin.post(BINDING, binding)).code == 201
    await site.sign_in(token=READER)
    async with await opened(site) as socket:
        assert (await view(socket, "pods"))["refused"] == "list, watch pods"
        assert "refused" in await view(socket, "overview")
        begun = {}
        async with asyncio.timeout(30):  # the authorizer follows the store
            while "begin" not in begun:
                begun = await view(socket, "pods", "mine")
        assert (await admin.request("DELETE", f"{BINDING}/reader")).code == 200
        async with asyncio.timeout(30):
            told = await socket.receive_json()
        assert told == {"view": "pods", "namespace": "mine", "refused": "list, watch pods in mine"}
        pod = {"metadata": {"name": "secret"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
        assert (await admin.post("/api/v1/namespaces/mine/pods", pod)).code == 201
        assert "refused" in await view(socket, "pods", "mine")


async def test_a_view_that_was_refused_begins_when_the_right_is_given(site: Site) -> None:
    admin = site.server.acting_as("admin", "system:masters")
    await site.sign_in(token=READER)
    async with await opened(site) as socket:
        assert "refused" in await view(socket, "namespaces")
        binding = {
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "reader"}],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        assert (await admin.post(path, binding)).code == 201
        async with asyncio.timeout(60):
            assert "begin" in await socket.receive_json()


async def test_a_review_that_is_not_answered_is_asked_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.tabs._RETRY_S", 0.05)
    asked = reviews.missing
    busy = [errors.too_many_requests("busy", retry_after_seconds=1)]

    async def unanswered(*given: Any) -> Any:
        if busy:
            raise busy.pop()
        return await asked(*given)

    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        await view(socket, "nodes")
        monkeypatch.setattr(reviews, "missing", unanswered)
        assert (await view(socket, "namespaces"))["failed"] == "busy"
        async with asyncio.timeout(30):
            assert "begin" in await socket.receive_json()


async def test_a_collection_that_is_not_read_holds_up_no_other_view(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.web.feeds._FIRST_LIST_S", 0.2)
    hang = asyncio.Event()
    listed = Informer.wait_synced

    async def wait_synced(informer: Informer[Any]) -> None:
        if "nodes" in informer._resource:
            await hang.wait()
        await listed(informer)

    monkeypatch.setattr(Informer, "wait_synced", wait_synced)
    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        for name in ("nodes", "namespaces"):
            await socket.send_json({"subscribe": {"view": name}})
        told: dict[str, dict[str, Any]] = {}
        async with asyncio.timeout(30):
            while not {"nodes", "namespaces"} <= told.keys():
                message = await socket.receive_json()
                told[message["view"]] = message
        assert "begin" in told["namespaces"]
        assert "does not list them" in told["nodes"]["failed"]
        hang.set()
        async with asyncio.timeout(30):
            assert "begin" in await socket.receive_json()


async def test_tabs_come_while_unused_views_are_forgotten(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.feeds._KEPT_S", -1.0)
    names = ("namespaces", "pipelines", "pipelineruns", "stepruns", "jobs", "deployments")
    await site.sign_in(token=ADMIN)
    for _ in range(3):
        async with await opened(site) as one, await opened(site) as other:
            for name in names:
                for socket in (one, other):
                    await socket.send_json({"subscribe": {"view": name}})
            for socket in (one, other):
                begun: set[str] = set()
                async with asyncio.timeout(60):
                    while begun != set(names):
                        told = await socket.receive_json()
                        assert "begin" in told, told
                        begun.add(told["view"])


async def test_a_view_that_crashes_closes_its_tab(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def crash(*_: object) -> None:
        raise RuntimeError("a mistake")

    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        await view(socket, "namespaces")
        monkeypatch.setattr(feeds.Feeds, "channel", crash)
        await socket.send_json({"subscribe": {"view": "nodes"}})
        async with asyncio.timeout(30):
            assert (await socket.receive()).type == aiohttp.WSMsgType.CLOSE


async def test_a_session_goes_on_while_its_user_cannot_be_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.live._AGAIN_S", 0.1)
    served = site.dashboard._api
    answers: list[int] = []
    enough = asyncio.Event()

    class Busy:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["path"].endswith("/selfsubjectreviews") and len(answers) < 3:
                answers.append(429)
                if len(answers) == 3:
                    enough.set()
                await send({"type": "http.response.start", "status": 429, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await served(scope, receive, send)

        def close(self) -> None:
            served.close()

    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        await view(socket, "namespaces")
        monkeypatch.setattr(site.dashboard, "_api", Busy())
        async with asyncio.timeout(30):
            await enough.wait()
        assert "begin" in await view(socket, "nodes")


async def test_a_user_has_a_limited_number_of_tabs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.live._MOST_TABS_OF_USER", 2)
    await site.sign_in(token=ADMIN)
    async with await opened(site) as first, await opened(site) as second:
        await view(first, "namespaces")
        await view(second, "namespaces")
        async with await opened(site) as third, asyncio.timeout(30):
            closed = await third.receive()
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 4429)
        await second.close()
        begun = False
        async with asyncio.timeout(30):  # the server notices the end of a tab soon
            while not begun:
                async with await opened(site) as another:
                    await another.send_json({"subscribe": {"view": "namespaces"}})
                    begun = (await another.receive()).type == aiohttp.WSMsgType.TEXT


async def streamed(socket: aiohttp.ClientWebSocketResponse, number: int, path: str) -> dict[str, Any]:
    await socket.send_json({"open": {"number": number, "path": path}})
    async with asyncio.timeout(30):
        told: dict[str, Any] = await socket.receive_json()
    assert told["stream"] == number
    return told


async def test_a_stream_is_a_request_of_the_user(site: Site) -> None:
    admin = site.server.acting_as("admin", "system:masters")
    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        for name, labels in (("other", {}), ("mine", {"kept": "yes"})):
            await admin.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        told = await streamed(socket, 1, "/api/v1/namespaces?watch=true&labelSelector=kept%3Dyes")
        assert '"mine"' in told["text"]
        assert '"other"' not in told["text"]
        await admin.post("/api/v1/namespaces", {"metadata": {"name": "later", "labels": {"kept": "yes"}}})
        async with asyncio.timeout(30):
            assert '"later"' in (await socket.receive_json())["text"]
        await socket.send_json({"end": 1})
        assert (await streamed(socket, 2, "/api/v1/namespaces/none"))["code"] == 404
        for path in (
            "/metrics",
            "/api/v1/nodes/n/proxy/",
            "/api/v1/namespaces/a/pods/b/prox%79/x",
            "//evil.example/api/",
        ):
            assert (await streamed(socket, 3, path))["code"] == 403
    await site.sign_in(token=READER)
    async with await opened(site) as socket:
        assert (await streamed(socket, 1, "/api/v1/secrets?watch=true"))["code"] == 403


async def test_a_tab_has_a_limited_number_of_streams(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.streams.MOST_STREAMS", 1)
    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        assert "text" in await streamed(socket, 1, "/api/v1/namespaces?watch=true")
        assert (await streamed(socket, 2, "/api/v1/namespaces?watch=true"))["code"] == 429


async def test_a_session_that_ends_closes_its_tabs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.live._AGAIN_S", 0.1)
    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        await view(socket, "namespaces")
        async with site.http.delete(f"{site.url}/dashboard/session", headers=site.headers()) as answer:
            assert answer.status == 200
        async with asyncio.timeout(30):
            closed = await socket.receive()
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 4401)


async def test_a_tab_that_does_not_speak_the_protocol_is_closed(site: Site) -> None:
    await site.sign_in(token=ADMIN)
    async with await opened(site) as socket:
        await socket.send_str("not json")
        async with asyncio.timeout(30):
            closed = await socket.receive()
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1007)


async def test_a_slow_tab_begins_anew_and_others_do_not_notice(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.web.tabs.MOST_WAITING_BYTES", 200_000)
    await site.sign_in(token=ADMIN)
    admin = site.server.acting_as("admin", "system:masters")
    large = {"note": "x" * 20_000}
    async with await opened(site) as slow, await opened(site) as quick:
        await view(slow, "namespaces")
        await view(quick, "namespaces")
        for number in range(40):
            body = {"metadata": {"name": f"n{number}", "annotations": large}}
            assert (await admin.post("/api/v1/namespaces", body)).code == 201
        for socket in (quick, slow):
            known: set[str] = set()
            async with asyncio.timeout(60):
                while not {f"/n{number}" for number in range(40)} <= known:
                    told = await socket.receive_json()
                    if "begin" in told:
                        known = {key for key, _ in told["begin"]["rows"]}
                    else:
                        known |= {key for key, _ in told["delta"]["set"]}


async def test_health_and_discovery_are_as_without_the_dashboard(site: Site) -> None:
    assert await site.get("/healthz", {}) == 200
    assert await site.get("/version", {}) == 200
    assert await site.get("/api/v1/namespaces", {"Authorization": f"Bearer {ADMIN}"}) == 200
    async with site.http.get(f"{site.url}/", headers={"Sec-Fetch-Dest": "document"}, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["location"]) == (302, "/dashboard/")
