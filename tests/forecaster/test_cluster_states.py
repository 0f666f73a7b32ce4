"""ClusterStates on an API server in virtual time, with the rights of the controller."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.printing.cluster_states import PRINTERS
from rota.forecast.cluster_state_objects import CLUSTER_STATES
from rota.forecaster import cluster_state_metrics, kinds
from rota.forecaster.cluster_states import AT_LEAST_S, EVERY_S, ClusterStateController
from rota.kit.metrics import Metrics
from rota.testing.clusters import make_pod
from rota.testing.schedulers import SchedulingCluster, cluster


def controller(running: SchedulingCluster) -> ClusterStateController:
    client = running.acting_as("rota:controller:cluster-states")
    return ClusterStateController(client, clock=running.clock, rng=running.rng)


async def status_of(running: SchedulingCluster, name: str = "cluster") -> dict[str, Any]:
    try:
        return (await running.client.get(CLUSTER_STATES, name)).get("status") or {}
    except errors.NotFound:
        return {}


async def add_ready(running: SchedulingCluster, name: str, **labels: str) -> None:
    await running.add_node(name, labels=labels)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await running.client.patch(kinds.NODES, name, ready, subresource="status")


async def test_the_state_of_the_whole_cluster_exists_and_follows_it() -> None:
    async with cluster() as running:
        await add_ready(running, "n1")
        states = controller(running)
        async with running.running(states.run):

            async def placed() -> int:
                return int(((await status_of(running)).get("pods") or {}).get("placed", -1))

            async def empty() -> bool:
                return await placed() == 0

            async def one() -> bool:
                return await placed() == 1

            await running.until(empty)
            await running.client.create(kinds.PODS, make_pod("p", on="n1", cpu="1"), namespace="default")
            await running.until(one)
            found = await status_of(running)
            assert found["nodes"] == {"total": 1, "ready": 1, "schedulable": 1, "empty": 0}
            assert [each["pods"] for each in found["headroom"]] == [6, 1, 0]
            assert states.metrics.value("headroom_pods", clusterstate="cluster", shape="medium") == 1
            assert states.metrics.value("requested", clusterstate="cluster", resource="cpu") == 1
            exposed = states.metrics.exposition()[1].decode()
            assert 'kube_node_status_allocatable{node="n1",resource="cpu",unit="core"} 4.0' in exposed
            assert 'kube_node_status_condition{condition="Ready",node="n1",status="true"} 1.0' in exposed
            assert 'kube_node_status_condition{condition="Ready",node="n1",status="unknown"} 0.0' in exposed
            silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
            await running.client.patch(kinds.NODES, "n1", silent, subresource="status")

            async def lost() -> bool:
                return (await status_of(running))["nodes"]["ready"] == 0  # type: ignore[no-any-return]

            await running.until(lost)
            exposed = states.metrics.exposition()[1].decode()
            assert 'kube_node_status_condition{condition="Ready",node="n1",status="unknown"} 1.0' in exposed
            assert 'kube_node_status_condition{condition="Ready",node="n1",status="false"} 0.0' in exposed
        # Another master has the figures after the end.
        assert states.metrics.value("headroom_pods", clusterstate="cluster", shape="medium") is None


async def test_a_state_is_written_when_it_changed_or_is_old() -> None:
    async with cluster() as running:
        await add_ready(running, "n1")
        async with running.running(controller(running).run):

            async def written() -> bool:
                return bool(await status_of(running))

            await running.until(written)
            first = (await running.client.get(CLUSTER_STATES, "cluster"))["metadata"]["resourceVersion"]
            await running.clock.advance(3 * EVERY_S)
            assert (await running.client.get(CLUSTER_STATES, "cluster"))["metadata"]["resourceVersion"] == first

            async def again() -> bool:
                return bool(
                    (await running.client.get(CLUSTER_STATES, "cluster"))["metadata"]["resourceVersion"] != first
                )

            await running.clock.advance(AT_LEAST_S)
            await running.until(again)


async def test_states_of_pools_and_a_deleted_whole_one() -> None:
    async with cluster() as running:
        await add_ready(running, "n1", pool="a")
        await add_ready(running, "n2")
        states = controller(running)
        async with running.running(states.run):
            spec = {
                "nodeSelector": {"pool": "a"},
                "shapes": [{"name": "tiny", "requests": {"cpu": "1m"}}],
                "powerModels": [{"idle": 10, "full": 20, "sleepWatts": 1}],
            }
            document = {"apiVersion": "rota.dev/v1alpha1", "kind": "ClusterState", "metadata": {"name": "pool-a"}}
            await running.client.create(CLUSTER_STATES, {**document, "spec": spec})

            async def about_one() -> bool:
                found = await status_of(running, "pool-a")
                return bool(found) and found["headroom"][0]["pods"] == 10 and found["power"]["watts"] == 1

            await running.until(about_one)
            # A change of the spec is served at once, without the pause between two turns.
            await running.client.patch(CLUSTER_STATES, "pool-a", {"spec": {"nodeSelector": None}})

            async def about_both() -> bool:
                return (await status_of(running, "pool-a"))["nodes"]["total"] == 2  # type: ignore[no-any-return]

            await running.until(about_both)
            await running.client.delete(CLUSTER_STATES, "pool-a")
            await running.client.delete(CLUSTER_STATES, "cluster")

            async def whole_again() -> bool:
                return bool(await status_of(running))

            await running.until(whole_again)
            assert states.metrics.value("nodes", clusterstate="pool-a", state="total") is None


BAD = {
    "spec.shapes[0].requests": {"shapes": [{"name": "x", "requests": {}}]},
    "spec.shapes[0].requests[cpu]": {"shapes": [{"name": "x", "requests": {"cpu": "-1"}}]},
    "spec.shapes[0].weight": {"shapes": [{"name": "x", "requests": {"cpu": "1"}, "weight": 0}]},
    "spec.shapes[1].name": {"shapes": [{"name": "x", "requests": {"cpu": "1"}}] * 2},
    "spec.powerModels[0].model": {"powerModels": [{"model": "cubic"}]},
    "spec.powerModels[0].idle": {"powerModels": [{"idle": 300}]},
    "spec.powerModels[0].full": {"powerModels": [{"full": 1e300}]},
    "spec.powerModels[0].k2": {"powerModels": [{"model": "exponential", "k1": 1, "k2": 10}]},
    "spec.powerModels[0].watts": {"powerModels": [{"model": "table", "watts": [1]}]},
    "spec.powerModels[0].coresPerSocket": {"powerModels": [{"model": "sockets", "coresPerSocket": 0}]},
    "spec.powerModels[1].name": {"powerModels": [{}, {}]},
}


@pytest.mark.parametrize("path", BAD)
async def test_specs_without_figures_are_refused(path: str) -> None:
    document = {"apiVersion": "rota.dev/v1alpha1", "kind": "ClusterState", "metadata": {"name": "bad"}}
    async with cluster() as running:
        with pytest.raises(errors.Invalid) as refused:
            await running.client.create(CLUSTER_STATES, {**document, "spec": BAD[path]})
        assert path in str(refused.value)


PAGE = Path(__file__).parents[2] / "docs" / "howto" / "read-the-state-of-a-cluster.md"


async def test_the_page_shows_what_its_object_shows() -> None:
    text = PAGE.read_text()
    manifest, shown = (
        re.search(rf"```{info}\n(.*?)```", text, re.DOTALL)[1]  # type: ignore[index]
        for info in ("yaml pool.yaml", "text")
    )
    async with cluster() as running:
        for name in ("n1", "n2"):
            await add_ready(running, name, pool="web")
            await running.client.create(kinds.PODS, make_pod(f"on-{name}", on=name, cpu="2"), namespace="default")
        await running.client.create(kinds.PODS, make_pod("waits", cpu="4"), namespace="default")
        await running.client.create(CLUSTER_STATES, yaml.safe_load(manifest))
        async with running.running(controller(running).run):

            async def written() -> bool:
                return bool(await status_of(running, "web-pool"))

            await running.until(written)
        found = await running.client.get(CLUSTER_STATES, "web-pool")
    printer = PRINTERS[GroupResource("rota.dev", "clusterstates")]
    cells = printer.cells(found, running.clock.now())
    header, row = (re.split(r"\s{2,}", line) for line in shown.strip().splitlines())
    assert header == [column.name.upper() for column in printer.columns[: len(header)]]
    assert row == [str(cell) for cell in cells[: len(row)]]


def test_the_page_names_every_metric() -> None:
    metrics, text = Metrics("cluster_state"), PAGE.read_text()
    cluster_state_metrics.export(metrics, dict, lambda: None)
    for line in metrics.exposition()[1].decode().splitlines():
        if line.startswith("# TYPE"):
            name = line.split()[2]
            assert name in text or f"`{name.removeprefix('rota_cluster_state')}`" in text
