"""Every verb against the real API server, over both transports."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import codec, errors, scheme
from rota.api.models import load
from rota.apiserver.server import http_server
from rota.client import paths, pods, wire
from rota.client.endpoints import Endpoint
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.transports.http import HttpTransport
from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.transport import Call, Transport, Unreachable
from rota.client.typed import TypedClient
from rota.client.verbs import Client, PatchType, Propagation, Selection, Settings
from rota.client.wire import EventType
from rota.kit.system import SystemClock
from rota.testing.api import ApiServer
from rota.testing.schedulers import FaultyTransport
from rota.testing.scripted_api import Reply, ScriptedApi

SCHEME = scheme.builtin()
MAPS = ("", "v1", "configmaps")
core_v1 = load("core_v1")
meta_v1 = load("meta_v1")


def _resource(name: str) -> Any:
    found = SCHEME.find(name)
    assert found is not None
    return found


def _map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"name": name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@contextlib.asynccontextmanager
async def _transport(server: ApiServer, kind: str) -> AsyncIterator[Transport]:
    if kind == "in-process":
        transport: Transport = InProcessTransport(server.app, clock=SystemClock())
        yield transport
        await transport.close()
        return
    async with http_server.serve(server.app) as served:
        transport = HttpTransport(Endpoint(server=served.url))
        yield transport
        await transport.close()


@pytest.fixture(params=["http", "in-process"])
async def real(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with ApiServer() as server, _transport(server, request.param) as transport:
        yield Client(transport, Settings(field_manager="tester"))


async def test_an_object_lives_its_life(real: Client) -> None:
    configmaps = _resource("configmaps")
    made = await real.create(configmaps, _map("a", x="1"))
    assert made["metadata"]["uid"]
    assert await real.get(configmaps, "a", namespace="default") == made
    changed = await real.update(configmaps, {**made, "data": {"x": "2"}})
    with pytest.raises(errors.Conflict):
        await real.update(configmaps, {**made, "data": {"x": "3"}})
    assert changed["data"] == {"x": "2"}
    with pytest.raises(errors.Conflict):
        await real.delete(configmaps, "a", namespace="default", uid="another")
    await real.delete(configmaps, "a", namespace="default", uid=made["metadata"]["uid"])
    with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
        await real.get(configmaps, "a", namespace="default")


async def test_errors_are_those_of_the_server(real: Client) -> None:
    await real.create(MAPS, _map("a"))
    with pytest.raises(errors.AlreadyExists) as caught:
        await real.create(MAPS, _map("a"))
    assert caught.value.code == 409
    assert caught.value.details is not None
    assert caught.value.details.name == "a"


async def test_all_four_patches(real: Client) -> None:
    await real.create(MAPS, _map("a", x="1", y="1"))
    where: dict[str, Any] = {"namespace": "default"}
    await real.patch(MAPS, "a", {"data": {"x": None}}, **where)
    await real.patch(MAPS, "a", {"data": {"z": "1"}}, type=PatchType.STRATEGIC, **where)
    operation = [{"op": "replace", "path": "/data/y", "value": "2"}]
    await real.patch(MAPS, "a", operation, type=PatchType.JSON, **where)
    await real.apply(MAPS, _map("a", w="1"), field_manager="applier")
    assert (await real.get(MAPS, "a", **where))["data"] == {"y": "2", "z": "1", "w": "1"}
    with pytest.raises(errors.Conflict):
        await real.apply(MAPS, _map("a", y="3"), field_manager="applier")
    forced = await real.apply(MAPS, _map("a", y="3"), field_manager="applier", force=True)
    assert forced["data"]["y"] == "3"


async def test_a_dry_run_changes_nothing(real: Client) -> None:
    assert (await real.create(MAPS, _map("a"), dry_run=True))["metadata"]["name"] == "a"
    with pytest.raises(errors.NotFound):
        await real.get(MAPS, "a", namespace="default")


async def test_lists_go_through_all_pages_and_select(real: Client) -> None:
    for number in range(7):
        await real.create(MAPS, _map(f"m{number}"))
    found = await real.list(MAPS, namespace="default", limit=3)
    ours = [one["metadata"]["name"] for one in found.items if one["metadata"]["name"].startswith("m")]
    assert ours == [f"m{number}" for number in range(7)]
    assert {(one["apiVersion"], one["kind"]) for one in found.items} == {("v1", "ConfigMap")}
    by_label = await real.list(MAPS, selection=Selection(labels="name in (m1,m2)"))
    assert len(by_label.items) == 2
    by_field = await real.list(MAPS, selection=Selection(fields="metadata.name=m3"))
    assert len(by_field.items) == 1
    await real.delete_collection(MAPS, namespace="default", selection=Selection(labels="name=m1"))
    assert len((await real.list(MAPS, selection=Selection(labels="name in (m1,m2)"))).items) == 1


async def test_a_watch_continues_a_list(real: Client) -> None:
    found = await real.list(MAPS, namespace="default")
    await real.create(MAPS, _map("a"))
    async with real.watch(MAPS, namespace="default", resource_version=found.resource_version) as events:
        await real.patch(MAPS, "a", {"data": {"x": "1"}}, namespace="default")
        await real.delete(MAPS, "a", namespace="default", propagation=Propagation.BACKGROUND)
        async with asyncio.timeout(60):
            seen = [await anext(events) for _ in range(3)]
    assert [event.type for event in seen] == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]
    assert seen[1].object["data"] == {"x": "1"}


async def test_metadata_can_be_had_alone(real: Client) -> None:
    lean = real.with_settings(metadata_only=True)
    await real.create(MAPS, _map("a", x="1"))
    found = await lean.list(MAPS, selection=Selection(labels="name=a"))
    read = await lean.get(MAPS, "a", namespace="default")
    patched = await lean.patch(MAPS, "a", {"data": {"x": "2"}}, namespace="default")
    async with lean.watch(MAPS, resource_version=found.resource_version) as events:
        async with asyncio.timeout(60):
            event = await anext(events)
    for one in (found.items[0], read, patched, event.object):
        assert (one["kind"], one["metadata"]["name"]) == ("PartialObjectMetadata", "a")
        assert "data" not in one


async def test_lists_and_objects_are_asked_for_in_the_shape_that_stock_servers_want(
    client: Client, api: ScriptedApi
) -> None:
    lean = client.with_settings(metadata_only=True)
    await lean.list(MAPS)
    await lean.get(MAPS, "a", namespace="default")
    await lean.delete(MAPS, "a", namespace="default")
    shapes = [asked.headers["accept"].partition(";g=")[0] for asked in api.asked]
    assert shapes == [
        "application/json;as=PartialObjectMetadataList",
        "application/json;as=PartialObjectMetadata",
        "application/json",
    ]


async def test_status_is_a_door_of_its_own(real: Client) -> None:
    nodes = _resource("nodes")
    made = await real.create(nodes, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    made["status"] = {"capacity": {"cpu": "4"}}
    updated = await real.update(nodes, made, subresource="status")
    assert updated["status"]["capacity"] == {"cpu": "4"}


async def _pod(client: Client, name: str, cpu: str = "1") -> None:
    requests = {"requests": {"cpu": cpu}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": requests}]}
    metadata = {"name": name, "namespace": "default"}
    await client.create(pods.PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


async def test_pods_are_bound_one_by_one_and_many_at_once(real: Client) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    made = await real.create(("", "v1", "nodes"), node)
    made["status"] = {"allocatable": {"cpu": "3", "memory": "8Gi", "pods": "10"}}
    await real.update(("", "v1", "nodes"), made, subresource="status")
    for name in "abcd":
        await _pod(real, name)
    await pods.bind(real, pods.Binding(namespace="default", pod="a", node="n1"))
    with pytest.raises(errors.Conflict):
        await pods.bind(real, pods.Binding(namespace="default", pod="a", node="n1"))
    verdicts = await pods.bind_many(
        real, [pods.Binding(namespace="default", pod=name, node="n1") for name in ("b", "c", "d")]
    )
    assert verdicts[:2] == [None, None]
    assert isinstance(verdicts[2], errors.Conflict)
    bound = await real.get(pods.PODS, "b", namespace="default")
    assert bound["spec"]["nodeName"] == "n1"


async def test_pods_are_evicted_and_workloads_scaled(real: Client) -> None:
    await _pod(real, "a")
    await pods.evict(real, "a", namespace="default")
    with pytest.raises(errors.NotFound):
        await real.get(pods.PODS, "a", namespace="default")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    metadata = {"name": "d", "namespace": "default"}
    deployments = _resource("deployments")
    await real.create(deployments, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    await pods.scale(real, deployments, "d", namespace="default", replicas=4)
    assert (await real.get(deployments, "d", namespace="default"))["spec"]["replicas"] == 4
    shown = await real.get(deployments, "d", namespace="default", subresource="scale")
    assert (shown["kind"], shown["spec"]["replicas"]) == ("Scale", 4)


async def test_typed_verbs_speak_structs(real: Client) -> None:
    typed = TypedClient(real, SCHEME)
    made = await typed.create(
        core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="a", namespace="default"), data={"x": "1"})
    )
    assert made.metadata.uid
    made.data = {"x": "2"}
    assert (await typed.update(made)).data == {"x": "2"}
    assert (await typed.get(core_v1.ConfigMap, "a", namespace="default")).data == {"x": "2"}
    patched = await typed.patch(core_v1.ConfigMap, "a", {"data": {"y": "3"}}, namespace="default")
    assert patched.data == {"x": "2", "y": "3"}
    listed = await typed.list(core_v1.ConfigMap, namespace="default")
    assert [one.metadata.name for one in listed.items if one.metadata.name == "a"] == ["a"]
    await typed.delete(core_v1.ConfigMap, "a", namespace="default")
    with pytest.raises(TypeError, match="ObjectMeta is not the model of any resource"):
        typed.resource(meta_v1.ObjectMeta)


@pytest.mark.slow
async def test_several_informers_hold_what_the_server_holds(real: Client) -> None:
    clock = SystemClock()
    informers = [
        Informer(Source(client=real, target=MAPS), decode=codec.decode, clock=clock, rng=random.Random(seed))
        for seed in range(5)
    ]
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    for informer in informers:
        await informer.wait_synced()
    for number in range(20):
        await real.create(MAPS, _map(f"m{number}"))
    for number in range(0, 20, 2):
        await real.delete(MAPS, f"m{number}", namespace="default")
    await real.create(MAPS, _map("last"))
    async with asyncio.timeout(60):
        while not all(informer.cache.get("last", "default") for informer in informers):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    truth = {one["metadata"]["name"]: one for one in (await real.list(MAPS)).items}
    for informer in informers:
        assert {key.name: value for key, value in informer.cache.items()} == truth
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


# --- against the scripted API ---------------------------------------------------------------------------------------


async def test_bindings_are_posted_one_by_one_where_there_are_no_batches(client: Client, api: ScriptedApi) -> None:
    api.replies.extend([Reply(code=404, reason="NotFound"), Reply(code=409, reason="Conflict")])
    wanted = [pods.Binding(namespace="default", pod=name, node="n1") for name in ("a", "b")]
    verdicts = await pods.bind_many(client, wanted)
    assert isinstance(verdicts[0], errors.Conflict)
    assert verdicts[1] is None
    assert [asked.path for asked in api.asked] == [
        "/apis/rota.dev/v1alpha1/bindingbatches",
        "/api/v1/namespaces/default/pods/a/binding",
        "/api/v1/namespaces/default/pods/b/binding",
    ]


async def test_a_connection_that_breaks_between_single_bindings_costs_only_the_one_that_was_sent(
    api: ScriptedApi,
) -> None:
    async def breaking(call: Call) -> None:
        if "/pods/b/" in call.path:
            raise Unreachable(f"{call}: nobody is there")

    transport = FaultyTransport(InProcessTransport(api, clock=SystemClock()))
    transport.before = breaking
    api.replies.append(Reply(code=404, reason="NotFound"))
    wanted = [pods.Binding(namespace="default", pod=name, node="n1") for name in ("a", "b", "c")]
    first, second, third = await pods.bind_many(Client(transport), wanted)
    assert first is None
    assert isinstance(second, Unreachable)
    assert third is None
    await transport.close()


async def test_an_answer_that_is_no_json_is_an_error_of_its_code(client: Client, api: ScriptedApi) -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 502, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>bad gateway</html>"})

    with pytest.raises(errors.ApiError) as caught:
        await Client(InProcessTransport(page, clock=SystemClock())).get(MAPS, "a", namespace="b")
    assert caught.value.code == 502


async def test_half_a_line_at_the_end_of_a_watch_is_no_event() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"type":"ADDED","obj'
        yield b'ect":{"a":1}}\n\n{"type":"BOOKMARK","object":{}}\n{"type":"ADD'

    assert [event.type async for event in wire.events(chunks())] == [EventType.ADDED, EventType.BOOKMARK]


def test_paths_escape_names_and_check_scopes() -> None:
    roles = _resource("clusterroles")
    assert paths.item(roles, "system:node/x") == "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%2Fx"
    with pytest.raises(ValueError, match="have no namespaces"):
        paths.item(roles, "a", namespace="b")
    with pytest.raises(ValueError, match="live in namespaces"):
        paths.item(_resource("pods"), "a")
    with pytest.raises(ValueError, match="the name is empty"):
        paths.item(MAPS, "", namespace="b")
