"""Masters and workers as processes: how a worker comes in, stays a member, and is turned away."""

import asyncio
import base64
import ipaddress
import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.api import meta
from rota.client import client_factory, kubeconfig
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import system
from rota.pki import keys, signing_requests
from rota.pki.certificates import Names
from rota.testing.process_cluster import ProcessCluster, Worker
from rota.testing.servers.etcd import EtcdServer
from rota.worker.cluster_join import certificate_requests

pytestmark = [pytest.mark.slow, pytest.mark.etcd, pytest.mark.timeout(240)]
PODS = ("", "v1", "pods")
NODES = ("", "v1", "nodes")
LEASES = ("coordination.k8s.io", "v1", "leases")
REQUESTS = ("certificates.k8s.io", "v1", "certificatesigningrequests")
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Two masters on one store, and no worker yet. A master that is put to sleep could hold the lock of a file."""
    with EtcdServer() as store, ProcessCluster(tmp_path_factory.mktemp("fleet"), store_url=store.url) as made:
        made.master("m1")
        made.master("m2")
        yield made


@pytest.fixture
async def client(fleet: ProcessCluster) -> AsyncIterator[Client]:
    clock = system.SystemClock()
    async with client_factory.to_server(fleet.endpoint(), clock=clock, rng=random.Random(0)) as made:
        yield made


@pytest.fixture(scope="module")
def worker(fleet: ProcessCluster) -> Worker:
    """A worker of a kind that nobody else is."""
    return fleet.worker(
        "w1",
        *("--labels", "disk=ssd,rack=7", "--taints", "gpu=yes:NoSchedule"),
        *("--resources", "cpu=4,memory=1Gi,example.com/gpu=2", "--lease", "8"),
    )


def rota(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rota", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


async def until(holds: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await holds()):  # noqa: ASYNC110 - what is waited for happens in other processes
            await asyncio.sleep(0.05)
        return found


def task(name: str, script: str) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "containers": [container], "tolerations": [{"operator": "Exists"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def ended(client: Client, name: str) -> Any:
    async def look() -> Any:
        pod = await client.get(PODS, name, namespace="default")
        return pod if pod["status"].get("phase") in {"Succeeded", "Failed"} else None

    return await until(look)


async def test_a_worker_joins_by_the_printed_command_and_runs_tasks(
    client: Client, worker: Worker, tmp_path: Path
) -> None:
    node = await client.get(NODES, "w1")
    assert meta.labels(node)["disk"] == "ssd"
    assert meta.labels(node)["rack"] == "7"
    assert {"key": "gpu", "value": "yes", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert {name: node["status"]["allocatable"][name] for name in ("cpu", "memory", "example.com/gpu")} == {
        "cpu": "4",
        "memory": "1Gi",
        "example.com/gpu": "2",
    }
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    await client.create(PODS, task("first", f"echo done > {tmp_path}/done"))
    pod = await ended(client, "first")
    assert (pod["status"]["phase"], pod["spec"]["nodeName"]) == ("Succeeded", "w1")
    assert (tmp_path / "done").read_text() == "done\n"


async def test_it_has_certificates_of_its_own_for_both_directions(client: Client, worker: Worker) -> None:
    async def issued() -> bool:
        found = (await client.list(REQUESTS)).items
        return {one["spec"]["signerName"] for one in found if one["status"].get("certificate")} >= {
            "kubernetes.io/kube-apiserver-client-kubelet",
            "kubernetes.io/kubelet-serving",
        }

    await until(issued)
    own = kubeconfig.load(worker.folder / "kubeconfig", clock=system.SystemClock())
    async with client_factory.to_server(own, clock=system.SystemClock(), rng=random.Random(0)) as asking:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        told = await asking.create(("authentication.k8s.io", "v1", "selfsubjectreviews"), review)
    assert told["status"]["userInfo"]["username"] == "system:node:w1"
    assert own.fallbacks
    assert (worker.folder / "kubeconfig").stat().st_mode & 0o077 == 0


async def test_every_master_reaches_it_for_what_a_task_has_said(
    fleet: ProcessCluster, client: Client, worker: Worker
) -> None:
    await client.create(PODS, task("speaks", "echo something to say"))
    await ended(client, "speaks")
    for master in fleet.masters:
        clock = system.SystemClock()
        async with client_factory.to_server(master.endpoint(), clock=clock, rng=random.Random(0)) as asking:
            said = await asking.request("GET", "/api/v1/namespaces/default/pods/speaks/log", accept="*/*")
        assert said == b"something to say\n"


async def test_an_endpoint_is_vouched_for_only_by_the_address_that_its_worker_is_seen_at(worker: Worker) -> None:
    own = kubeconfig.load(worker.folder / "kubeconfig", clock=system.SystemClock())
    wanted = {
        "a-name": Names(dns=("w1",), addresses=(ipaddress.ip_address("127.0.0.1"),)),
        "another-address": Names(addresses=(ipaddress.ip_address("127.0.0.2"),)),
        "its-address": Names(addresses=(ipaddress.ip_address("127.0.0.1"),)),
    }
    async with client_factory.to_server(own, clock=system.SystemClock(), rng=random.Random(0)) as asking:
        for name, names in wanted.items():
            pem = signing_requests.make(keys.generate(), certificate_requests.subject("w1"), names=names)
            spec = {
                "request": base64.b64encode(pem).decode(),
                "signerName": "kubernetes.io/kubelet-serving",
                "usages": ["digital signature", "server auth"],
                # Who asks and from where is the server's to say.
                "extra": {"rota.dev/client-address": ["127.0.0.2"]},
            }
            asked = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "spec": spec}
            await asking.create(REQUESTS, {**asked, "metadata": {"name": name}})

        async def issued() -> Any:
            return (await asking.get(REQUESTS, "its-address"))["status"].get("certificate")

        await until(issued)
        for name in ("a-name", "another-address"):
            assert not (await asking.get(REQUESTS, name)).get("status")


async def test_it_needs_nothing_to_come_back(client: Client, worker: Worker) -> None:
    worker.stop()
    done = rota("worker", "--name", "other", "--data", str(worker.folder), "--port", "0")
    assert (done.returncode, "is w1, not other" in done.stderr) == (2, True)
    worker.start()
    await client.create(PODS, task("after-a-restart", "true"))
    assert (await ended(client, "after-a-restart"))["status"]["phase"] == "Succeeded"


async def test_it_goes_on_with_another_master(
    fleet: ProcessCluster, client: Client, worker: Worker, tmp_path: Path
) -> None:
    first = fleet.masters[0]
    first.kill()
    try:
        await client.create(PODS, task("by-the-other", f"echo done > {tmp_path}/done"))
        assert (await ended(client, "by-the-other"))["status"]["phase"] == "Succeeded"
        assert (tmp_path / "done").exists()
    finally:
        first.start()


async def test_a_leader_that_was_asleep_does_not_disturb_the_next(
    fleet: ProcessCluster, client: Client, worker: Worker, tmp_path: Path
) -> None:
    brisk = client.with_settings(timeout_s=2.0)

    async def holder() -> str:
        try:
            lease = await brisk.get(LEASES, "rota-controllers", namespace="kube-system")
        except TransportError:
            return ""
        return str(lease["spec"]["holderIdentity"])

    before = await holder()
    (asleep,) = [one for one in fleet.masters if one.identity == before]

    async def next_one() -> str:
        return "" if (found := await holder()) == before else found

    asleep.pause()
    try:
        following = await until(next_one)
        await client.create(PODS, task("while-asleep", f"echo run >> {tmp_path}/runs"))
        assert (await ended(client, "while-asleep"))["status"]["phase"] == "Succeeded"
    finally:
        asleep.resume()
    await client.create(PODS, task("when-awake", f"echo run >> {tmp_path}/runs"))
    assert (await ended(client, "when-awake"))["status"]["phase"] == "Succeeded"
    assert (tmp_path / "runs").read_text() == "run\nrun\n"
    assert await holder() == following


def test_a_kubeconfig_is_a_way_in_too(fleet: ProcessCluster, tmp_path: Path) -> None:
    config = fleet.masters[1].folder / "kubeconfig"
    by_file = Worker(
        "by-file",
        ("worker", "--kubeconfig", str(config), "--name", "by-file", "--data", str(tmp_path / "w"), "--port", "0"),
        folder=tmp_path / "w",
        ready="This worker is ready",
    )
    try:
        own = kubeconfig.load(tmp_path / "w" / "kubeconfig", clock=system.SystemClock())
        assert own.client_certificate != kubeconfig.load(config, clock=system.SystemClock()).client_certificate
    finally:
        by_file.power_off()


def test_what_does_not_lead_in_is_said_in_one_line_and_leaves_nothing(fleet: ProcessCluster, tmp_path: Path) -> None:
    join, servers, token, given, hash_, ca_hash = fleet.invitation()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"https://127.0.0.1:{closed.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        mistakes = {
            "does not take this token: it is wrong or over": (
                *(join, servers, token, "abcdef.0123456789abcdef", hash_, ca_hash),
            ),
            "does not have the authority": (join, servers, token, given, hash_, "sha256:" + "0" * 64),
            "no master answers": (join, nobody, token, given, hash_, ca_hash),
            "cannot listen on": (join, servers, token, given, hash_, ca_hash, "--port", str(taken.getsockname()[1])),
        }
        for words, arguments in mistakes.items():
            done = rota("worker", "--name", "never", "--data", str(tmp_path / "w"), "--port", "0", *arguments)
            assert done.returncode == 2, (words, done.stderr)
            assert done.stderr.count("\n") == 1, done.stderr
            assert words in done.stderr
            assert not (tmp_path / "w" / "kubeconfig").exists()
