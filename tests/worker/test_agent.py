"""A worker at a real API server, with real processes."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rota.api import errors
from rota.client import client_factory
from rota.client.verbs import Client
from rota.kit import system
from rota.kit.errors import UserError
from rota.testing.api import ApiServer
from rota.worker import worker_assembly
from rota.worker.agent import PODS, Agent
from rota.worker.node import NODES, NodeTaken
from rota.worker.runtimes.container.runtime import ContainerRuntime
from rota.worker.runtimes.process.runtime import ProcessRuntime
from rota.worker.runtimes.runtime_interface import LogOptions

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0


class Worker:
    """A worker that can be stopped and started again on its folder."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.clock = system.SystemClock()
        self.settings = worker_assembly.Settings(
            node="w1",
            folder=folder,
            labels={"zone": "z"},
            resources={"cpu": 8000, "pods": 50, "example.com/gpu": 2},
            address="127.0.0.1",
            allow_root=True,
        )
        self._parts = contextlib.AsyncExitStack()
        self.runtime: ProcessRuntime
        self.agent: Agent

    async def start(self) -> None:
        context = worker_assembly.worker(self.client, self.settings, clock=self.clock, rng=random.Random(0))
        made = await self._parts.enter_async_context(context)
        assert isinstance(made.runtime, ProcessRuntime)
        self.runtime = made.runtime
        self.agent = made.agent

    async def stop(self) -> None:
        """The agent goes away; what runs goes on."""
        await self._parts.aclose()

    async def close(self) -> None:
        """End everything."""
        await self.stop()
        last = ContainerRuntime(self.folder / "runtime", node="w1", clock=self.clock, images=self.folder / "images")
        await last.open(lambda _: None)
        for run in list(last._running):
            await last.stop(run, 0)

        async def ended() -> bool:
            return not last._running

        await _until(ended)
        await last.close()
        last._groups.close()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with ApiServer() as server:
        clock, rng = system.SystemClock(), random.Random(0)
        async with client_factory.to_application(server.app, clock=clock, rng=rng) as made:
            yield made


@pytest.fixture
async def worker(client: Client, tmp_path: Path) -> AsyncIterator[Worker]:
    made = Worker(client, tmp_path / "worker")
    await made.start()
    yield made
    await made.close()


async def _create(client: Client, *command: str, name: str = "p", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": list(command), **spec.pop("container", {})}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "w1", "restartPolicy": "Never", "containers": [container], **spec},
    }
    return await client.create(PODS, pod)


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(int(PATIENCE_S / 0.02)):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise TimeoutError


async def _phase(client: Client, phase: str, name: str = "p") -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def so() -> bool:
        found.update(await client.get(PODS, name, namespace="default"))
        return bool(found["status"]["phase"] == phase)

    try:
        await _until(so)
    except TimeoutError:
        raise AssertionError(found["status"]) from None
    return found


async def _gone(client: Client, name: str = "p") -> None:
    async def so() -> bool:
        with contextlib.suppress(errors.NotFound):
            await client.get(PODS, name, namespace="default")
            return False
        return True

    await _until(so)


async def _log(worker: Worker, pod: dict[str, Any], run: int = 0) -> bytes:
    pieces = worker.runtime.logs(pod["metadata"]["uid"], "c", run, LogOptions())
    return b"".join([piece async for piece in pieces])


async def test_a_task_runs_and_its_end_is_reported(client: Client, worker: Worker) -> None:
    await _create(client, "sh", "-c", "echo hi; exit 4")
    pod = await _phase(client, "Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (4, "Error")
    assert await _log(worker, pod) == b"hi\n"


async def test_the_node_tells_what_it_has_and_that_it_lives(client: Client, worker: Worker) -> None:
    node = await client.get(NODES, "w1")
    assert node["status"]["allocatable"]["cpu"] == "8"
    ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
    assert ready["status"] == "True"
    assert node["metadata"]["labels"]["zone"] == "z"
    lease = await client.get(("coordination.k8s.io", "v1", "leases"), "w1", namespace="kube-node-lease")
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_variables_and_files_come_from_where_the_pod_says(client: Client, worker: Worker) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
    await client.create(("", "v1", "configmaps"), {**config, "data": {"A": "from-map", "file": "content"}})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    await client.create(("", "v1", "secrets"), {**secret, "stringData": {"B": "from-secret"}})
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "A"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "B"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "BOTH", "value": "$(A)+$(B)+$$(A)"},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y", "optional": True}}},
    ]
    script = 'echo "$BOTH $NAME $APP ${NONE-unset}"; cat $VOLUMES/m/file'
    pod = await _create(
        client, "sh", "-c", script.replace("$VOLUMES", f"{worker.folder}/volumes/*"), container={"env": env},
        volumes=[{"name": "m", "configMap": {"name": "m"}}],
    )  # fmt: skip
    pod = await _phase(client, "Succeeded")
    assert await _log(worker, pod) == b"from-map+from-secret+$(A) p web unset\ncontent"


async def test_what_is_missing_is_said_and_waited_for(client: Client, worker: Worker) -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "A"}}}]
    await _create(client, "sh", "-c", "echo $A", container={"env": env})

    async def said() -> bool:
        pod = await client.get(PODS, "p", namespace="default")
        statuses = pod["status"].get("containerStatuses") or [{}]
        waiting = (statuses[0].get("state") or {}).get("waiting") or {}
        return waiting.get("message") == 'configmap "late" not found'

    await _until(said)


async def test_a_deleted_pod_is_ended_and_goes(client: Client, worker: Worker, tmp_path: Path) -> None:
    mark, up = tmp_path / "mark", tmp_path / "up"
    script = f"trap 'echo bye > {mark}; exit 0' TERM; touch {up}; while :; do sleep 0.05; done"
    pod = await _create(client, "sh", "-c", script)

    async def ready() -> bool:
        return up.exists()

    await _until(ready)
    await client.delete(PODS, "p", namespace="default")
    await _gone(client)
    assert mark.read_text() == "bye\n"

    async def forgotten() -> bool:
        return (worker.folder / "pods.ledger").read_text().endswith(f"-{pod['metadata']['uid']}\n")

    await _until(forgotten)


async def test_a_container_that_is_restarted_keeps_count(client: Client, worker: Worker, tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = f"echo x >> {count}; [ $(wc -l < {count}) -ge 2 ]"
    await _create(client, "sh", "-c", script, restartPolicy="OnFailure")
    pod = await _phase(client, "Succeeded")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    assert count.read_text() == "x\nx\n"


async def test_readiness_is_probed_and_reported(client: Client, worker: Worker, tmp_path: Path) -> None:
    door = tmp_path / "door"
    probe = {"exec": {"command": ["test", "-e", str(door)]}, "periodSeconds": 1}
    await _create(client, "sleep", "60", container={"readinessProbe": probe}, restartPolicy="Always")
    pod = await _phase(client, "Running")
    ready = {one["type"]: one["status"] for one in pod["status"]["conditions"]}
    assert ready["Ready"] == "False"
    door.touch()

    async def open_() -> bool:
        found = await client.get(PODS, "p", namespace="default")
        return any(one["type"] == "Ready" and one["status"] == "True" for one in found["status"]["conditions"])

    await _until(open_)


async def test_tasks_go_on_while_the_agent_is_away_and_run_once(client: Client, worker: Worker, tmp_path: Path) -> None:
    starts, go, ended = (tmp_path / name for name in ("starts", "go", "ended"))
    waiting = f"echo x >> {starts}; while [ ! -e {go}-$0 ]; do sleep 0.05; done; touch {ended}-$0"
    await _create(client, "sh", "-c", f"{waiting}; exit 3", "long", name="long")
    await _create(client, "sh", "-c", f"{waiting}; exit 5", "short", name="short")
    await _phase(client, "Running", "long")
    await _phase(client, "Running", "short")
    await worker.stop()
    go.with_name("go-short").touch()

    async def over() -> bool:
        return ended.with_name("ended-short").exists()

    await _until(over)
    await worker.start()
    short = await _phase(client, "Failed", "short")
    assert short["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    go.with_name("go-long").touch()
    long = await _phase(client, "Failed", "long")
    assert long["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert starts.read_text() == "x\nx\n"


async def test_what_was_deleted_while_the_agent_was_away_is_ended(client: Client, worker: Worker) -> None:
    await _create(client, "sleep", "600")
    await _phase(client, "Running")
    (record,) = (await worker.runtime._shim.ask("list"))["runs"]
    await worker.stop()
    await client.delete(PODS, "p", namespace="default", grace_period_s=0)
    assert Path(f"/proc/{record['pid']}").exists()
    await worker.start()

    async def ended() -> bool:
        return not Path(f"/proc/{record['pid']}").exists()

    await _until(ended)


async def test_tasks_have_devices_of_their_own_also_after_the_agent_was_away(client: Client, worker: Worker) -> None:
    asks = {"resources": {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}}
    script = "echo $ROTA_DEVICES_EXAMPLE_COM_GPU; exec sleep 300"
    first = await _create(client, "sh", "-c", script, name="first", container=asks)
    await _phase(client, "Running", "first")
    await worker.stop()
    await worker.start()
    second = await _create(client, "sh", "-c", script, name="second", container=asks)
    await _phase(client, "Running", "second")
    assert {await _log(worker, first), await _log(worker, second)} == {b"0\n", b"1\n"}
    await client.delete(PODS, "first", namespace="default", grace_period_s=1)
    await _gone(client, "first")
    third = await _create(client, "sh", "-c", script, name="third", container=asks)
    await _phase(client, "Running", "third")
    assert await _log(worker, third) == b"0\n"


async def test_no_other_process_can_be_the_same_worker(client: Client, worker: Worker, tmp_path: Path) -> None:
    again = worker_assembly.worker(client, worker.settings, clock=worker.clock, rng=random.Random(0))
    with pytest.raises(UserError, match="a worker runs in"):
        await again.__aenter__()
    twin = msgspec.structs.replace(worker.settings, folder=tmp_path / "twin")
    with pytest.raises(NodeTaken, match="another worker runs as w1"):
        await worker_assembly.worker(client, twin, clock=worker.clock, rng=random.Random(0)).__aenter__()


async def test_many_short_tasks_all_end(client: Client, worker: Worker) -> None:
    names = [f"t{number}" for number in range(40)]
    await asyncio.gather(*(_create(client, "true", name=name) for name in names))
    for name in names:
        await _phase(client, "Succeeded", name)
