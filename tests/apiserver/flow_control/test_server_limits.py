"""Limits at the server: 504 on timeout, 429 without a seat, and which requests always get through."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.apiserver.flow_control.settings import Limits
from rota.apiserver.interfaces import Credentials, User
from rota.testing.api import Answer, ApiServer

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


class ByHeader:
    """Authenticates by a header."""

    def recall(self, credentials: Credentials, /) -> User | None:
        return None

    def flow(self, credentials: Credentials, /) -> str:
        return "test"

    async def authenticate(self, credentials: Credentials, /) -> User:
        name, _, groups = credentials.headers.get(b"x-user", b"admin,system:masters").decode().partition(",")
        return User(name=name, groups=tuple(filter(None, groups.split(","))))


@contextlib.asynccontextmanager
async def server(limits: Limits) -> AsyncIterator[ApiServer]:
    async with ApiServer(authenticator=ByHeader(), limits=limits) as api:
        everyone: dict[str, Any] = {
            "metadata": {"name": "everyone"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "people"}],
        }
        made = await api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", everyone)
        assert made.code == 201, made
        yield api


class Held:
    """A write that runs until it is released: its body does not end."""

    def __init__(self, api: ApiServer, user: str, path: str = MAPS) -> None:
        self._more = asyncio.Event()
        self.begun = asyncio.Event()
        self.codes: list[int] = []
        self.body = b""
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"x-user", user.encode()), (b"content-type", b"application/json")],
        }
        self.task = asyncio.create_task(api.app(self._scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        self.begun.set()
        await self._more.wait()
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def _send(self, message: Any) -> None:
        if "status" in message:
            self.codes.append(message["status"])
        self.body += message.get("body", b"")

    async def let_go(self) -> None:
        self._more.set()
        await self.task


async def ask(api: ApiServer, path: str, user: str, **query: object) -> Answer:
    return await api.request("GET", path, headers={"x-user": user}, query=query)


async def test_a_request_that_takes_too_long_is_answered_504_in_upstreams_words() -> None:
    async with server(Limits(request_s=0.2)) as api:
        held = Held(api, "ann,people")
        async with asyncio.timeout(60):
            await held.task
        assert held.codes == [504]
        assert b'"message":"Timeout: request did not complete within the allotted timeout"' in held.body
        assert b'"reason":"Timeout"' in held.body


async def test_a_client_may_ask_for_less_time_and_not_for_nonsense() -> None:
    async with server(Limits()) as api:
        assert (await ask(api, PODS, "ann,people", timeout="5s")).code == 200
        refused = await ask(api, PODS, "ann,people", timeout="soon")
        assert refused.code == 400
        assert refused.json["message"] == (
            'invalid timeout specified in the request URL - time: invalid duration "soon"'
        )


@pytest.mark.slow
async def test_watches_outlive_the_time_of_requests() -> None:
    async with server(Limits(request_s=0.1)) as api, api.watch(MAPS) as events:
        await asyncio.sleep(1.2)
        await api.post(MAPS, {"metadata": {"name": "late"}})
        assert (await events.next())["object"]["metadata"]["name"] == "late"


async def test_an_overloaded_user_gets_429_while_others_are_served() -> None:
    limits = Limits(seats=5, queue=1, queue_per_user=1, wait_s=10.0)
    async with server(limits) as api:
        running = []
        for _ in range(3):
            running.append(Held(api, "ann,people"))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await running[-1].begun.wait()
        assert not running[-1].begun.is_set(), "the last one waits for a place"
        refused = await ask(api, MAPS, "ann,people")
        assert (refused.code, refused.headers["retry-after"]) == (429, "1")
        assert refused.body == b"Too many requests, please try again later.\n"
        assert refused.headers["content-type"] == "text/plain; charset=utf-8"
        assert (await ask(api, "/livez", "ann,people")).code == 200
        assert (await ask(api, "/readyz", "system:anonymous,system:unauthenticated")).code == 200
        lease = {"metadata": {"name": "beat"}, "spec": {"holderIdentity": "me"}}
        beat = await api.request("POST", LEASES, body=lease, headers={"x-user": "system:kube-scheduler,people"})
        assert beat.code == 201
        no_beat = await api.request("POST", LEASES, body=lease, headers={"x-user": "ann,people"})
        assert no_beat.code == 429
        assert (await ask(api, MAPS, "admin,system:masters")).code == 200
        assert (await ask(api, "/api/v1/nodes/none", "system:kube-scheduler,people")).code == 404
        for one in running:
            await one.let_go()
        assert (await ask(api, MAPS, "ann,people")).code == 200


async def test_streams_are_bounded_and_counted_down() -> None:
    async with server(Limits(streams=3, streams_per_user=1)) as api:
        for _ in range(3):
            async with api.watch(MAPS), api.watch(MAPS), api.watch(MAPS):
                refused = await ask(api, MAPS, "admin,system:masters", watch="true")
                assert refused.code == 429
        assert (await ask(api, f"{PODS}/none/log", "ann,people")).code == 404
        assert (await ask(api, f"{PODS}/none/log", "ann,people")).code == 404


async def test_a_rate_answers_429() -> None:
    async with server(Limits(rate_per_user=0.1, burst_per_user=2)) as api:
        codes = [(await ask(api, MAPS, "ann,people")).code for _ in range(3)]
        assert codes == [200, 200, 429]
        assert (await ask(api, MAPS, "bob,people")).code == 200
        told = (await api.get("/metrics")).body.decode()
        assert 'rota_apiserver_requests_refused_total{level="others",why="rate"} 1.0' in told
