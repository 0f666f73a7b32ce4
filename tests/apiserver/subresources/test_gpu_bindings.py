"""Bindings to nodes that share their GPUs: the pod gets devices, and no device is ever oversold."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.apiserver.subresources.harness import Server, serving

from rota.api import errors, gpu_devices
from rota.apiserver.node_allocations import pod_shares
from rota.apiserver.subresources.binder import BindRequest, Verdict
from rota.kit import system
from rota.store import store_factory
from rota.store.store_interface import Store
from rota.testing.api import ApiServer

SHARE, WHOLE = gpu_devices.SHARE, gpu_devices.WHOLE


async def _open() -> Store:
    return await store_factory.open_store("memory://", time=system.SystemClock(), rng=random.Random(0))


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    store = await _open()
    async with serving(store) as one:
        yield one
    await store.close()


async def _a_sharing_node(server: Server, gpus: int = 2) -> None:
    amounts = {"nvidia_com__gpu": str(gpus), "rota_dev__gpu-milli": str(1000 * gpus)}
    await server.add_node("n1", cpu="64", pods="100", **amounts)


async def _bind(server: Server, pod: str, devices: str | None = None, node: str = "n1") -> Verdict:
    annotations = {} if devices is None else {gpu_devices.ANNOTATION: devices}
    wish = BindRequest(namespace="default", name=pod, node=node, annotations=annotations)
    (verdict,) = await server.binder.bind(server.at("create", "pods", namespace="default"), [wish], server.registry)
    return verdict


async def _devices(server: Server, pod: str) -> str | None:
    found: str | None = ((await server.pod(pod))["metadata"].get("annotations") or {}).get(gpu_devices.ANNOTATION)
    return found


async def test_a_pod_gets_the_device_that_its_binding_names(server: Server) -> None:
    await _a_sharing_node(server)
    await server.add_pod("a", {SHARE: "300"})
    assert await _bind(server, "a", "1") is None
    assert await _devices(server, "a") == "1"


async def test_a_binding_without_devices_gets_those_that_fit_best(server: Server) -> None:
    await _a_sharing_node(server)
    for name, amounts in (("a", {SHARE: "300"}), ("b", {SHARE: "500"}), ("c", {WHOLE: "1"}), ("d", {SHARE: "201"})):
        await server.add_pod(name, amounts)
    assert [await _bind(server, name) for name in ("a", "b", "c")] == [None, None, None]
    assert [await _devices(server, name) for name in ("a", "b", "c")] == ["0", "0", "1"]
    refusal = await _bind(server, "d")
    assert refusal is not None
    assert refusal.code == 409


@pytest.mark.parametrize(
    ("amounts", "devices", "told"),
    [
        ({SHARE: "800"}, "0", "device 0 has 700 of 1000 thousandths free, requested 800"),
        ({SHARE: "100"}, "2", "device 2 has 0 of 1000 thousandths free"),
        ({SHARE: "100"}, "0,1", "1 different devices are needed, rota.dev/gpu-devices names 0,1"),
        ({WHOLE: "2"}, None, "2 different devices are needed"),
        ({WHOLE: "1"}, "0", "device 0 has 700"),
    ],
)
async def test_a_binding_to_devices_that_are_taken_is_refused_by_name(
    server: Server, amounts: dict[str, str], devices: str | None, told: str
) -> None:
    await _a_sharing_node(server)
    await server.add_pod("a", {SHARE: "300"})
    await server.add_pod("b", amounts)
    assert await _bind(server, "a", "0") is None
    refusal = await _bind(server, "b", devices)
    assert isinstance(refusal, errors.Conflict)
    assert told in refusal.message
    assert refusal.has_cause("InsufficientResource")
    assert (await server.pod("b"))["spec"].get("nodeName") is None


async def test_devices_that_cannot_be_read_are_a_bad_request(server: Server) -> None:
    await _a_sharing_node(server)
    await server.add_pod("a", {SHARE: "300"})
    refusal = await _bind(server, "a", "first")
    assert refusal is not None
    assert (refusal.code, "give numbers of devices" in refusal.message) == (400, True)


async def test_a_node_that_does_not_share_its_gpus_counts_them_as_before(server: Server) -> None:
    await server.add_node("n1", cpu="64", pods="100", nvidia_com__gpu="1")
    await server.add_pod("a", {WHOLE: "1"})
    await server.add_pod("b", {WHOLE: "1"})
    assert await _bind(server, "a") is None
    assert await _devices(server, "a") is None
    assert await _bind(server, "b") is not None


async def test_whole_gpus_of_pods_that_name_no_device_stay_free_for_them(server: Server) -> None:
    await server.add_node("n1", cpu="64", pods="100", nvidia_com__gpu="2")
    for name, amounts in (("a", {WHOLE: "1"}), ("b", {SHARE: "300"}), ("c", {SHARE: "800"})):
        await server.add_pod(name, amounts)
    assert await _bind(server, "a") is None
    at = server.at("update", "nodes", "n1")
    status = {"allocatable": {"cpu": "64", "pods": "100", WHOLE: "2", SHARE: "2000"}}
    node = await server.registry.read(at.resource, "", "n1")
    await server.registry.rewrite(at, node, lambda live: {**live, "status": status})
    assert await _bind(server, "b", "0") is None
    refusal = await _bind(server, "c", "1")
    assert refusal is not None
    assert "1 whole devices are taken by pods that name none" in refusal.message


async def test_a_pod_that_is_created_on_a_sharing_node_names_its_devices(server: Server) -> None:
    await _a_sharing_node(server)
    with pytest.raises(errors.Conflict, match="1 different devices are needed"):
        await server.add_pod("a", {SHARE: "300"}, node="n1")
    await server.add_pod("a", {SHARE: "300"}, node="n1", annotations={gpu_devices.ANNOTATION: "1"})
    await server.add_pod("b", {SHARE: "800"})
    assert await _bind(server, "b", "1") is not None


async def test_the_devices_of_a_bound_pod_cannot_be_changed(api: ApiServer) -> None:
    pods = "/api/v1/namespaces/default/pods"
    container = {"name": "c", "image": "x", "resources": {"limits": {SHARE: "300"}, "requests": {SHARE: "300"}}}
    assert (await api.post("/api/v1/nodes", {"metadata": {"name": "n1"}})).code == 201
    offered = {"status": {"allocatable": {"cpu": "2", "pods": "10", WHOLE: "2", SHARE: "2000"}}}
    assert (await api.patch("/api/v1/nodes/n1/status", offered)).code == 200
    assert (await api.post(pods, {"metadata": {"name": "a"}, "spec": {"containers": [container]}})).code == 201
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    assert (await api.post(f"{pods}/a/binding", binding)).code == 201
    answer = await api.patch(f"{pods}/a", {"metadata": {"annotations": {gpu_devices.ANNOTATION: "1"}}})
    assert (answer.code, "field is immutable" in answer.json["message"]) == (422, True)


_WANTED = st.lists(
    st.one_of(
        st.integers(1, 1000).map(lambda milli: {SHARE: str(milli)}),
        st.integers(1, 3).map(lambda gpus: {WHOLE: str(gpus)}),
    ),
    min_size=4,
    max_size=16,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wanted=_WANTED, seed=st.integers(0, 2**16))
def test_schedulers_that_race_for_the_same_devices_never_oversell_one(wanted: list[dict[str, str]], seed: int) -> None:
    asyncio.run(_race(wanted, random.Random(seed)))


async def _race(wanted: list[dict[str, str]], rng: random.Random) -> None:
    """Two schedulers, each with a server of its own, bind the same pods; some bindings name no devices."""
    async with contextlib.AsyncExitStack() as exits:
        store = await _open()
        exits.push_async_callback(store.close)
        servers = [await exits.enter_async_context(serving(store, seed=number)) for number in range(2)]
        await _a_sharing_node(servers[0], gpus=3)
        for number, amounts in enumerate(wanted):
            await servers[0].add_pod(f"p{number}", amounts)
        wins: Counter[str] = Counter()
        await asyncio.gather(*(_bind_all(server, wanted, rng, wins) for server in servers), _look(servers[0]))
        _assert_no_device_is_oversold(await servers[0].pods())
        assert all(number == 1 for number in wins.values())


async def _bind_all(server: Server, wanted: list[dict[str, str]], rng: random.Random, wins: Counter[str]) -> None:
    order = rng.sample(range(len(wanted)), len(wanted))
    for number in order:
        gpus = int(wanted[number].get(WHOLE, "1"))
        named = ",".join(map(str, sorted(rng.sample(range(3), gpus)))) if rng.random() < 0.7 else None
        verdict = await _bind(server, f"p{number}", named)
        assert verdict is None or verdict.code == 409
        if verdict is None:
            wins[f"p{number}"] += 1
            if rng.random() < 0.3:
                await server.finish_pod(f"p{number}")


async def _look(server: Server) -> None:
    for _ in range(20):
        _assert_no_device_is_oversold(await server.pods())
        await asyncio.sleep(0)


def _assert_no_device_is_oversold(pods: list[Any]) -> None:
    taken: Counter[int] = Counter()
    for pod in pods:
        if pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") not in pod_shares.FINISHED:
            share = pod_shares.of_pod(pod)
            wanted = gpu_devices.demand(share.requests)
            assert len(share.devices) == wanted.gpus, "every pod on a sharing node has devices"
            taken.update(dict.fromkeys(share.devices, wanted.milli))
    assert all(milli <= 1000 for milli in taken.values()), taken
