"""Whom tasks of a worker run as that root has started as usual, and what they cannot reach: for real, as root."""

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.worker.runtimes.bench import build_root, needs_containers
from tests.worker.test_agent import Worker, _create, _log, _phase, _until

from rota.client import client_factory
from rota.client.verbs import Client
from rota.kit import system
from rota.kit.errors import UserError
from rota.testing.api import ApiServer
from rota.worker import identities
from rota.worker.agent import PODS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")]
SECRET = "the administrator's key\n"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with ApiServer() as server:
        clock, rng = system.SystemClock(), random.Random(0)
        async with client_factory.to_application(server.app, clock=clock, rng=rng) as made:
            yield made


@pytest.fixture
async def worker(client: Client, tmp_path: Path) -> AsyncIterator[Worker]:
    """As `rota up` of root has it: a data folder with keys, and the worker's folder in it."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)  # as somebody may have made it before
    (data / "kubeconfig").write_text(SECRET)
    made = Worker(client, data / "workers" / "w1")
    user = identities.tasks("", allow_root=False, own=(data,))
    made.settings = msgspec.structs.replace(made.settings, **user)
    await made.start()
    yield made
    await made.close()


async def _refused(client: Client, name: str = "p") -> str:
    """Why a container is not started."""
    found: dict[str, Any] = {}

    async def so() -> bool:
        pod = await client.get(PODS, name, namespace="default")
        for one in (pod.get("status") or {}).get("containerStatuses") or ():
            state = one.get("state") or {}
            found.update(state.get("waiting") or state.get("terminated") or {})
        return bool(found.get("message"))

    await _until(so)
    return str(found["message"])


async def test_a_task_is_not_root_and_cannot_become_it(client: Client, worker: Worker) -> None:
    script = "id -u; id -G; grep -E 'CapEff|NoNewPrivs' /proc/self/status; echo mine > $HOME/file; cat file; echo $USER"
    await _create(client, "sh", "-c", script)
    pod = await _phase(client, "Succeeded")
    account = identities.of_tasks()
    said = (await _log(worker, pod)).decode().split()
    assert said == [
        str(account.uid), str(account.gid), "CapEff:", "0" * 16, "NoNewPrivs:", "1", "mine", "rota-task"
    ]  # fmt: skip


async def test_a_command_in_a_task_is_the_same_user(client: Client, worker: Worker) -> None:
    await _create(client, "sleep", "60")
    pod = await _phase(client, "Running")
    launch = await worker.agent.launch_of(pod["metadata"]["uid"], "c", 0)
    assert launch is not None
    data = worker.folder.parents[1]
    script = f"id -u; grep NoNewPrivs /proc/self/status; pwd; cat {data}/kubeconfig"
    _, said = await worker.runtime.execute(launch, ["sh", "-c", script])
    user, _, privileges, where, *rest = said.decode().split()
    assert (user, privileges) == (str(identities.of_tasks().uid), "1")
    assert where == str(worker.runtime.home(pod["metadata"]["uid"]))
    assert "administrator" not in " ".join(rest)


async def test_a_task_sees_nothing_of_the_masters_files(client: Client, worker: Worker) -> None:
    data = worker.folder.parents[1]
    await _create(client, "sh", "-c", f"cat {data}/kubeconfig; find {data} -type f; ls {worker.folder}; true")
    pod = await _phase(client, "Succeeded")
    said = await _log(worker, pod)
    assert SECRET.encode() not in said
    assert b"ledger" not in said
    assert b"kubeconfig\n" not in said.replace(b"No such file", b"")


async def test_the_workers_python_is_there_for_tasks_wherever_it_lies(client: Client, worker: Worker) -> None:
    await _create(client, "sh", "-c", '$ROTA_PYTHON -c "import rota, getpass; print(getpass.getuser())"')
    pod = await _phase(client, "Succeeded")
    assert await _log(worker, pod) == b"rota-task\n"


@pytest.mark.parametrize(
    ("context", "named"),
    [
        ({"runAsUser": 0}, "runAsUser: 0"),
        ({"runAsUser": 1}, "runAsUser: 1"),  # daemon
        ({"runAsGroup": 0}, "runAsGroup: 0"),
        ({"supplementalGroups": [6]}, "supplementalGroups: 6"),  # disk
        ({"fsGroup": 42}, "fsGroup: 42"),  # shadow
    ],
)
async def test_users_of_the_machine_are_for_administrators_to_give(
    client: Client, worker: Worker, context: dict[str, Any], named: str
) -> None:
    await _create(client, "id", securityContext=context)
    refused = await _refused(client)
    assert named in refused
    assert "--allow-root" in refused


async def test_the_shared_unprivileged_user_owns_nothing(client: Client, worker: Worker) -> None:
    await _create(client, "id", "-u", securityContext={"runAsUser": 51234, "fsGroup": 51235})
    assert await _log(worker, await _phase(client, "Succeeded")) == b"51234\n"


@pytest.mark.parametrize("inside", ["", "workers"])
async def test_no_volume_shows_the_masters_files(client: Client, worker: Worker, tmp_path: Path, inside: str) -> None:
    data = worker.folder.parents[1]
    link = Path(f"/tmp/rota-test-link-{os.getpid()}")
    link.symlink_to(data)
    try:
        container = {"volumeMounts": [{"name": "v", "mountPath": "/tmp/rota-test-v", "subPath": inside}]}
        if not inside:
            del container["volumeMounts"][0]["subPath"]
        volumes = [{"name": "v", "hostPath": {"path": str(link)}}]
        await _create(client, "ls", "/tmp/rota-test-v", container=container, volumes=volumes)
        assert "Rota's own files" in await _refused(client)
    finally:
        link.unlink()


@needs_containers
@pytest.mark.parametrize("image", ["/", "file:///", "{data}", "oci:{data}/x", "/usr"])
async def test_an_image_is_no_way_to_the_machines_files(client: Client, worker: Worker, image: str) -> None:
    name = image.format(data=worker.folder.parents[1])
    container = {"image": name}
    await _create(client, "cat", "/etc/shadow", container=container, runtimeClassName="container")
    refused = await _refused(client)
    assert "folder for images" in refused
    assert "--allow-root" in refused


@needs_containers
@pytest.mark.parametrize(
    ("spec", "context", "named"),
    [
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, {}, 'hostPath volume "v"'),
        ({"hostPID": True}, {}, "hostPID"),
        ({}, {"privileged": True, "runAsUser": 51234}, "privileged"),
        ({}, {"capabilities": {"add": ["SYS_ADMIN"]}}, "SYS_ADMIN"),
    ],
)
async def test_root_in_a_container_does_not_reach_the_machine(
    client: Client, worker: Worker, spec: dict[str, Any], context: dict[str, Any], named: str
) -> None:
    build_root(worker.folder / "images" / "tools")
    container: dict[str, Any] = {"image": "tools", "securityContext": context}
    if "volumes" in spec:
        container["volumeMounts"] = [{"name": "v", "mountPath": "/host"}]
    await _create(client, "id", container=container, runtimeClassName="container", **spec)
    refused = await _refused(client)
    assert named in refused
    assert "--allow-root" in refused


@needs_containers
async def test_another_user_in_a_container_gets_world_readable_files_only(client: Client, worker: Worker) -> None:
    build_root(worker.folder / "images" / "tools")
    container = {
        "image": "tools",
        "securityContext": {"runAsUser": 51234},
        "volumeMounts": [{"name": "v", "mountPath": "/host", "readOnly": True}],
    }
    volumes = [{"name": "v", "hostPath": {"path": "/usr/bin"}}]
    await _create(client, "ls", "/host/env", container=container, volumes=volumes, runtimeClassName="container")
    assert await _log(worker, await _phase(client, "Succeeded")) == b"/host/env\n"


def test_run_as_takes_names_and_numbers() -> None:
    assert identities.named("daemon")[:2] == (1, 1)
    assert identities.named("51234:51235")[:2] == (51234, 51235)
    with pytest.raises(UserError, match="no user"):
        identities.named("no-such-user")
    own = (Path("/x"),)
    assert identities.tasks("root", allow_root=False, own=own) == {"run_as": None, "allow_root": True, "own": ()}
    usual = identities.tasks("", allow_root=False, own=own)
    assert usual == {"run_as": identities.of_tasks(), "allow_root": False, "own": own}
