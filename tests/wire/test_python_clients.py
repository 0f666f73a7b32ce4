"""The Python libraries for Kubernetes against Rota's server: kubernetes, kubernetes-asyncio, lightkube."""

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import kubernetes
import kubernetes.dynamic
import kubernetes_asyncio
import lightkube
import pytest
import pytest_asyncio
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource, load_in_cluster_generic_resources
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import PatchType

from rota.testing import manifests
from rota.testing.live import LiveServer

pytestmark = pytest.mark.slow

#: Half of what these libraries have is typed, and by halves.
dynamic_client: Any = kubernetes.dynamic.DynamicClient


@pytest.fixture
def namespace(live: LiveServer) -> str:
    return live.namespace()


@pytest.fixture(scope="module")
def widgets(live: LiveServer) -> None:
    """A custom kind, served by the time it is asked for."""
    live.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifests.widgets())
    live.established("widgets.example.com")


class TestOfficial:
    @pytest.fixture
    def client(self, live: LiveServer) -> Iterator[kubernetes.client.ApiClient]:
        configuration = kubernetes.client.Configuration(host=live.url)
        with kubernetes.client.ApiClient(configuration) as client:
            yield client
            # the client's own closing leaves its connections open
            client.rest_client.pool_manager.clear()

    @pytest.fixture
    def core(self, client: Any) -> Any:
        return kubernetes.client.CoreV1Api(client)

    def test_a_pod_lives_from_creation_to_deletion(self, core: Any, namespace: str) -> None:
        created = core.create_namespaced_pod(namespace, manifests.pod("p", labels={"app": "web"}))
        assert (created.status.phase, created.metadata.namespace) == ("Pending", namespace)
        core.patch_namespaced_pod("p", namespace, {"metadata": {"labels": {"more": "1"}}})
        core.patch_namespaced_pod_status("p", namespace, {"status": {"phase": "Running"}})
        read = core.read_namespaced_pod("p", namespace)
        assert (read.metadata.labels, read.status.phase) == ({"app": "web", "more": "1"}, "Running")
        read.metadata.annotations = {"by": "put"}
        assert core.replace_namespaced_pod("p", namespace, read).metadata.annotations == {"by": "put"}
        core.delete_namespaced_pod("p", namespace)
        with pytest.raises(kubernetes.client.ApiException) as refusal:
            core.read_namespaced_pod("p", namespace)
        assert (refusal.value.status, refusal.value.reason) == (404, "Not Found")

    def test_an_old_version_is_not_put_over_a_newer_one(self, core: Any, namespace: str) -> None:
        old = core.create_namespaced_config_map(namespace, manifests.config_map("c", a="1"))
        core.patch_namespaced_config_map("c", namespace, {"data": {"a": "2"}})
        with pytest.raises(kubernetes.client.ApiException) as refusal:
            core.replace_namespaced_config_map("c", namespace, old)
        assert refusal.value.status == 409

    def test_a_list_comes_in_pages_of_one_moment(self, core: Any, namespace: str) -> None:
        for number in range(7):
            core.create_namespaced_config_map(namespace, manifests.config_map(f"c{number}"))
        names, proceed, versions = [], None, set()
        while True:
            page = core.list_namespaced_config_map(namespace, limit=3, _continue=proceed)
            names += [item.metadata.name for item in page.items]
            versions.add(page.metadata.resource_version)
            core.create_namespaced_config_map(namespace, manifests.config_map(f"later{len(names)}"))
            proceed = page.metadata._continue
            if not proceed:
                break
        assert names == [f"c{number}" for number in range(7)]
        assert len(versions) == 1

    def test_a_watch_continues_from_a_list(self, core: Any, namespace: str) -> None:
        core.create_namespaced_config_map(namespace, manifests.config_map("before"))
        version = core.list_namespaced_config_map(namespace).metadata.resource_version

        def change() -> None:
            core.create_namespaced_config_map(namespace, manifests.config_map("c"))
            core.patch_namespaced_config_map("c", namespace, {"data": {"a": "1"}})
            core.delete_namespaced_config_map("c", namespace)

        writer = threading.Thread(target=change)
        writer.start()
        seen = []
        watches: Any = kubernetes.watch
        watch = watches.Watch()
        for event in watch.stream(
            core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=20
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                watch.stop()
        writer.join()
        assert seen == [("ADDED", "c"), ("MODIFIED", "c"), ("DELETED", "c")]

    def test_a_collection_is_deleted_by_label(self, core: Any, namespace: str) -> None:
        for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
            core.create_namespaced_config_map(namespace, manifests.config_map(name, labels={"color": color}))
        core.delete_collection_namespaced_config_map(namespace, label_selector="color=red")
        assert [item.metadata.name for item in core.list_namespaced_config_map(namespace).items] == ["c"]

    def test_workloads_are_read_back_with_their_defaults(self, client: Any, namespace: str) -> None:
        apps: Any = kubernetes.client.AppsV1Api(client)
        apps.create_namespaced_deployment(namespace, manifests.deployment("web", replicas=2))
        assert apps.read_namespaced_deployment("web", namespace).spec.strategy.rolling_update.max_surge == "25%"
        scale = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 4}})
        assert (scale.kind, scale.spec.replicas) == ("Scale", 4)

    def test_a_custom_kind_goes_through_the_dynamic_client(self, client: Any, namespace: str, widgets: None) -> None:
        kind = dynamic_client(client).resources.get(api_version="example.com/v1", kind="Widget")
        made = kind.create(manifests.widget("w", size=3), namespace=namespace)
        assert (made.spec.size, made.spec.color) == (3, "grey")
        kind.patch({"spec": {"size": 4}}, name="w", namespace=namespace, content_type="application/merge-patch+json")
        assert [one.spec.size for one in kind.get(namespace=namespace).items] == [4]
        applied = kind.server_side_apply(
            manifests.widget("w", size=5), namespace=namespace, field_manager="test", force_conflicts=True
        )
        assert applied.spec.size == 5
        kind.delete(name="w", namespace=namespace)

    def test_custom_objects_have_a_status_and_a_scale_of_their_own(
        self, client: Any, namespace: str, widgets: None
    ) -> None:
        custom: Any = kubernetes.client.CustomObjectsApi(client)
        where = ("example.com", "v1", namespace, "widgets")
        custom.create_namespaced_custom_object(*where, manifests.widget("w", size=3))
        custom.patch_namespaced_custom_object_status(*where, "w", {"status": {"ready": 2}, "spec": {"size": 9}})
        read = custom.get_namespaced_custom_object(*where, "w")
        assert (read["status"]["ready"], read["spec"]["size"]) == (2, 3)
        custom.patch_namespaced_custom_object_scale(*where, "w", {"spec": {"replicas": 6}})
        scale = custom.get_namespaced_custom_object_scale(*where, "w")
        assert (scale["kind"], scale["spec"]["replicas"], scale["status"]["replicas"]) == ("Scale", 6, 2)
        with pytest.raises(kubernetes.client.ApiException) as refusal:
            custom.create_namespaced_custom_object(*where, manifests.widget("v", size=-1))
        assert refusal.value.status == 422
        assert "spec.size" in str(refusal.value.body)


class TestAsync:
    @pytest_asyncio.fixture
    async def client(self, live: LiveServer) -> AsyncIterator[kubernetes_asyncio.client.ApiClient]:
        configuration = kubernetes_asyncio.client.Configuration(host=live.url)
        async with kubernetes_asyncio.client.ApiClient(configuration) as client:
            yield client

    @pytest_asyncio.fixture
    async def core(self, client: Any) -> Any:
        return kubernetes_asyncio.client.CoreV1Api(client)

    async def test_a_pod_lives_from_creation_to_deletion(self, core: Any, namespace: str) -> None:
        created = await core.create_namespaced_pod(namespace, manifests.pod("p"))
        assert created.status.phase == "Pending"
        await core.patch_namespaced_pod("p", namespace, {"metadata": {"labels": {"a": "1"}}})
        assert (await core.read_namespaced_pod("p", namespace)).metadata.labels == {"a": "1"}
        await core.delete_namespaced_pod("p", namespace)
        assert (await core.list_namespaced_pod(namespace)).items == []

    async def test_a_watch_sees_every_change(self, core: Any, namespace: str) -> None:
        await core.create_namespaced_config_map(namespace, manifests.config_map("c"))
        seen = []
        async with kubernetes_asyncio.watch.Watch().stream(
            core.list_namespaced_config_map, namespace, timeout_seconds=20
        ) as events:
            async for event in events:
                seen.append(event["type"])
                if event["type"] == "ADDED":
                    await core.patch_namespaced_config_map("c", namespace, {"data": {"a": "1"}})
                elif event["type"] == "MODIFIED":
                    await core.delete_namespaced_config_map("c", namespace)
                else:
                    break
        assert seen == ["ADDED", "MODIFIED", "DELETED"]

    async def test_a_pod_is_bound_to_a_node(self, core: Any, live: LiveServer, namespace: str) -> None:
        node = f"node-{namespace}"
        await core.create_node(manifests.node(node))
        await core.create_namespaced_pod(namespace, manifests.pod("p"))
        binding = {"metadata": {"name": "p"}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        await core.create_namespaced_pod_binding("p", namespace, binding, _preload_content=False)
        pod = await core.read_namespaced_pod("p", namespace)
        assert pod.spec.node_name == node
        assert [one.type for one in pod.status.conditions if one.status == "True"] == ["PodScheduled"]


class TestLightkube:
    @pytest.fixture
    def client(self, live: LiveServer, namespace: str) -> Iterator[lightkube.Client]:
        configuration = lightkube.KubeConfig.from_one(cluster=Cluster(server=live.url), user=User())
        with lightkube.Client(config=configuration, namespace=namespace, field_manager="ours") as client:
            yield client

    def test_a_pod_lives_from_creation_to_deletion(self, client: lightkube.Client) -> None:
        spec = PodSpec(containers=[Container(name="main", image="app:1")])
        pod = client.create(Pod(metadata=ObjectMeta(name="p", labels={"app": "web"}), spec=spec))
        assert pod.status is not None
        assert pod.status.phase == "Pending"
        client.patch(Pod.Status, "p", {"status": {"phase": "Running"}})
        running = client.get(Pod, "p")
        assert running.status is not None
        assert running.status.phase == "Running"
        assert [one.metadata.name for one in client.list(Pod, labels={"app": "web"}) if one.metadata] == ["p"]
        client.delete(Pod, "p")
        with pytest.raises(ApiError) as refusal:
            client.get(Pod, "p")
        assert refusal.value.status.reason == "NotFound"

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            (PatchType.MERGE, {"data": {"b": "2"}}),
            (PatchType.STRATEGIC, {"data": {"b": "2"}}),
            (PatchType.JSON, [{"op": "add", "path": "/data/b", "value": "2"}]),
        ],
    )
    def test_every_kind_of_patch_is_taken(self, client: lightkube.Client, kind: PatchType, body: Any) -> None:
        client.create(ConfigMap(metadata=ObjectMeta(name="c"), data={"a": "1"}))
        assert client.patch(ConfigMap, "c", body, patch_type=kind).data == {"a": "1", "b": "2"}

    def test_applying_takes_and_releases_fields(self, client: lightkube.Client) -> None:
        client.apply(ConfigMap(metadata=ObjectMeta(name="c"), data={"a": "1", "b": "2"}))
        assert client.apply(ConfigMap(metadata=ObjectMeta(name="c"), data={"b": "2"})).data == {"b": "2"}

    def test_lists_are_paged_without_being_asked_to(self, client: lightkube.Client) -> None:
        for number in range(5):
            client.create(ConfigMap(metadata=ObjectMeta(name=f"c{number}")))
        found = client.list(ConfigMap, chunk_size=2)
        assert [one.metadata.name for one in found if one.metadata] == [f"c{number}" for number in range(5)]

    def test_a_watch_sees_what_is_there_and_what_comes(self, client: lightkube.Client) -> None:
        client.create(ConfigMap(metadata=ObjectMeta(name="c"), data={"a": "1"}))
        seen = []
        for kind, obj in client.watch(ConfigMap):
            seen.append((kind, obj.data))
            if kind == "ADDED":
                client.patch(ConfigMap, "c", {"data": {"a": "2"}})
            else:
                break
        assert seen == [("ADDED", {"a": "1"}), ("MODIFIED", {"a": "2"})]

    def test_a_custom_kind_is_found_in_the_cluster(self, client: lightkube.Client, widgets: None) -> None:
        load_in_cluster_generic_resources(client)
        kind = create_namespaced_resource("example.com", "v1", "Widget", "widgets")
        made = client.create(kind(metadata=ObjectMeta(name="w"), spec={"size": 2}))
        assert made.spec == {"size": 2, "color": "grey"}
        assert client.get(kind, "w").spec["color"] == "grey"
