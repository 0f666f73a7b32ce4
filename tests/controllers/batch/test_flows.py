"""JobFlows start Jobs in the order of their dependencies."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.batch.batch_objects import job, reaches_phase, task
from tests.controllers.workloads import listed

from rota.api import meta
from rota.api.batch import kinds
from rota.client.verbs import Object, Propagation
from rota.controllers.batch import flow_plan, flows
from rota.controllers.batch.flow_plan import Question
from rota.controllers.batch.flows import JobFlowController
from rota.kit import system
from rota.kit.metrics import Metrics
from rota.testing.virtual_api import VirtualCluster


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("controllers")


@pytest.fixture(autouse=True)
async def _controller(cluster: VirtualCluster, metrics: Metrics) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:batch-flows")
    async with cluster.running(JobFlowController(client, clock=cluster.clock, rng=cluster.rng, metrics=metrics).run):
        yield


def after(name: str, *targets: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **({"dependsOn": {"targets": list(targets)}} if targets else {}), **fields}


async def flow(cluster: VirtualCluster, *parts: dict[str, Any], templates: str = "abcde", **spec: Any) -> Object:
    for name in templates:
        made = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "spec": job(task("w", 2))["spec"]}
        await cluster.client.create(kinds.JOB_TEMPLATES, {**made, "metadata": {"name": name, "namespace": "default"}})
    made = {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f", "namespace": "default"},
        "spec": {"flows": list(parts), **spec},
    }
    return await cluster.client.create(kinds.JOB_FLOWS, made)


async def jobs(cluster: VirtualCluster) -> set[str]:
    await cluster.clock.advance(1)
    return {meta.name(one) for one in await listed(cluster, kinds.JOBS) if not meta.is_deleting(one)}


async def end(cluster: VirtualCluster, name: str, phase: str = "Completed", **status: Any) -> None:
    """Do what the controller of Jobs does when a Job ends."""
    state = {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await cluster.client.patch(
        kinds.JOBS, name, {"status": {"state": state, **status}}, namespace="default", subresource="status"
    )
    await cluster.clock.advance(1)


DIAMOND = (after("a"), after("b", "a"), after("c", "b"), after("d", "b"), after("e", "c", "d"))


async def test_jobs_start_when_their_targets_are_complete(cluster: VirtualCluster) -> None:
    await flow(cluster, *DIAMOND)
    assert await jobs(cluster) == {"f-a"}
    await end(cluster, "f-a")
    assert await jobs(cluster) == {"f-a", "f-b"}
    await end(cluster, "f-b")
    assert await jobs(cluster) == {"f-a", "f-b", "f-c", "f-d"}
    await end(cluster, "f-c")
    assert "f-e" not in await jobs(cluster)
    running = await reaches_phase(cluster, "Running", "f", kinds.JOB_FLOWS)
    assert running["status"]["completedJobs"] == ["f-a", "f-b", "f-c"]
    assert running["status"]["pendingJobs"] == ["f-d"]
    await end(cluster, "f-d")
    assert "f-e" in await jobs(cluster)
    await end(cluster, "f-e")
    done = await reaches_phase(cluster, "Succeed", "f", kinds.JOB_FLOWS)
    assert [one["name"] for one in done["status"]["jobStatusList"]] == [f"f-{name}" for name in "abcde"]
    made = next(one for one in await listed(cluster, kinds.JOBS) if meta.name(one) == "f-b")
    assert meta.labels(made)["volcano.sh/createdByJobTemplate"] == "default.b"


async def test_jobs_go_with_a_flow_that_succeeded_if_its_policy_is_delete(cluster: VirtualCluster) -> None:
    await flow(cluster, after("a"), templates="a", jobRetainPolicy="delete")
    await jobs(cluster)
    await end(cluster, "f-a")
    await reaches_phase(cluster, "Succeed", "f", kinds.JOB_FLOWS)
    assert await jobs(cluster) == set()
    await cluster.clock.advance(10)
    assert await jobs(cluster) == set()


@pytest.mark.parametrize("phase", ["Failed", "Terminated", "Aborted"])
async def test_a_flow_fails_with_one_of_its_jobs(phase: str, cluster: VirtualCluster) -> None:
    await flow(cluster, after("a"), after("b", "a"), templates="ab")
    await jobs(cluster)
    await end(cluster, "f-a", phase)
    await reaches_phase(cluster, "Failed", "f", kinds.JOB_FLOWS)
    assert await jobs(cluster) == {"f-a"}


async def test_a_flow_waits_for_its_templates_and_says_so(cluster: VirtualCluster) -> None:
    await flow(cluster, after("a"), templates="")
    assert await jobs(cluster) == set()
    waiting = await reaches_phase(cluster, "Pending", "f", kinds.JOB_FLOWS)
    assert waiting["status"]["state"]["message"] == "waits for JobTemplate a"
    spec = job(task("w"))["spec"]
    template = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "spec": spec}
    await cluster.client.create(kinds.JOB_TEMPLATES, {**template, "metadata": {"name": "a", "namespace": "default"}})
    assert await jobs(cluster) == {"f-a"}
    found = await cluster.client.get(kinds.JOB_TEMPLATES, "a", namespace="default")
    assert found["status"]["jobDependsOnList"] == ["f-a"]


async def test_a_patch_changes_the_job_of_one_flow(cluster: VirtualCluster) -> None:
    patch = {"jobSpec": {"maxRetry": 7, "tasks": [{"name": "w", "replicas": 5, "minAvailable": 5}]}}
    await flow(cluster, after("a", patch=patch), templates="a")
    await jobs(cluster)
    made = await cluster.client.get(kinds.JOBS, "f-a", namespace="default")
    assert made["spec"]["maxRetry"] == 7
    assert (made["spec"]["tasks"][0]["replicas"], len(made["spec"]["tasks"])) == (5, 1)
    assert made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["name"] == "main"


async def test_a_flow_with_a_probe_starts_when_the_tasks_of_its_target_run(cluster: VirtualCluster) -> None:
    probe = {"taskStatusList": [{"taskName": "w", "phase": "Running"}]}
    await flow(cluster, after("a"), {"name": "b", "dependsOn": {"targets": ["a"], "probe": probe}}, templates="ab")
    await jobs(cluster)
    await end(cluster, "f-a", "Running", taskStatusCount={"w": {"phase": {"Running": 1}}})
    assert await jobs(cluster) == {"f-a"}
    await end(cluster, "f-a", "Running", taskStatusCount={"w": {"phase": {"Running": 2}}})
    assert await jobs(cluster) == {"f-a", "f-b"}


def test_a_patch_merges_maps_and_named_lists_and_removes_with_null() -> None:
    spec = {"tasks": [{"name": "a", "replicas": 1}, {"name": "b"}], "queue": "q", "plugins": {"env": [], "svc": []}}
    patch = {"tasks": [{"name": "b", "replicas": 2}, {"name": "c"}], "queue": None, "plugins": {"svc": ["--x"]}}
    assert flow_plan.patched(spec, patch) == {
        "tasks": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 2}, {"name": "c"}],
        "plugins": {"env": [], "svc": ["--x"]},
    }


@pytest.mark.parametrize(("status", "good"), [("200 OK", True), ("503 Service Unavailable", False)])
async def test_a_server_is_asked_over_http(status: str, good: bool) -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    asked = Question(job="j", task="t", port=port, path="/ready", header=("X-Who", "flow"))
    async with server:
        assert await flows.answers("127.0.0.1", asked, clock=system.SystemClock()) is good
        assert await flows.answers("127.0.0.1", Question(job="j", task="t", port=port), clock=system.SystemClock())
    assert seen[0].startswith(b"GET /ready HTTP/1.1\r\n")
    assert b"X-Who: flow\r\n" in seen[0]
    assert not await flows.answers("127.0.0.1", asked, clock=system.SystemClock())


@pytest.mark.parametrize(
    ("path", "header"),
    [("/ready HTTP/1.1\r\nHost: x\r\n\r\nDELETE /all", None), ("/ready", ("X-Who", "flow\r\nContent-Length: 9"))],
)
async def test_a_probe_cannot_contain_another_request(path: str, header: tuple[str, str] | None) -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    asked = Question(job="j", task="t", port=server.sockets[0].getsockname()[1], path=path, header=header)
    async with server:
        assert not await flows.answers("127.0.0.1", asked, clock=system.SystemClock())
        # Connections are accepted in order, so the first one has been served when the second is.
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.close()
        await writer.wait_closed()
    assert b"".join(seen) == b""


async def test_the_series_of_a_flow_goes_with_it(cluster: VirtualCluster, metrics: Metrics) -> None:
    def counted() -> float | None:
        return metrics.beside("batch", prefix="volcano_").value("jobflow_succeed_phase_count_total", jobflow_name="f")

    await flow(cluster, after("a"), templates="a")
    await cluster.clock.advance(1)
    await end(cluster, "f-a")
    assert counted() == 1
    await cluster.client.delete(kinds.JOB_FLOWS, "f", namespace="default", propagation=Propagation.BACKGROUND)
    await cluster.clock.advance(5)
    assert counted() is None
