"""`rota forecaster` beside the stock API server: its kinds, the state of the cluster, and requests of new pods."""

import asyncio
import itertools
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rota.api import errors
from rota.client import client_factory, kubeconfig
from rota.forecast.histograms import VPA_CPU, VPA_MEMORY
from rota.forecaster import checkpoints, kinds
from rota.forecaster.checkpoints import HistoryState
from rota.kit import system
from rota.testing import webhook_files
from rota.testing.clusters import Document, make_node, make_pod
from rota.testing.servers.kubernetes import StockApiServer

ROTA = str(Path(sys.executable).with_name("rota"))
_PATIENCE_S = 90.0
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
# Two waits of this length are more than the limit of other tests.
pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(400)]


def _command(server: StockApiServer, folder: Path) -> list[str]:
    command = [ROTA, "forecaster", "--kubeconfig", str(server.kubeconfig()), "--every", "3600", "--http", "127.0.0.1:0"]
    return [*command, *webhook_files.options(folder)]


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not await condition():
        assert time.monotonic() < end
        await system.SystemClock().sleep(0.2)


def _autoscaler() -> Document:
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Initial", "minReplicas": 1}},
    }


@pytest.fixture
def server() -> Iterator[StockApiServer]:
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


@pytest.fixture
def metrics(server: StockApiServer, tmp_path: Path) -> Iterator[str]:
    """The address of the metrics of a forecaster beside the server."""
    with subprocess.Popen(_command(server, tmp_path), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = []
            for line in iter(process.stdout.readline, ""):
                said.append(line)
                if "Publishing forecasts" in line:
                    break
            (address,) = (line.partition("Metrics at ")[2].strip().rstrip(".") for line in said if "Metrics at" in line)
            yield f"{address}/metrics"
        finally:
            process.terminate()
            process.communicate(timeout=30)


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


async def test_states_and_recommendations_on_a_stock_server(server: StockApiServer, metrics: str) -> None:
    clock, rng = system.SystemClock(), system.rng()
    endpoint = kubeconfig.load(server.kubeconfig(), clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        node = make_node("n1")
        await client.create(kinds.NODES, node)
        status: Document = {**node["status"], "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(kinds.NODES, "n1", {"status": status}, subresource="status")

        async def counted() -> bool:
            try:
                found = await client.get(kinds.CLUSTER_STATES, "cluster")
            except errors.NotFound:
                return False
            return bool(((found.get("status") or {}).get("nodes") or {}).get("schedulable") == 1)

        await _until(counted)
        page = await asyncio.to_thread(_page, metrics)
        assert 'rota_cluster_state_headroom_pods{clusterstate="cluster",shape="medium"} 2.0' in page

        await client.create(kinds.AUTOSCALERS, _autoscaler())
        each = {"containerName": "c", "target": {"cpu": "333m"}}
        status = {"recommendation": {"containerRecommendations": [each]}}
        await client.patch(kinds.AUTOSCALERS, "db", {"status": status}, namespace="default", subresource="status")
        numbers = itertools.count()

        async def recommended() -> bool:
            # Until the API server and the forecaster know each other and the autoscaler, pods are as they are.
            pod = make_pod(f"db-{next(numbers)}")
            pod["metadata"]["ownerReferences"] = [OWNER]
            made = await client.create(kinds.PODS, pod)
            return bool(made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "333m")

        await _until(recommended)
        autoscaler = await client.get(kinds.AUTOSCALERS, "db", namespace="default")
        assert autoscaler["spec"]["updatePolicy"]["minReplicas"] == 1
        state = HistoryState(0.0, 60.0, 2, (0.0, np.ones(VPA_CPU.count)), (0.0, np.ones(VPA_MEMORY.count)))
        document = checkpoints.document(autoscaler, "c", state, clock.now())
        kept = await client.create(kinds.CHECKPOINTS, document, namespace="default")
        assert checkpoints.state(kept) is not None, "the server keeps the status of a new object"
