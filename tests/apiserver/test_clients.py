"""Clients that others wrote, against the server."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import kubernetes
import kubernetes_asyncio
import lightkube
import pytest
import pytest_asyncio
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

from rota.testing.api import in_background

pytestmark = pytest.mark.slow

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "registry.example/web:1"}]},
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with in_background() as address:
        yield address


def test_the_official_client_creates_lists_patches_watches_and_deletes(url: str) -> None:
    configuration = kubernetes.client.Configuration(host=url)
    with kubernetes.client.ApiClient(configuration) as client:
        core: Any = kubernetes.client.CoreV1Api(client)
        watch: Any = kubernetes.watch
        created = core.create_namespaced_pod("default", POD)
        assert created.metadata.uid
        seen: list[tuple[str, str]] = []

        def follow() -> None:
            version = created.metadata.resource_version
            stream = watch.Watch().stream(
                core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=20
            )
            for event in stream:
                seen.append((event["type"], event["object"].metadata.name))
                if event["type"] == "DELETED":
                    break

        follower = threading.Thread(target=follow)
        follower.start()
        core.patch_namespaced_pod("web", "default", {"metadata": {"labels": {"tier": "front"}}})
        [found] = core.list_namespaced_pod("default", label_selector="tier=front").items
        assert found.metadata.labels == {"app": "web", "tier": "front"}
        with pytest.raises(kubernetes.client.ApiException) as refusal:
            core.create_namespaced_pod("default", POD)
        assert (refusal.value.status, refusal.value.reason) == (409, "Conflict")
        core.delete_namespaced_pod("web", "default")
        follower.join(20)
        assert seen == [("MODIFIED", "web"), ("DELETED", "web")]
        # the client's own closing leaves its connections open
        client.rest_client.pool_manager.clear()


@pytest_asyncio.fixture
async def asynchronous(url: str) -> AsyncIterator[Any]:
    configuration = kubernetes_asyncio.client.Configuration(host=url)
    async with kubernetes_asyncio.client.ApiClient(configuration) as client:
        yield kubernetes_asyncio.client.CoreV1Api(client)


async def test_the_asynchronous_client_follows_a_collection(asynchronous: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "async"}, "data": {"a": "1"}}
    watch = kubernetes_asyncio.watch.Watch()
    await asynchronous.create_namespaced_config_map("default", body)
    async with asyncio.timeout(20):
        async for event in watch.stream(asynchronous.list_namespaced_config_map, "default", timeout_seconds=10):
            if event["object"].metadata.name == "async":
                break
    await watch.close()
    replaced = await asynchronous.replace_namespaced_config_map("async", "default", {**body, "data": {"a": "2"}})
    assert replaced.data == {"a": "2"}
    await asynchronous.delete_namespaced_config_map("async", "default")


def test_lightkube_applies_on_the_server(url: str) -> None:
    config = lightkube.KubeConfig.from_dict(
        {
            "clusters": [{"name": "here", "cluster": {"server": url}}],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
    )
    with lightkube.Client(config=config, namespace="default", field_manager="me") as client:
        applied = client.apply(ConfigMap(metadata=ObjectMeta(name="light", namespace="default"), data={"a": "1"}))
        assert applied.data == {"a": "1"}
        again = client.apply(ConfigMap(metadata=ObjectMeta(name="light", namespace="default"), data={"b": "2"}))
        assert again.data == {"b": "2"}
        assert "light" in [one.metadata.name for one in client.list(ConfigMap) if one.metadata]
        client.delete(ConfigMap, "light")
        with pytest.raises(lightkube.ApiError) as refusal:
            client.get(ConfigMap, "light")
        assert refusal.value.status.code == 404
