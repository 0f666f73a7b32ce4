"""A machine that is taken away from a real `rota up`: its pods are on the other one before it goes."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Cluster

from rota.client import client_factory, kubeconfig
from rota.kit import system
from rota.testing import manifests
from rota.testing.process_cluster import Member

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two workers, both spot machines."""
    command = ("up", "--workers", "2", "--data", str(tmp_path), "--port", "0")
    process = Member("up", command, folder=tmp_path / "process", ready="Rota is up")
    found = Cluster(tmp_path)
    try:
        yield found
    finally:
        found.rota("delete", "deployments", "--all")
        found.rota("delete", "pods", "--all", "--now")
        process.stop()


def until(place_reservations: Callable[[], bool]) -> None:
    clock = system.SystemClock()
    deadline = clock.monotonic() + 60
    while not place_reservations():
        assert clock.monotonic() < deadline, "it did not come true"
        clock.block(0.2)


def listed(cluster: Cluster, *what: str) -> list[Any]:
    said = cluster.rota("get", *what, "-o", "json")
    assert said.returncode == 0, said.stderr
    found: list[Any] = json.loads(said.stdout)["items"]
    return found


async def labelled(cluster: Cluster, node: str) -> None:
    """Make a node a spot machine, as its provider would."""
    clock, rng = system.SystemClock(), system.rng()
    endpoint = kubeconfig.load(cluster.folder / "kubeconfig", clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        await client.patch(("", "v1", "nodes"), node, {"metadata": {"labels": {"node.kubernetes.io/capacity": "spot"}}})


def running(cluster: Cluster) -> list[str]:
    """The nodes of the pods that run and are not about to go."""
    return sorted(
        pod["spec"]["nodeName"]
        for pod in listed(cluster, "pods")
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    )


def test_pods_leave_a_machine_with_a_notice_for_the_one_that_stays(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("worker-1", "worker-2"):
        asyncio.run(labelled(cluster, name))
    made = manifests.deployment("web", replicas=4)
    container = made["spec"]["template"]["spec"]["containers"][0]
    container |= {"image": "process", "command": ["sleep", "1000"], "resources": {"requests": {"cpu": "50m"}}}
    budget = manifests.budget("web", min_available=3, app="web")
    (tmp_path / "web.yaml").write_text(yaml.safe_dump_all([made, budget]))
    assert cluster.rota("submit", str(tmp_path / "web.yaml")).returncode == 0
    until(lambda: len(running(cluster)) == 4 and len(set(running(cluster))) == 2)
    leaving, staying = "worker-1", "worker-2"
    fewest = 4
    assert cluster.rota("spot", "notice", leaving, "--in", "90s").returncode == 0

    def moved() -> bool:
        nonlocal fewest
        fewest = min(fewest, len(running(cluster)))
        return running(cluster) == [staying] * 4

    until(moved)
    # a pod is about to go for a moment before its successor runs, but the budget holds
    assert fewest >= 2
    until(lambda: not listed(cluster, "pods", "-n", "kube-system"))
    told = {one["name"]: one for one in json.loads(cluster.rota("spot", "list", "--json").stdout)}
    assert told[leaving]["mark"] == "rota.dev/terminating"
    assert told[staying]["places"] == []
    reasons = {event["reason"] for event in listed(cluster, "events", "-A")}
    assert {"SpotNotice", "SpotEvicted", "SpotNodeEvacuated"} <= reasons
    assert "FailedScheduling" not in reasons
