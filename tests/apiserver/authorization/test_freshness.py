"""Permissions are effective as soon as they are granted, and no request is refused by outdated state."""

import asyncio
from pathlib import Path

import pytest

from rota.api import users
from rota.store.store_interface import RevisionRange, Store
from rota.testing import access
from rota.testing.access import rule
from rota.testing.api import ApiServer

_PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.slow
async def test_a_right_granted_at_one_server_counts_at_the_next_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    async with ApiServer(store_url=url) as one, ApiServer(store_url=url, seed=1) as two:
        for number in range(10):
            user = f"user{number}"
            await access.grant(one, user, rule("list", "pods"), namespace="default")
            answer = await two.acting_as(user).get(_PODS)
            assert answer.code == 200, answer
            elsewhere = await two.acting_as(user).get("/api/v1/pods")
            assert elsewhere.code == 403


@pytest.mark.slow
async def test_a_pod_bound_at_one_server_gives_its_node_what_it_needs_at_the_next(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"}}}
    async with ApiServer(store_url=url) as one, ApiServer(store_url=url, seed=1) as two:
        assert (await one.post("/api/v1/nodes", node)).code == 201
        worker = two.acting_as("system:node:n", "system:nodes")
        for number in range(5):
            name = f"secret{number}"
            assert (await one.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": name}})).code == 201
            secret = f"/api/v1/namespaces/default/secrets/{name}"
            assert (await worker.get(secret)).code == 403
            volume = {"name": "v", "secret": {"secretName": name}}
            spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "n", "volumes": [volume]}
            answer = await one.post(_PODS, {"metadata": {"name": f"p{number}"}, "spec": spec})
            assert answer.code == 201, answer
            assert (await worker.get(secret)).code == 200


class _Asked:
    """A store's `revision_range` that counts calls, and answers when the test lets it."""

    def __init__(self, store: Store) -> None:
        self._revision_range = store.revision_range
        self.count = 0
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self) -> RevisionRange:
        self.count += 1
        self.begun.set()
        revision_range = await self._revision_range()
        await self.go_on.wait()
        return revision_range


async def test_many_refusals_ask_the_store_once_and_never_take_an_answer_from_before(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _Asked(api.store)
    monkeypatch.setattr(api.store, "revision_range", asked)
    somebody = api.acting_as("x")
    first = asyncio.ensure_future(somebody.get("/metrics"))
    await asyncio.wait_for(asked.begun.wait(), 10)
    later = [asyncio.ensure_future(somebody.get("/metrics")) for _ in range(50)]
    await asyncio.sleep(0.01)
    later[0].cancel()
    assert asked.count == 1
    asked.go_on.set()
    assert {(await one).code for one in (first, *later[1:])} == {403}
    assert asked.count == 2


async def test_strangers_cannot_make_the_server_ask_the_store(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _Asked(api.store)
    monkeypatch.setattr(api.store, "revision_range", asked)
    stranger = api.acting_as("somebody")
    stranger.user = users.ANONYMOUS
    assert (await asyncio.wait_for(stranger.get("/metrics"), 10)).code == 403
    assert asked.count == 0


async def test_what_is_allowed_is_served_and_what_is_not_is_unsure_once_the_store_is_gone(api: ApiServer) -> None:
    anonymous = api.acting_as("x")
    assert (await anonymous.get("/metrics")).code == 403
    await api.store.close()
    assert (await anonymous.get("/livez")).code == 200
    assert (await anonymous.get("/metrics")).code == 503
