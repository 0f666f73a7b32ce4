"""Rules that read caches: a write is in force on this server at once, and no server refuses by outdated state."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from rota.testing.api import ApiServer

_PODS = "/api/v1/namespaces/default/pods"


@pytest_asyncio.fixture
async def other(shared: str) -> AsyncIterator[ApiServer]:
    """A second server on the same store."""
    async with ApiServer(store_url=shared) as server:
        yield server


@pytest_asyncio.fixture
async def one(shared: str) -> AsyncIterator[ApiServer]:
    async with ApiServer(store_url=shared) as server:
        yield server


@pytest.fixture
def shared() -> str:
    return f"memory://{secrets.token_hex(8)}"


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


async def test_limits_quotas_and_default_classes_are_in_force_with_the_next_request(api: ApiServer) -> None:
    for number in range(3):
        ranges = {"limits": [{"type": "Container", "default": {"cpu": f"{number + 1}"}}]}
        body = {"metadata": {"name": "l"}, "spec": ranges}
        path = "/api/v1/namespaces/default/limitranges"
        assert (await (api.put(f"{path}/l", body) if number else api.post(path, body))).code in {200, 201}
        made = await api.post(_PODS, _pod(f"limited-{number}"))
        assert made.json["spec"]["containers"][0]["resources"]["limits"] == {"cpu": f"{number + 1}"}
    await api.delete("/api/v1/namespaces/default/limitranges/l")
    assert "limits" not in (await api.post(_PODS, _pod("free"))).json["spec"]["containers"][0]["resources"]
    priority = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    assert (await api.post(_PODS, _pod("ranked"))).json["spec"]["priority"] == 7
    await api.post(
        "/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "6"}}}
    )
    assert [(await api.post(_PODS, _pod(name))).code for name in ("sixth", "seventh")] == [201, 403]


async def test_what_another_server_made_is_looked_for_before_it_is_missed(one: ApiServer, other: ApiServer) -> None:
    await one.post("/api/v1/namespaces", {"metadata": {"name": "new"}})
    assert (await other.post("/api/v1/namespaces/new/pods", _pod("p"))).code == 201
    await one.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 9})
    made = await other.post(_PODS, _pod("p", priorityClassName="high"))
    assert made.json["spec"]["priority"] == 9


async def test_nothing_gets_into_a_namespace_that_another_server_has_just_begun_to_empty(
    one: ApiServer, other: ApiServer
) -> None:
    for number in range(10):
        path = f"/api/v1/namespaces/going-{number}"
        await one.post("/api/v1/namespaces", {"metadata": {"name": f"going-{number}"}})
        assert (await other.get(path)).code == 200
        await asyncio.sleep(0)
        await one.delete(path)
        assert (await other.post(f"{path}/pods", _pod("p"))).code == 403


async def test_a_namespace_that_changes_all_the_time_does_not_keep_objects_out(api: ApiServer) -> None:
    async def change() -> None:
        for number in range(50):
            await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"number": str(number)}}})

    changing = asyncio.create_task(change())
    codes = {(await api.post(_PODS, _pod(f"p{number}"))).code for number in range(50)}
    await changing
    assert codes == {201}
