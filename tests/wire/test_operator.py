"""An operator made with kopf: a new object, its status, an event, a change and a clean end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf
import pytest
import pytest_asyncio

from rota.testing import manifests
from rota.testing.live import LiveServer

pytestmark = [
    pytest.mark.slow,
    # kopf's own matter, which it has no other way to settle on this Python
    pytest.mark.filterwarnings("default::DeprecationWarning"),
]

PATIENCE_S = 90.0


class Widgets:
    """The objects of one namespace, as the operator's user sees them."""

    def __init__(self, http: aiohttp.ClientSession, namespace: str) -> None:
        self.namespace = namespace
        self._http = http
        self._path = f"/apis/example.com/v1/namespaces/{namespace}/widgets"

    async def create(self, name: str, **spec: Any) -> None:
        async with self._http.post(self._path, json=manifests.widget(name, **spec)) as answer:
            assert answer.status == 201, await answer.text()

    async def patch(self, name: str, change: Any) -> None:
        headers = {"content-type": "application/merge-patch+json"}
        async with self._http.patch(f"{self._path}/{name}", json=change, headers=headers) as answer:
            assert answer.status == 200, await answer.text()

    async def delete(self, name: str) -> None:
        async with self._http.delete(f"{self._path}/{name}") as answer:
            assert answer.status == 200, await answer.text()

    async def until(self, name: str, holds: Any) -> Any:
        """The object once something holds of it (None once it is gone), seen by watching."""
        query = {"watch": "true", "fieldSelector": f"metadata.name={name}"}
        async with asyncio.timeout(PATIENCE_S), self._http.get(self._path, params=query) as answer:
            async for line in answer.content:
                event = _event(line)
                obj = None if event["type"] == "DELETED" else event["object"]
                if holds(obj):
                    return obj
        raise AssertionError("the watch ended")

    async def events(self) -> list[str]:
        """The reasons of the events in the namespace."""
        async with self._http.get(f"/api/v1/namespaces/{self.namespace}/events") as answer:
            return [item["reason"] for item in (await answer.json())["items"]]


def _event(line: bytes) -> Any:
    return aiohttp.typedefs.DEFAULT_JSON_DECODER(line.decode())


def _registry(url: str, deleted: list[str]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=url)

    @kopf.on.create("example.com", "v1", "widgets", registry=registry)
    def create(spec: Any, patch: Any, body: Any, **_: Any) -> None:
        patch.status["ready"] = spec["size"]
        patch.status["phase"] = "Made"
        kopf.info(body, reason="Made", message=f"of size {spec['size']}")

    @kopf.on.update("example.com", "v1", "widgets", field="spec.size", registry=registry)
    def resize(old: Any, new: Any, patch: Any, **_: Any) -> None:
        patch.status["phase"] = f"Resized from {old} to {new}"
        patch.status["ready"] = new

    @kopf.on.delete("example.com", "v1", "widgets", registry=registry)
    def delete(name: str, **_: Any) -> None:
        deleted.append(name)

    return registry


class Operator:
    """A running operator and what it saw."""

    def __init__(self, widgets: Widgets, deleted: list[str]) -> None:
        self.widgets = widgets
        self.deleted = deleted


@pytest_asyncio.fixture
async def operator(live: LiveServer) -> AsyncIterator[Operator]:
    live.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifests.widgets())
    live.established("widgets.example.com")
    namespace = live.namespace()
    deleted: list[str] = []
    settings = kopf.OperatorSettings()
    settings.posting.enabled = True
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(
        kopf.operator(
            registry=_registry(live.url, deleted),
            settings=settings,
            namespaces=[namespace],
            standalone=True,
            stop_flag=stop,
            ready_flag=ready,
        )
    )
    async with aiohttp.ClientSession(live.url) as http:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await ready.wait()
            yield Operator(Widgets(http, namespace), deleted)
        finally:
            stop.set()
            with contextlib.suppress(asyncio.CancelledError):
                async with asyncio.timeout(PATIENCE_S):
                    await running


async def test_an_operator_sees_its_objects_through(operator: Operator) -> None:
    widgets = operator.widgets
    await widgets.create("w", size=3)
    made = await widgets.until("w", lambda obj: obj and obj.get("status", {}).get("phase") == "Made")
    assert (made["status"]["ready"], bool(made["metadata"]["finalizers"])) == (3, True)
    await widgets.patch("w", {"spec": {"size": 5}})
    resized = await widgets.until("w", lambda obj: obj and "Resized" in obj["status"]["phase"])
    assert (resized["status"]["phase"], resized["status"]["ready"]) == ("Resized from 3 to 5", 5)
    assert "Made" in await widgets.events()
    await widgets.delete("w")
    await widgets.until("w", lambda obj: obj is None)
    assert operator.deleted == ["w"]
