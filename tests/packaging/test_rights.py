"""Components with the accounts of the chart on a stock API server: they do their work, and may do nothing else."""

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.batch.batch_objects import job, task
from tests.notices.fake_clouds import LATER, FakeAws
from tests.packaging import charts
from tests.packaging.charts import CHART, NAMESPACE
from tests.packaging.installations import AuditedServer, Installation, Request
from tests.stock.clusters import NODES, PODS, Cluster, cluster

from rota.api import errors
from rota.api.batch import kinds
from rota.testing import manifests
from rota.testing.servers import kubernetes, processes

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.helm, pytest.mark.timeout(180)]

BUDGETS = ("policy", "v1", "poddisruptionbudgets")
CLAIMS = ("", "v1", "persistentvolumeclaims")
CLASSES = ("storage.k8s.io", "v1", "storageclasses")
EVENTS = ("", "v1", "events")
PRIORITIES = ("scheduling.k8s.io", "v1", "priorityclasses")
VOLUMES = ("", "v1", "persistentvolumes")
CAPACITY = "node.kubernetes.io/capacity"

#: Rights for what these tests do not bring about.
RARELY = {
    # A pod is read again when the answer to its binding was lost, a node when another has written it meanwhile.
    "scheduler": {Request("get", "", "pods")},
    "spot-controller": {Request("get", "", "nodes")},
}
#: Events are patched when they come again, after a while.
RECURRING = {Request("patch", "", "events")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedServer]:
    with AuditedServer(tmp_path_factory.mktemp("audit")) as stock:
        yield stock


@pytest.fixture(scope="module")
def port() -> int:
    """Where the extender answers."""
    return processes.free_port()


@pytest.fixture(scope="module")
def installation(server: AuditedServer, port: int, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Installed by Helm, with all components."""
    folder = tmp_path_factory.mktemp("installation")
    it = Installation(server, folder)
    it.kubectl("apply", "--filename", str(charts.PACKAGING / "manifests" / "00-namespace.yaml"))
    settings = {
        "urlPrefix": f"https://127.0.0.1:{port}",
        "kubeconfig": server.kubeconfig("system:kube-scheduler"),
        "folder": folder,
        "ignorable": "false",
    }
    values = ["extender.enabled=true", "extender.tls.requireClientCertificate=true", "spotAgent.enabled=true"]
    values += [f"extender.kubeScheduler.{name}={value}" for name, value in settings.items()]
    it.helm("install", charts.RELEASE, str(CHART), *(word for value in values for word in ("--set", value)))
    return it


@pytest.fixture
async def it(server: AuditedServer) -> AsyncIterator[Cluster]:
    """Two spot machines and one that stays."""
    nodes = [
        manifests.node("spot-1", **{CAPACITY: "spot"}),
        manifests.node("spot-2", **{CAPACITY: "spot"}),
        manifests.node("stays-1", **{CAPACITY: "on-demand"}),
    ]
    async with cluster(server.kubeconfig(), nodes) as made:
        yield made


def granted(installation: Installation, component: str) -> set[Request]:
    """All that the roles of a component allow, one by one."""
    label = f"--selector=app.kubernetes.io/component={component}"
    roles = installation.get("clusterroles,roles", "", "--all-namespaces", label)["items"]
    return {one for role in roles for one in _allowed(role["rules"], role["metadata"].get("namespace", ""))}


def _allowed(rules: Sequence[dict[str, Any]], namespace: str) -> Iterable[Request]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from (Request(verb, group, resource, namespace) for verb in rule["verbs"])


def check_rights(server: AuditedServer, installation: Installation, component: str) -> None:
    """Nothing was refused for want of rights, and every right was of use."""
    asked, rights = server.asked(component), granted(installation, component)
    assert not [one for one, codes in asked.items() if codes & {401, 403}]
    # a right of the cluster is used in any namespace
    used = set(asked) | {one._replace(namespace="") for one in asked}
    assert rights - used - RARELY.get(component, set()) - RECURRING == set()


def pod(name: str, cpu: str = "100m", **about: Any) -> manifests.Document:
    made = manifests.pod(name, **{"schedulerName": "rota", **about})
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


async def test_the_scheduler_binds_refuses_preempts_and_binds_volumes(
    server: AuditedServer, installation: Installation, it: Cluster
) -> None:
    important = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "important"}}
    await it.client.create(PRIORITIES, {**important, "value": 1000})
    async with installation.running("scheduler") as scheduler:
        await it.create(PODS, pod("small"), pod("giant", "64"))
        await it.placed("small")
        assert "Insufficient cpu" in await it.unschedulable("giant")
        await _preempt(it)
        await _bind_volumes(it, server)
        assert scheduler.page("/readyz")[0] == 200
        assert 'scheduler_schedule_attempts_total{profile="rota",result="scheduled"}' in scheduler.page("/metrics")[1]
        await it.until(lambda: _told(it, "Scheduled", "FailedScheduling", "Preempted"), "events tell of it")
        check_rights(server, installation, "scheduler")
        assert "forbidden" not in scheduler.log


async def _preempt(it: Cluster) -> None:
    """One of the victims may be evicted, the other has a budget that must be overruled."""
    only = {"kubernetes.io/hostname": "stays-1"}
    for victim in ("free", "kept"):
        labels = {"app": victim}
        made = pod(victim, "1900m", nodeSelector=only, terminationGracePeriodSeconds=0)
        made["metadata"]["labels"] = labels
        await it.create(PODS, made)
    await it.placed("free", "kept")
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    await it.create(BUDGETS, {**budget, "spec": spec})
    await it.create(PODS, pod("urgent", "3800m", nodeSelector=only, priorityClassName="important"))
    assert await it.placed("urgent") == {"urgent": "stays-1"}
    await it.client.delete(PODS, "urgent", namespace=it.namespace, grace_period_s=0)


async def _bind_volumes(it: Cluster, server: AuditedServer) -> None:
    """One claim takes a volume that is there, the other waits for one to be made; both for their first pod."""
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "example.com/disks")):
        made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        await it.client.create(
            CLASSES, {**made, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        )
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        wish = {"storageClassName": name, "accessModes": ["ReadWriteOnce"]}
        await it.create(CLAIMS, {**claim, "spec": {**wish, "resources": {"requests": {"storage": "1Gi"}}}})
        if name == "local":
            volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}}
            spec = {**wish, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/disk"}}
            await it.client.create(VOLUMES, {**volume, "spec": spec})
            # a controller would say so
            await it.client.patch(VOLUMES, "disk", {"status": {"phase": "Available"}}, subresource="status")
        source = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        await it.create(PODS, pod(f"with-{name}", volumes=[source]))

    async def written() -> bool:
        done = {
            one.resource for one, codes in server.asked("scheduler").items() if one.verb == "update" and 200 in codes
        }
        return done >= {"persistentvolumes", "persistentvolumeclaims"}

    await it.until(written, "volumes and claims are bound")


async def test_the_spot_controller_leaves_a_machine(
    server: AuditedServer, installation: Installation, it: Cluster
) -> None:
    async with installation.running("spot-controller") as controller:
        # the one that has a budget needs longer to end in peace, and so goes soon enough for a test
        await it.create(PODS, _owned("free", "spot-1"), _owned("kept", "spot-1", terminationGracePeriodSeconds=20))
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
        await it.create(BUDGETS, {**budget, "spec": spec})
        await asyncio.to_thread(_notice, server, "spot-1")

        await it.until(lambda: _gone(it, "free"), "the pod that may go has gone")
        successor = _owned("free")
        successor["metadata"]["name"] = "free-again"
        await it.create(PODS, successor)
        # no scheduler runs that would have said so
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"status": {"conditions": [refused]}}
        await it.client.patch(PODS, "free-again", status, namespace=it.namespace, subresource="status")
        await it.until(lambda: _nominated(it, "free-again"), "its successor is told of a place")
        at_last = "the other goes at the last moment, whatever its budget says"
        await it.until(lambda: _gone(it, "kept"), at_last, patience_s=60)
        node = await it.client.get(NODES, "spot-1")
        assert "rota.dev/leaving" in {one["key"] for one in node["spec"]["taints"]}
        assert "rota_spot_" in controller.page("/metrics")[1]
        await it.until(lambda: _told(it, "SpotEvicted", "SpotDeletedAtDeadline"), "events tell of it")
        check_rights(server, installation, "spot-controller")
        assert "forbidden" not in controller.log


def _notice(server: AuditedServer, node: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "rota", "spot", "notice", node, "--in", "30s"],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig())},
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def batch(server: AuditedServer, installation: Installation) -> Iterator[tuple[Installation, int]]:
    """The batch controller with its webhooks, which the API server asks at a port of this machine."""
    port = processes.free_port()
    on = ["batchController.enabled=true", f"batchController.webhooks.url=https://127.0.0.1:{port}"]
    on += ["scheduler.enabled=false", "spotController.enabled=false", "fullnameOverride=rota"]
    words = [word for value in on for word in ("--set", value)]
    installation.helm("install", "batch", str(CHART), *words)
    yield installation, port
    installation.helm("uninstall", "batch")
    left = installation.get("mutatingwebhookconfigurations,validatingwebhookconfigurations", "", "--all-namespaces")
    assert left["items"] == [], "webhooks that nothing answers would block all batch objects"


async def test_the_batch_controller_runs_a_job_and_answers_webhooks(
    server: AuditedServer, batch: tuple[Installation, int], it: Cluster
) -> None:
    installation, port = batch
    async with installation.running("batch-controller", addresses={"0.0.0.0:8443": f"127.0.0.1:{port}"}) as controller:

        async def has_queues() -> bool:
            try:
                return {one["metadata"]["name"] for one in (await it.client.list(kinds.QUEUES)).items} >= {"default"}
            except errors.NotFound:
                return False

        await it.until(has_queues, "the first queues exist", patience_s=120)
        made = {**job(task("w", 2), plugins={"mpi": []}), "metadata": {"name": "work", "namespace": it.namespace}}
        created = await it.client.create(kinds.JOBS, made)
        assert set(created["spec"]["plugins"]) == {"mpi", "svc", "ssh"}, "a webhook sets defaults"
        with pytest.raises(errors.ApiError, match="total replicas in tasks"):
            await it.client.create(kinds.JOBS, {**made, "spec": {**made["spec"], "minAvailable": 3}})

        async def has_pods() -> bool:
            return {one["metadata"]["name"] for one in await it.list(PODS)} >= {"work-w-0", "work-w-1"}

        await it.until(has_pods, "the Job has its pods", patience_s=120)
        asked = server.asked("batch-controller")
        assert not [one for one, codes in asked.items() if codes & {401, 403}]
        allowed = granted(installation, "batch-controller")
        used = set(asked) | {one._replace(namespace="") for one in asked}
        assert {one for one in used if one.resource == "pods" and one.verb == "create"} & allowed
        assert "forbidden" not in controller.log


async def _gone(it: Cluster, name: str) -> bool:
    return name not in {one["metadata"]["name"] for one in await it.list(PODS)}


async def _nominated(it: Cluster, name: str) -> bool:
    return bool((await it.get(PODS, name))["status"].get("nominatedNodeName"))


async def _told(it: Cluster, *reasons: str) -> bool:
    return {one["reason"] for one in await it.list(EVENTS)} >= set(reasons)


def _owned(name: str, node: str = "", **spec: Any) -> manifests.Document:
    """A pod of somebody who will make another."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    made = manifests.pod(name, on=node, labels={"app": name}, **{"terminationGracePeriodSeconds": 1, **spec})
    made["metadata"]["ownerReferences"] = [owner]
    return made


class ConfiguredScheduler(kubernetes.Scheduler):
    """A stock scheduler with a configuration that somebody wrote."""

    def __init__(self, kubeconfig: Path, config: Path) -> None:
        super().__init__(kubeconfig)
        self._config = config

    def flags(self) -> dict[str, str]:
        """See `Scheduler.flags`."""
        return {"config": str(self._config)}


async def test_the_extender_answers_a_scheduler_that_is_configured_as_the_chart_says(
    server: AuditedServer, installation: Installation, it: Cluster, port: int, tmp_path: Path
) -> None:
    config = tmp_path / "kube-scheduler.yaml"
    data = installation.get("configmap", "rota-extender-kube-scheduler")["data"]
    config.write_text(data["kube-scheduler.yaml"])
    folder = Path(next(line for line in config.read_text().splitlines() if "certFile" in line).split()[1]).parent
    secret = installation.get("secret", "rota-extender-tls")["data"]
    for name in ("client.crt", "client.key"):
        (folder / name).write_bytes(base64.b64decode(secret[name]))
    address = {"0.0.0.0:8443": f"127.0.0.1:{port}"}
    async with installation.running("extender", addresses=address) as extender:
        with ConfiguredScheduler(server.kubeconfig("system:kube-scheduler"), config):
            asks = [("prefers", {}), ("never", {"rota.dev/spot": "never"})]
            for name, says in asks:
                made = manifests.pod(name)
                made["metadata"]["annotations"] = says
                await it.create(PODS, made)
            placed = await it.placed("prefers", "never")
        assert placed["prefers"].startswith("spot-")
        assert placed["never"] == "stays-1"
        assert 'rota_extender_requests_total{code="200",verb="filter"} 2.0' in extender.page("/metrics")[1]
        check_rights(server, installation, "extender")


async def test_an_agent_marks_its_own_node_and_no_other(
    server: AuditedServer, installation: Installation, it: Cluster
) -> None:
    cloud = FakeAws()
    async with cloud.serving() as url:
        options = ["--provider=aws", f"--metadata={url}", "--every=1s"]
        async with installation.running("spot-agent", node="spot-1", options=options) as agent:
            cloud.action = {"action": "terminate", "time": LATER}
            await it.until(lambda: _marked(it, "spot-1"), "the agent's node is marked")
            assert "rota_spot_agent_looks_total" in agent.page("/metrics")[1]
            check_rights(server, installation, "spot-agent")
    try:
        await it.until(lambda: _refused(installation, "spot-2"), "an agent may not mark another's node")
        assert not await _marked(it, "spot-2")
    finally:
        installation.kubectl("--namespace", NAMESPACE, "delete", "pod", "spot-agent", "--force")


async def _marked(it: Cluster, node: str) -> bool:
    taints = (await it.client.get(NODES, node))["spec"].get("taints", ())
    return "rota.dev/terminating" in {one["key"] for one in taints}


async def _refused(installation: Installation, node: str) -> bool:
    tried = ("annotate", "node", node, "example.com/by=agent", "--overwrite")
    done = await asyncio.to_thread(installation.kubectl, *tried, component="spot-agent")
    return "an agent may change the node that it runs on, and no other" in done.stderr
