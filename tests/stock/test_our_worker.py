"""Our worker in a stock cluster: it joins with a kubeconfig, as the cluster's own rules want it, and runs pods."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.api import meta
from rota.client import client_factory, kubeconfig
from rota.client.verbs import Client
from rota.kit import system
from rota.pki.authorities import Authority
from rota.testing.process_cluster import Worker
from rota.testing.servers.kubernetes import ControllerManager, StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(240)]
PODS = ("", "v1", "pods")
NODES = ("", "v1", "nodes")
REQUESTS = ("certificates.k8s.io", "v1", "certificatesigningrequests")


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[StockApiServer]:
    """A server that believes certificates of an authority, and the controllers that hand them out."""
    authority = Authority.create(now=system.SystemClock().now())
    certificate, key = tmp_path / "ca.crt", tmp_path / "ca.key"
    certificate.write_bytes(authority.certificate_pem)
    key.write_bytes(authority.key_pem)
    flags = {"client_ca_file": str(certificate), "disable_admission_plugins": "ServiceAccount"}
    with (
        StockApiServer(authorization="Node,RBAC", **flags) as server,
        ControllerManager(
            server.kubeconfig(),
            controllers="certificatesigningrequest-approving-controller,certificatesigningrequest-signing-controller",
            cluster_signing_cert_file=str(certificate),
            cluster_signing_key_file=str(key),
        ),
    ):
        yield server


@pytest.fixture
async def client(stock: StockApiServer) -> AsyncIterator[Client]:
    clock = system.SystemClock()
    endpoint = kubeconfig.load(stock.kubeconfig(), clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=random.Random(0)) as made:
        yield made


async def test_it_joins_and_runs_a_pod(stock: StockApiServer, client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "worker"
    worker = Worker(
        "ours",
        ("worker", "--kubeconfig", str(stock.kubeconfig()), "--name", "ours", "--data", str(folder), "--port", "0"),
        folder=folder,
        ready="This worker is ready",
    )
    try:
        node = await client.get(NODES, "ours")
        assert meta.is_condition_true(node, "Ready")
        own = kubeconfig.load(folder / "kubeconfig", clock=system.SystemClock())
        assert own.client_certificate is not None
        container = {"name": "main", "image": "none", "command": ["sh", "-c", f"echo done > {tmp_path}/done"]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "task", "namespace": "default"},
            "spec": {"nodeName": "ours", "restartPolicy": "Never", "containers": [container]},
        }
        await client.create(PODS, pod)
        assert await _phase(client, "task") == "Succeeded"
        assert (tmp_path / "done").read_text() == "done\n"
        waiting = [one for one in (await client.list(REQUESTS)).items if not one["status"].get("conditions")]
        # As upstream, a person vouches for what a worker serves by.
        assert {one["spec"]["signerName"] for one in waiting} == {"kubernetes.io/kubelet-serving"}
    finally:
        worker.power_off()


async def _phase(client: Client, name: str) -> Any:
    async with asyncio.timeout(60):
        while True:
            phase = (await client.get(PODS, name, namespace="default"))["status"].get("phase")
            if phase in {"Succeeded", "Failed"}:
                return phase
            await asyncio.sleep(0.1)
