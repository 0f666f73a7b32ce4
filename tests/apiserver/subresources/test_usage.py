"""`metrics.k8s.io`: the usage of nodes and pods that workers report."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from rota.api import errors
from rota.api.users import User
from rota.apiserver.subresources.summaries import Cpu, Disk, Memory, Network, PodReference, PodUsed, Summary, Used
from rota.apiserver.subresources.worker_addresses import Address
from rota.apiserver.subresources.workers import Workers
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

_GROUP = "/apis/metrics.k8s.io/v1beta1"


def _used(name: str, millicores: int, mebibytes: int) -> Used:
    return Used(name, Cpu("2026-01-01T00:00:00Z", millicores * 10**6), Memory(mebibytes << 20))


class _Workers:
    """Workers with the responses of the test."""

    def __init__(self) -> None:
        self.said: dict[str, Summary | errors.ApiError] = {}
        self.asked: list[str] = []
        self.slow = asyncio.Event()
        self.slow.set()

    async def usage(self, node: str, _: Address | None, /) -> Summary:
        self.asked.append(node)
        await self.slow.wait()
        answer = self.said.get(node, errors.InternalError("gone"))
        if isinstance(answer, errors.ApiError):
            raise answer
        return answer


@pytest.fixture
def workers() -> _Workers:
    return _Workers()


@pytest.fixture
async def api(workers: _Workers) -> AsyncIterator[ApiServer]:
    async with ApiServer(usage=workers, conflict_check=False) as server:
        uids = {}
        for node in ("n1", "n2"):
            await server.post("/api/v1/nodes", {"metadata": {"name": node, "labels": {"zone": node[1]}}})
        for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "")):
            spec: dict[str, Any] = {"containers": [{"name": "main", "image": "i"}]}
            if node:
                spec["nodeName"] = node
            pod = {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
            uids[name] = (await server.post("/api/v1/namespaces/default/pods", pod)).json["metadata"]["uid"]
        pods = [PodUsed(PodReference(uids["a"]), [_used("main", 250, 64), _used("side", 1, 1)], Disk(4096))]
        # of a pod on another node, and of an unknown one
        pods += [PodUsed(PodReference(uids["c"]), [_used("main", 9000, 9)]), PodUsed(PodReference("x"), [])]
        node_used = msgspec.structs.replace(_used("", 1500, 512), disk=Disk(9), network=Network(7, 8))
        workers.said["n1"] = Summary(node_used, pods, 12.5)
        yield server


async def test_nodes_and_pods_show_what_they_use(api: ApiServer) -> None:
    node = (await api.get(f"{_GROUP}/nodes/n1")).json
    assert node["usage"] == {
        "cpu": "1500000000n",
        "memory": "524288Ki",
        "ephemeral-storage": "9",
        "rota.dev/network-received": "7",
        "rota.dev/network-sent": "8",
    }
    assert (node["kind"], node["window"], node["timestamp"]) == ("NodeMetrics", "12.500s", "2026-01-01T00:00:00Z")
    pod = (await api.get(f"{_GROUP}/namespaces/default/pods/a")).json
    assert pod["metadata"]["labels"] == {"app": "a"}
    assert [one["name"] for one in pod["containers"]] == ["main", "side"]
    assert pod["containers"][0]["usage"] == {"cpu": "250000000n", "memory": "65536Ki"}
    assert pod["usage"] == {"ephemeral-storage": "4096"}


async def test_unreachable_workers_are_left_out(api: ApiServer) -> None:
    nodes = (await api.get(f"{_GROUP}/nodes")).json
    assert (nodes["kind"], [one["metadata"]["name"] for one in nodes["items"]]) == ("NodeMetricsList", ["n1"])
    pods = (await api.get(f"{_GROUP}/pods")).json
    assert [one["metadata"]["name"] for one in pods["items"]] == ["a"], "no node tells about another's pods"
    missing = await api.get(f"{_GROUP}/namespaces/default/pods/c")
    assert (missing.code, missing.json["message"]) == (404, 'pods.metrics.k8s.io "c" not found')
    assert (await api.get(f"{_GROUP}/nodes/n2")).code == 404
    assert (await api.get(f"{_GROUP}/nodes/n9")).code == 404


async def test_selectors_choose(api: ApiServer, workers: _Workers) -> None:
    assert len((await api.get(f"{_GROUP}/pods?labelSelector=app%3Da")).json["items"]) == 1
    assert (await api.get(f"{_GROUP}/pods?labelSelector=app!%3Da")).json["items"] == []
    assert len((await api.get(f"{_GROUP}/nodes?labelSelector=zone%20in%20(1)")).json["items"]) == 1
    assert len((await api.get(f"{_GROUP}/pods?fieldSelector=metadata.name%3Da")).json["items"]) == 1
    assert (await api.get(f"{_GROUP}/namespaces/other/pods")).json["items"] == []
    assert (await api.get(f"{_GROUP}/pods?labelSelector=%3D%3D")).code == 400
    assert (await api.get(f"{_GROUP}/pods?fieldSelector=spec.nodeName%3Dn1")).code == 400


async def test_concurrent_requests_share_one_query(api: ApiServer, workers: _Workers) -> None:
    workers.slow.clear()
    asking = [asyncio.create_task(api.get(f"{_GROUP}/nodes/n1")) for _ in range(8)]
    for _ in range(100):
        await asyncio.sleep(0)
    asking[0].cancel()
    workers.slow.set()
    answers = await asyncio.gather(*asking[1:])
    assert {answer.code for answer in answers} == {200}
    assert workers.asked == ["n1"]


async def test_what_was_said_is_old_after_a_while(workers: _Workers) -> None:
    clock = FakeClock()
    workers.said["n1"] = Summary(_used("", 1, 1), [])
    async with ApiServer(usage=workers, clock=clock) as api:
        await api.post("/api/v1/nodes", {"metadata": {"name": "n1"}})
        for _ in range(2):
            assert (await api.get(f"{_GROUP}/nodes/n1")).code == 200
        assert len(workers.asked) == 1
        await clock.advance(11)
        assert (await api.get(f"{_GROUP}/nodes/n1")).code == 200
        assert len(workers.asked) == 2


async def test_it_is_read_only_and_described(api: ApiServer) -> None:
    assert (await api.post(f"{_GROUP}/nodes", {"metadata": {"name": "n3"}})).code == 405
    assert (await api.get(f"{_GROUP}/nodes?watch=true")).code == 405
    listed = (await api.get(_GROUP)).json["resources"]
    assert {one["name"]: one["verbs"] for one in listed} == {"nodes": ["get", "list"], "pods": ["get", "list"]}
    table = await api.get(f"{_GROUP}/nodes", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [row["cells"][0] for row in table.json["rows"]] == ["n1"]


async def test_users_who_may_read_pods_may_read_their_usage(api: ApiServer) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1"
    subject = {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
    api.user = User(name="ann", groups=("system:authenticated",))
    assert (await api.get(f"{_GROUP}/namespaces/default/pods")).code == 403
    api.user = None
    bound = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}
    await api.post(f"{roles}/namespaces/default/rolebindings", bound)
    api.user = User(name="ann", groups=("system:authenticated",))
    assert (await api.get(f"{_GROUP}/namespaces/default/pods")).code == 200
    assert (await api.get(f"{_GROUP}/nodes")).code == 403


async def test_without_workers_there_is_no_such_group() -> None:
    async with ApiServer() as api:
        assert (await api.get(_GROUP)).code == 404


@pytest.mark.parametrize(
    ("code", "body", "why"),
    [
        (200, b"[]", "Expected `object`"),
        (200, b'{"node": {"cpu": 1}, "pods": []}', "Expected `object`"),
        (200, b"{", "truncated"),
        (403, b"Forbidden", "Forbidden"),
    ],
)
async def test_a_worker_that_talks_nonsense_is_an_error(code: int, body: bytes, why: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=code, body=body)

    application = web.Application()
    application.router.add_get("/stats/summary", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    workers = Workers(tls=None)
    try:
        with pytest.raises(errors.ApiError, match=why):
            await workers.usage("n1", Address("127.0.0.1", port))
        with pytest.raises(errors.InternalError, match="does not say where"):
            await workers.usage("n1", None)
    finally:
        await workers.close()
        await runner.cleanup()
    securely = Workers(ssl.create_default_context())
    with pytest.raises(errors.InternalError):
        await securely.usage("n1", Address("127.0.0.1", port))
    await securely.close()


def test_a_kubelets_summary_is_understood() -> None:
    text = b"""{"node": {"nodeName": "n", "cpu": {"time": "t", "usageNanoCores": 5, "usageCoreNanoSeconds": 9},
        "memory": {"workingSetBytes": 7}, "runtime": {}}, "pods": [{"podRef": {"name": "p", "uid": "u"},
        "containers": [{"name": "c", "rootfs": {}}]}]}"""
    summary = msgspec.json.decode(text, type=Summary)
    assert summary.node.cpu.nanocores == 5
    assert summary.pods[0].containers[0].cpu.nanocores is None
