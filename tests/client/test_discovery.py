"""Asking a server for its kinds, in the new way and in the old one."""

import json
from typing import Any

from rota.api import scheme
from rota.client import discovery
from rota.client.transports.in_process import InProcessTransport
from rota.client.verbs import Client
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock


class Plainly:
    """Hides the aggregated form of a server, and may break one of its groups."""

    def __init__(self, server: ApiServer, broken: str = "") -> None:
        self._server = server
        self._broken = broken

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._broken and scope["path"].startswith(self._broken):
            body = json.dumps({"kind": "Status", "code": 503, "reason": "ServiceUnavailable"}).encode()
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": body})
            return
        await self._server.app({**scope, "headers": [(b"accept", b"application/json")]}, receive, send)


async def test_both_ways_find_the_same_kinds(clock: FakeClock) -> None:
    async with ApiServer(clock=clock) as server:
        aggregated = await discovery.discover(Client(InProcessTransport(server.app, clock=clock)))
        plain = await discovery.discover(Client(InProcessTransport(Plainly(server), clock=clock)))
    assert not aggregated.failed
    assert not plain.failed
    assert {one.gvr for one in plain.types} == {one.gvr for one in aggregated.types}
    by_name = {str(one.gvr): one for one in aggregated.types}
    for one in plain.types:
        other = by_name[str(one.gvr)]
        assert (one.kind, one.namespaced, set(one.verbs)) == (other.kind, other.namespaced, set(other.verbs))
    builtin = {one.gvr for one in scheme.builtin() if "list" in one.verbs}
    assert {one.gvr for one in aggregated.types} >= builtin


async def test_each_resource_is_preferred_in_one_version(clock: FakeClock) -> None:
    async with ApiServer(clock=clock) as server:
        found = await discovery.discover(Client(InProcessTransport(server.app, clock=clock)))
    preferred = {one.group_resource: one.version for one in found.preferred()}
    assert len(preferred) == len(found.preferred())
    scalers = next(key for key in preferred if key.resource == "horizontalpodautoscalers")
    assert preferred[scalers] == "v2"


async def test_a_group_that_does_not_answer_is_named_and_not_taken_for_empty(clock: FakeClock) -> None:
    async with ApiServer(clock=clock) as server:
        broken = Plainly(server, broken="/apis/batch/v1")
        found = await discovery.discover(Client(InProcessTransport(broken, clock=clock)))
    assert found.failed == ("batch/v1",)
    assert not [one for one in found.types if one.group == "batch"]
    assert [one for one in found.types if one.group == "apps"]
