"""How a pod chooses its runtime, at a real API server; and what it hears about its image."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from tests.worker.runtimes.bench import build_root, needs_containers
from tests.worker.test_agent import Worker, _create, _log, _phase, _until

from rota.client import client_factory
from rota.client.verbs import Client
from rota.kit import system
from rota.kit.errors import UserError
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.worker import worker_assembly
from rota.worker.host_resources import HostResources
from rota.worker.node import LEASE_S, NODES, NodeKeeper
from rota.worker.runtimes.container import engines

pytestmark = pytest.mark.slow
EVENTS = ("", "v1", "events")


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


async def _told(client: Client, reason: str) -> str:
    """Wait for an event; its message."""
    found: list[str] = []

    async def there() -> bool:
        events = (await client.list(EVENTS, namespace="default")).items
        found.extend(one["message"] for one in events if one["reason"] == reason)
        return bool(found)

    await _until(there)
    return found[0]


async def _waiting(client: Client) -> dict[str, Any]:
    """Wait for a container that waits with a message."""
    found: dict[str, Any] = {}

    async def there() -> bool:
        pod = await client.get(("", "v1", "pods"), "p", namespace="default")
        statuses = pod["status"].get("containerStatuses") or [{}]
        found.update((statuses[0].get("state") or {}).get("waiting") or {})
        return "message" in found

    await _until(there)
    return found


async def test_an_event_says_that_a_process_does_not_use_its_image(client: Client, worker: Worker) -> None:
    await _create(client, container={"image": "busybox:1.36", "command": [], "args": ["echo", "hi"]})
    pod = await _phase(client, "Succeeded")
    assert await _log(worker, pod) == b"hi\n"
    message = await _told(client, "ImageNotUsed")
    assert message.startswith('image "busybox:1.36" is not used: "echo" runs as a process of this machine')


async def test_an_image_that_cannot_run_is_an_error_with_a_remedy(client: Client, worker: Worker) -> None:
    await _create(client, container={"image": "nginx", "command": []})
    waiting = await _waiting(client)
    assert waiting["reason"] == "CreateContainerError"
    assert "runtimeClassName: container" in waiting["message"]


async def test_a_runtime_that_there_is_not_is_said(client: Client, worker: Worker) -> None:
    sandboxes = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "gvisor"},
        "handler": "runsc",
    }
    await client.create(("node.k8s.io", "v1", "runtimeclasses"), sandboxes)
    await _create(client, "true", runtimeClassName="gvisor")
    waiting = await _waiting(client)
    assert waiting["reason"] == "CreateContainerConfigError"
    assert 'no runtime "gvisor"' in waiting["message"]


@needs_containers
async def test_a_pod_may_choose_containers_for_itself(client: Client, worker: Worker, tmp_path: Path) -> None:
    root = build_root(tmp_path / "root")
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
    await client.create(("", "v1", "configmaps"), {**config, "data": {"file": "content"}})
    container = {
        "image": str(root),
        "volumeMounts": [{"name": "m", "mountPath": "/config"}, {"name": "e", "mountPath": "/out"}],
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
        "env": [{"name": "A", "value": "a"}],
    }
    script = "cat /mark /config/file; echo; echo $A $HOME; hostname; id -u > /out/id"
    volumes = [{"name": "m", "configMap": {"name": "m"}}, {"name": "e", "emptyDir": {}}]
    await _create(client, "sh", "-c", script, container=container, volumes=volumes, runtimeClassName="container")
    pod = await _phase(client, "Succeeded")
    assert await _log(worker, pod) == b"of the image\ncontent\na /root\np\n"
    node = await client.get(NODES, "w1")
    assert node["metadata"]["labels"]["rota.dev/containers"] == "true"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"volumes": [{"name": "e", "emptyDir": {"sizeLimit": "1Mi"}}]}, 'Usage of EmptyDir volume "e" exceeds'),
        ({"volumes": [{"name": "e", "emptyDir": {}}]}, "Pod ephemeral local storage usage exceeds the total limit"),
    ],
)
async def test_a_pod_that_writes_more_than_it_may_has_to_go(
    client: Client, worker: Worker, tmp_path: Path, spec: dict[str, Any], message: str
) -> None:
    inside = tmp_path / "inside"
    container = {
        "volumeMounts": [{"name": "e", "mountPath": str(inside)}],
        "resources": {"limits": {"ephemeral-storage": "2Mi"}},
    }
    waiting = f"while [ ! -e {tmp_path}/door ]; do sleep 0.05; done"
    script = f"{waiting}; head -c 3000000 /dev/zero > {inside}/big; touch {tmp_path}/written; sleep 60"
    await _create(client, "sh", "-c", script, container=container, **spec)
    await _phase(client, "Running")
    await worker.agent.check_storage()
    (tmp_path / "door").touch()

    async def written() -> bool:
        return (tmp_path / "written").exists()

    await _until(written)
    await worker.agent.check_storage()
    pod = await _phase(client, "Failed")
    assert pod["status"]["reason"] == "Evicted"
    assert pod["status"]["message"].startswith(message)


async def test_a_node_says_at_once_that_it_runs_short(client: Client) -> None:
    clock, holds = FakeClock(), {"status": "False"}
    keeper = NodeKeeper(
        client,
        HostResources(node="w9", address="127.0.0.1", capacity={}, allocatable={}),
        incarnation="i",
        predecessor="",
        clock=clock,
        info={},
        labels={},
        taints=(),
        conditions=lambda: [{"type": "DiskPressure", "reason": "r", "message": "m", **holds}],
        port=None,
        lease_s=LEASE_S,
    )
    await keeper.register()
    keeping = asyncio.create_task(keeper.run())
    await clock.settle()
    holds["status"] = "True"

    async def told() -> bool:
        await clock.advance(1)
        node = await client.get(NODES, "w9")
        return any(one["type"] == "DiskPressure" and one["status"] == "True" for one in node["status"]["conditions"])

    begun = clock.monotonic()
    await _until(told)
    assert clock.monotonic() - begun < LEASE_S
    keeping.cancel()
    await asyncio.wait([keeping])


async def _last_words(client: Client, phase: str) -> str:
    pod = await _phase(client, phase)
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return str(ended.get("message", ""))


async def test_the_end_of_the_log_may_be_a_containers_last_words(client: Client, worker: Worker) -> None:
    container = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    await _create(client, "sh", "-c", "seq 1000; echo; echo it broke; exit 3", container=container)
    said = await _last_words(client, "Failed")
    assert said.endswith("1000\n\nit broke\n")
    assert len(said.splitlines()) == 80


async def test_a_process_may_leave_word_where_its_pod_says(client: Client, worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "words"
    container = {"terminationMessagePath": str(path), "terminationMessagePolicy": "FallbackToLogsOnError"}
    await _create(client, "sh", "-c", f"echo noise; echo because > {path}; exit 3", container=container)
    assert await _last_words(client, "Failed") == "because\n"
    assert path.read_text() == "", "what it wrote is its own"


@pytest.mark.parametrize("user", [None, 1000])
async def test_a_process_gets_the_path_of_its_outputs(client: Client, worker: Worker, user: int | None) -> None:
    container: dict[str, Any] = {"env": [{"name": "ROTA_OUTPUTS", "value": "/dev/termination-log"}]}
    if user is not None:
        container["securityContext"] = {"runAsUser": user}
    await _create(client, "sh", "-c", "echo result=7 > $ROTA_OUTPUTS", container=container)
    assert await _last_words(client, "Succeeded") == "result=7\n"
    assert not _size(Path("/dev/termination-log")), "that is the machine's"


async def test_a_process_may_leave_word_where_it_is_usual(client: Client, worker: Worker) -> None:
    await _create(client, "sh", "-c", "echo because > /dev/termination-log; exit 3")
    said = await _last_words(client, "Failed")
    if os.geteuid() == 0:
        assert said == "because\n"
    assert not _size(Path("/dev/termination-log")), "that is the machine's"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@needs_containers
async def test_a_container_may_leave_word_where_it_is_usual(client: Client, worker: Worker, tmp_path: Path) -> None:
    root = build_root(tmp_path / "root")
    script = "echo all is well > /dev/termination-log"
    security = {"runAsUser": 1000}
    await _create(
        client, "sh", "-c", script, container={"image": str(root), "securityContext": security},
        runtimeClassName="container",
    )  # fmt: skip
    assert await _last_words(client, "Succeeded") == "all is well\n"


@needs_containers
async def test_a_node_may_choose_containers_for_all(client: Client, tmp_path: Path) -> None:
    made = Worker(client, tmp_path / "worker")
    made.settings = msgspec.structs.replace(made.settings, runtime="container", allow_root=True)
    build_root(tmp_path / "worker" / "images" / "app")
    await made.start()
    try:
        await _create(client, "cat", "/mark", container={"image": "app"})
        pod = await _phase(client, "Succeeded")
        assert await _log(made, pod) == b"of the image\n"
        await _create(client, "sh", "-c", "test ! -e /mark", name="q", runtimeClassName="process")
        await _phase(client, "Succeeded", "q")
        node = await client.get(NODES, "w1")
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"] == "rota://container"
    finally:
        await made.close()


async def test_a_worker_that_could_run_nothing_does_not_start(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "problem", lambda: "crun not found; install crun and util-linux")
    settings = worker_assembly.Settings(node="w1", folder=tmp_path / "worker", runtime="container")
    with pytest.raises(UserError, match="crun not found; install crun"):
        await worker_assembly.worker(client, settings, clock=system.SystemClock(), rng=random.Random(0)).__aenter__()


@needs_containers
async def test_containers_go_on_while_the_agent_is_away(client: Client, worker: Worker, tmp_path: Path) -> None:
    root = build_root(tmp_path / "root")
    script = "echo up; while [ ! -e /door/open ]; do sleep 0.05; done; exit 7"
    (tmp_path / "door").mkdir()
    await _create(
        client, "sh", "-c", script, runtimeClassName="container",
        container={"image": str(root), "volumeMounts": [{"name": "d", "mountPath": "/door"}]},
        volumes=[{"name": "d", "hostPath": {"path": str(tmp_path / "door")}}],
    )  # fmt: skip
    await _phase(client, "Running")
    await worker.stop()
    await worker.start()
    (tmp_path / "door" / "open").touch()
    pod = await _phase(client, "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


async def test_tokens_and_changes_reach_a_pod_that_runs(client: Client, worker: Worker, tmp_path: Path) -> None:
    base = {"apiVersion": "v1", "metadata": {"name": "m", "namespace": "default"}}
    await client.create(("", "v1", "configmaps"), {**base, "kind": "ConfigMap", "data": {"file": "old"}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web", "namespace": "default"}}
    await client.create(("", "v1", "serviceaccounts"), account)
    sources = [
        {"configMap": {"name": "m"}},
        {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}},
    ]
    inside = tmp_path / "inside"
    container = {"volumeMounts": [{"name": "v", "mountPath": str(inside)}]}
    script = f"cat {inside}/token; echo; while ! grep new {inside}/file; do sleep 0.05; done"
    volumes = [{"name": "v", "projected": {"sources": sources}}]
    await _create(client, "sh", "-c", script, container=container, volumes=volumes, serviceAccountName="web")
    await _phase(client, "Running")
    change = {"data": {"file": "new"}}
    await client.patch(("", "v1", "configmaps"), "m", change, namespace="default")
    await worker.agent.refresh_files()
    pod = await _phase(client, "Succeeded")
    token, said = (await _log(worker, pod)).decode().splitlines()
    assert said == "new"
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["aud"] == ["vault"]
    assert claims["sub"] == "system:serviceaccount:default:web"
    assert claims["kubernetes.io"]["pod"]["uid"] == pod["metadata"]["uid"]
    assert claims["exp"] - claims["iat"] == 600
