"""Our workload controllers beside the stock ones: the same manifests, the same steps, the same end.

Two API servers of ours, one with our controllers and one with a stock kube-controller-manager in their place; nodes are
simulated on both. What is compared is all that the controllers have written, without times, uids and drawn names.
"""

import asyncio
import difflib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.stock.clusters import EVENTS, PODS, Cluster, cluster

from rota.client.paths import Target
from rota.testing import manifests
from rota.testing.kubectl import Kubectl
from rota.testing.nodes import FAILS
from rota.testing.servers import kubernetes
from rota.testing.servers.kubernetes import ControllerManager
from rota.testing.servers.rota import RotaServer

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(180)]

DEPLOYMENTS = ("apps", "v1", "deployments")
REPLICA_SETS = ("apps", "v1", "replicasets")
JOBS = ("batch", "v1", "jobs")
DAEMON_SETS = ("apps", "v1", "daemonsets")
STATEFUL_SETS = ("apps", "v1", "statefulsets")
VOLUME_CLAIMS = ("", "v1", "persistentvolumeclaims")
CONTROLLER_REVISIONS = ("apps", "v1", "controllerrevisions")
CRON_JOBS = ("batch", "v1", "cronjobs")
OURS = "*,-cron-jobs,-daemon-sets,-deployments,-jobs,-replica-sets,-stateful-sets,-ttl-after-finished"
STOCK = (
    "deployment-controller,replicaset-controller,job-controller,cronjob-controller,ttl-after-finished-controller,"
    "garbage-collector-controller,daemonset-controller,statefulset-controller"
)
REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[Z+\-:0-9]*")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DRAWN = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
#: What differs though nothing is different: who wrote what when, and how many steps it took.
_LEFT_OUT = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "observedGeneration"}
)
#: What simulated nodes and the scheduler write.
_OF_OTHERS = frozenset(
    {"nodeName", "podIP", "podIPs", "hostIP", "hostIPs", "containerStatuses", "startTime", "qosClass"}
)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[RotaServer, RotaServer]]:
    flags = {"controllers": STOCK, "use_service_account_credentials": "true"}
    with (
        RotaServer() as ours,
        RotaServer("--controllers", OURS) as bare,
        ControllerManager(bare.kubeconfig("system:kube-controller-manager"), **flags),
    ):
        yield ours, bare


@pytest.fixture
async def both(servers: tuple[RotaServer, RotaServer]) -> AsyncIterator[tuple[Cluster, Cluster]]:
    nodes = [manifests.node(f"node-{number}") for number in range(2)]
    async with AsyncExitStack() as running:
        ours, stock = [await running.enter_async_context(cluster(one.kubeconfig(), nodes)) for one in servers]
        yield ours, stock


async def on(both: tuple[Cluster, Cluster], steps: Callable[[Cluster], Awaitable[Any]]) -> tuple[Any, Any]:
    """The outcomes of the same steps on both."""
    ours, stock = await asyncio.gather(*(steps(one) for one in both))
    return ours, stock


def alike(ours: Any, stock: Any) -> None:
    """Fail with the lines that differ."""
    theirs, mine = (json.dumps(one, indent=1, sort_keys=True, default=sorted).splitlines() for one in (stock, ours))
    difference = "\n".join(difflib.unified_diff(theirs, mine, "stock", "ours", lineterm="", n=12))
    assert not difference, difference


async def says(it: Cluster, target: Target, name: str, **wanted: Any) -> None:
    async def said() -> bool:
        status = (await it.get(target, name)).get("status", {})
        return all(status.get(field, 0) == value for field, value in wanted.items())

    await it.until(said, f"{name} has {wanted}", patience_s=60)


async def is_over(it: Cluster, name: str) -> None:
    async def said() -> bool:
        conditions = (await it.get(JOBS, name)).get("status", {}).get("conditions", ())
        return any(one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in conditions)

    await it.until(said, f"{name} is over", patience_s=60)


def shape(value: Any, names: Mapping[str, str]) -> Any:
    """What is left of an object without what is different every time."""
    match value:
        case dict():
            kept = {key: shape(item, names) for key, item in value.items() if key not in _LEFT_OUT | _OF_OTHERS}
            if {"type", "lastTransitionTime"} <= kept.keys():  # in whatever order
                kept.pop("lastHeartbeatTime", None)
            return kept
        case list():
            return [shape(item, names) for item in value]
        case str():
            for drawn, name in names.items():
                value = value.replace(drawn, name)
            return _DRAWN.sub("-<drawn>", _UID.sub("<uid>", _TIME.sub("<time>", value)))
    return value


async def pods(it: Cluster, names: Mapping[str, str]) -> list[Any]:
    found = [shape(one, names) for one in await it.list(PODS)]
    for one in found:
        one["status"] = {"phase": one["status"]["phase"]}
        one["metadata"].pop("namespace")
    return sorted(found, key=repr)


async def reasons(it: Cluster, kind: str) -> set[tuple[str, str]]:
    about = [one for one in await it.list(EVENTS) if one["involvedObject"]["kind"] == kind]
    return {(one["reason"], one["type"]) for one in about}


def conditions(status: dict[str, Any]) -> dict[str, Any]:
    """A status with its conditions by type, for controllers that do not agree with themselves about their order."""
    return {**status, "conditions": {one["type"]: one for one in status.get("conditions", ())}}


async def test_deployments_end_alike(both: tuple[Cluster, Cluster]) -> None:
    async def steps(it: Cluster) -> Any:
        web = manifests.deployment("web", replicas=3)
        web["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
        recreated = manifests.deployment("again", replicas=2)
        recreated["spec"]["strategy"] = {"type": "Recreate"}
        await it.create(DEPLOYMENTS, web, recreated)
        await says(it, DEPLOYMENTS, "web", observedGeneration=1, availableReplicas=3, updatedReplicas=3)
        await says(it, DEPLOYMENTS, "again", availableReplicas=2)
        second = {"spec": {"template": {"metadata": {"labels": {"tier": "two"}}}}}
        for name in ("web", "again"):
            await it.client.patch(DEPLOYMENTS, name, second, namespace=it.namespace)
        await says(it, DEPLOYMENTS, "web", observedGeneration=2, availableReplicas=3, updatedReplicas=3, replicas=3)
        await says(it, DEPLOYMENTS, "again", observedGeneration=2, availableReplicas=2, updatedReplicas=2, replicas=2)
        first = {"spec": {"replicas": 5, "template": {"metadata": {"labels": {"tier": None}}}}}
        await it.client.patch(DEPLOYMENTS, "web", first, namespace=it.namespace)
        await says(it, DEPLOYMENTS, "web", observedGeneration=3, availableReplicas=5, updatedReplicas=5, replicas=5)
        await it.client.patch(DEPLOYMENTS, "again", {"spec": {"paused": True}}, namespace=it.namespace)
        await says(it, DEPLOYMENTS, "again", observedGeneration=3, terminatingReplicas=0)
        await says(it, DEPLOYMENTS, "web", terminatingReplicas=0)

        async def settled() -> bool:
            web = await it.get(DEPLOYMENTS, "web")
            said = {one["type"]: one["reason"] for one in web["status"]["conditions"]}
            return bool(said["Progressing"] == "NewReplicaSetAvailable")

        await it.until(settled, "the rollout is over")
        return await rollout(it)

    alike(*await on(both, steps))


async def rollout(it: Cluster) -> Any:
    """All that a Deployment controller and a ReplicaSet controller have written."""
    sets = await it.list(REPLICA_SETS)
    names: dict[str, str] = {}
    for one in sets:
        owner = one["metadata"]["ownerReferences"][0]["name"]
        names[one["metadata"]["labels"][HASH]] = f"<{owner} {one['metadata']['annotations'][REVISION]}>"
    shaped = [shape(one, names) for one in (*await it.list(DEPLOYMENTS), *sets)]
    for one in shaped:
        one["metadata"].pop("namespace")
        one["status"] = conditions(one["status"])
    found = sorted(shaped, key=lambda one: (one["kind"], one["metadata"]["name"]))
    return found, await pods(it, names), await reasons(it, "Deployment"), await reasons(it, "ReplicaSet")


def daemon_set(name: str, **spec: Any) -> dict[str, Any]:
    made = manifests.deployment(name)
    made["kind"], made["metadata"]["annotations"] = "DaemonSet", {"kubernetes.io/change-cause": "first"}
    del made["spec"]["replicas"]
    made["spec"] |= spec
    return made


async def test_daemon_sets_end_alike(both: tuple[Cluster, Cluster]) -> None:
    surging = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    chosen = daemon_set("chosen", updateStrategy=surging, revisionHistoryLimit=1)
    chosen["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-1"}
    old = daemon_set("old", updateStrategy={"type": "OnDelete"})
    old["spec"]["template"]["spec"]["hostNetwork"] = True

    async def steps(it: Cluster) -> Any:
        await it.create(DAEMON_SETS, daemon_set("agent"), chosen, old)
        sizes = {"agent": 2, "chosen": 1, "old": 2}
        for name, size in sizes.items():
            await says(it, DAEMON_SETS, name, observedGeneration=1, numberAvailable=size, updatedNumberScheduled=size)
        for number in (2, 3):
            change = {"spec": {"template": {"metadata": {"labels": {"tier": str(number)}}}}}
            for name, size in sizes.items():
                await it.client.patch(DAEMON_SETS, name, change, namespace=it.namespace)
                updated = {} if name == "old" else {"numberAvailable": size, "updatedNumberScheduled": size}
                await says(it, DAEMON_SETS, name, observedGeneration=number, **updated)
        back = {"spec": {"template": {"metadata": {"labels": {"tier": "2"}}}}}
        await it.client.patch(DAEMON_SETS, "agent", back, namespace=it.namespace)
        await says(it, DAEMON_SETS, "agent", observedGeneration=4, numberAvailable=2, updatedNumberScheduled=2)
        return await revised(it, DAEMON_SETS, "DaemonSet")

    alike(*await on(both, steps))


def stateful_set(name: str, **spec: Any) -> dict[str, Any]:
    made = manifests.deployment(name, replicas=3)
    made["kind"], made["metadata"]["annotations"] = "StatefulSet", {"kubernetes.io/change-cause": "first"}
    made["spec"] |= spec
    return made


async def test_stateful_sets_end_alike(both: tuple[Cluster, Cluster]) -> None:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    going = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    sets = [
        stateful_set("db", serviceName="names", revisionHistoryLimit=1),
        stateful_set("fast", podManagementPolicy="Parallel", ordinals={"start": 4}),
        stateful_set("part", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}),
        stateful_set("old", updateStrategy={"type": "OnDelete"}),
    ]
    claiming = stateful_set(
        "store",
        podManagementPolicy="Parallel",
        volumeClaimTemplates=[{"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": storage}],
        persistentVolumeClaimRetentionPolicy=going,
    )

    async def steps(it: Cluster) -> Any:
        await it.create(STATEFUL_SETS, *sets, claiming)
        for one in sets:
            await says(it, STATEFUL_SETS, one["metadata"]["name"], observedGeneration=1, availableReplicas=3)

        async def owned() -> bool:
            found = await it.list(VOLUME_CLAIMS)
            return len(found) == 3 and all(one["metadata"].get("ownerReferences") for one in found)

        await it.until(owned, "claims belong to their set", patience_s=60)
        found = [shape(one, {it.namespace: "<namespace>"}) for one in await it.list(VOLUME_CLAIMS)]
        # Nobody makes volumes here: its pods wait, and are in the way.
        await it.client.delete(STATEFUL_SETS, "store", namespace=it.namespace)
        for number in (2, 3):
            change = {"spec": {"template": {"metadata": {"labels": {"tier": str(number)}}}}}
            for one, updated in zip(sets, (3, 3, 1, 0), strict=True):
                name = one["metadata"]["name"]
                await it.client.patch(STATEFUL_SETS, name, change, namespace=it.namespace)
                wanted = {"updatedReplicas": updated, "availableReplicas": 3, "observedGeneration": number}
                await says(it, STATEFUL_SETS, name, **wanted)
        await it.client.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}}, namespace=it.namespace)
        await says(it, STATEFUL_SETS, "db", replicas=1, currentReplicas=1, updatedReplicas=1, observedGeneration=4)

        async def over() -> bool:
            return not await it.list(VOLUME_CLAIMS)

        await it.until(over, "claims are gone with their set", patience_s=60)
        *written, events = await revised(it, STATEFUL_SETS, "StatefulSet")
        # The stock controller looks for claims that its cache does not have yet, and complains.
        return written, events - {("FailedUpdate", "Warning")}, sorted(found, key=repr)

    alike(*await on(both, steps))


async def revised(it: Cluster, target: Target, kind: str) -> Any:
    """All that the controller of a kind with revisions has written, once no pod is on its way out."""

    async def calm() -> bool:
        return not any(one["metadata"].get("deletionTimestamp") for one in await it.list(PODS))

    await it.until(calm, "deleted pods are gone")
    revisions, names = await it.list(CONTROLLER_REVISIONS), dict[str, str]()
    for one in revisions:
        owner = one["metadata"]["ownerReferences"][0]["name"]
        names[one["metadata"]["name"].removeprefix(f"{owner}-")] = f"<{owner} {one['revision']}>"
    shaped = [shape(one, names) for one in (*await it.list(target), *revisions)]
    for one in shaped:
        one["metadata"].pop("namespace")
    found = sorted(shaped, key=lambda one: (one["kind"], one["metadata"]["name"]))
    return found, await pods(it, names), await reasons(it, kind)


def job(name: str, *, fails: bool = False, **spec: Any) -> dict[str, Any]:
    made = manifests.job(name)
    made["spec"] |= spec
    if fails:
        made["spec"]["template"]["metadata"] = {"annotations": {FAILS: ""}}
    return made


async def test_jobs_end_alike(both: tuple[Cluster, Cluster]) -> None:
    indexed: dict[str, Any] = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
    by_code = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}
    lost = {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [7]}}]}
    over = [
        job("several", completions=3, parallelism=2),
        job("any", completions=None, parallelism=2),
        job("bad", fails=True, backoffLimit=0),
        job("indexed", **indexed),
        job("each", fails=True, **indexed, backoffLimitPerIndex=0),
        job("too-many", fails=True, **indexed, backoffLimitPerIndex=0, maxFailedIndexes=3),
        job("by-code", fails=True, podFailurePolicy=by_code),
        job("by-index", fails=True, **indexed, backoffLimitPerIndex=3, podFailurePolicy=lost),
        job("enough", **indexed, successPolicy={"rules": [{"succeededIndexes": "0-3", "succeededCount": 4}]}),
    ]

    async def steps(it: Cluster) -> Any:
        await it.create(JOBS, *over, job("asleep", suspend=True), job("short-lived", ttlSecondsAfterFinished=1))
        for one in over:
            await is_over(it, one["metadata"]["name"])

        async def gone() -> bool:
            return "short-lived" not in {one["metadata"]["name"] for one in await it.list(JOBS)}

        await it.until(gone, "the job goes after its time", patience_s=60)
        await it.client.patch(JOBS, "asleep", {"spec": {"suspend": False}}, namespace=it.namespace)
        await is_over(it, "asleep")
        found = [shape(one, {}) for one in await it.list(JOBS)]
        for one in found:
            one["metadata"].pop("namespace")
            one["status"] = conditions(one["status"])
            for said in one["status"]["conditions"].values():
                said["message"] = said["message"].replace(it.namespace, "<namespace>")
        return sorted(found, key=lambda one: str(one["metadata"]["name"])), await pods(it, {}), await reasons(it, "Job")

    alike(*await on(both, steps))


async def test_cron_jobs_make_the_same_jobs(both: tuple[Cluster, Cluster]) -> None:
    spec = {
        "schedule": "@every 3s",
        "timeZone": "Asia/Tokyo",
        "jobTemplate": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": manifests.job("x")["spec"],
        },
    }

    async def steps(it: Cluster) -> Any:
        await it.create(CRON_JOBS, {"metadata": {"name": "often"}, "spec": spec})

        async def made() -> bool:
            return bool(await it.list(JOBS))

        await it.until(made, "the cron job makes a job")
        await it.client.patch(CRON_JOBS, "often", {"spec": {"suspend": True}}, namespace=it.namespace)
        (only, *_others) = await it.list(JOBS)
        await is_over(it, only["metadata"]["name"])

        async def seen() -> bool:
            status = (await it.get(CRON_JOBS, "often")).get("status", {})
            return "lastSuccessfulTime" in status and "active" not in status

        await it.until(seen, "the cron job has seen the end of its job")
        names = {only["metadata"]["name"]: "often-<minute>", it.namespace: "<namespace>"}
        return shape(await it.get(CRON_JOBS, "often"), names), shape(only["metadata"], names)

    alike(*await on(both, steps))


async def test_kubectl_rolls_out_pauses_and_goes_back(servers: tuple[RotaServer, RotaServer], tmp_path: Path) -> None:
    config = servers[0].kubeconfig()
    async with cluster(config, [manifests.node("node-0")]) as it:
        kubectl = Kubectl(kubernetes.program("kubectl"), namespace=it.namespace, home=tmp_path, kubeconfig=config)

        async def call(*arguments: str) -> str:
            return await asyncio.to_thread(kubectl, *arguments)

        async def image() -> str:
            return await call("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}")

        await call("create", "deployment", "web", "--image=app:1", "--replicas=2")
        await call("annotate", "deployment/web", "kubernetes.io/change-cause=the first")
        assert "successfully rolled out" in await call("rollout", "status", "deployment/web", "--timeout=30s")
        await call("set", "image", "deployment/web", "app=app:2")
        await call("annotate", "deployment/web", "kubernetes.io/change-cause=the second", "--overwrite")
        assert "successfully rolled out" in await call("rollout", "status", "deployment/web", "--timeout=30s")
        history = await call("rollout", "history", "deployment/web")
        assert [line.split(maxsplit=1) for line in history.splitlines()[2:] if line] == [
            ["1", "the first"],
            ["2", "the second"],
        ]
        await call("rollout", "pause", "deployment/web")
        await call("set", "image", "deployment/web", "app=app:3")
        await call("rollout", "resume", "deployment/web")
        assert "successfully rolled out" in await call("rollout", "status", "deployment/web", "--timeout=30s")
        await call("rollout", "undo", "deployment/web", "--to-revision=1")
        assert "successfully rolled out" in await call("rollout", "status", "deployment/web", "--timeout=30s")
        await call("wait", "--for=jsonpath={.status.terminatingReplicas}=0", "deployment/web", "--timeout=30s")
        assert await image() == "app:1 app:1"
        before = {one["metadata"]["name"] for one in await it.list(PODS)}
        await call("rollout", "restart", "deployment/web")
        assert "successfully rolled out" in await call("rollout", "status", "deployment/web", "--timeout=30s")
        await call("wait", "--for=jsonpath={.status.terminatingReplicas}=0", "deployment/web", "--timeout=30s")
        assert not before & {one["metadata"]["name"] for one in await it.list(PODS)}
        await call("create", "job", "hello", "--image=app:1")
        assert "condition met" in await call("wait", "--for=condition=complete", "job/hello", "--timeout=30s")


async def test_kubectl_rolls_out_and_takes_back_what_keeps_revisions(
    servers: tuple[RotaServer, RotaServer], tmp_path: Path
) -> None:
    config = servers[0].kubeconfig()
    async with cluster(config, [manifests.node("node-0"), manifests.node("node-1")]) as it:
        kubectl = Kubectl(kubernetes.program("kubectl"), namespace=it.namespace, home=tmp_path, kubeconfig=config)

        async def call(*arguments: str) -> str:
            return await asyncio.to_thread(kubectl, *arguments)

        await it.create(DAEMON_SETS, daemon_set("agent"))
        await it.create(STATEFUL_SETS, stateful_set("db"))
        for name, done in (
            ("daemonset/agent", "successfully rolled out"),
            ("statefulset/db", "roll out complete"),
        ):
            await call("rollout", "status", name, "--timeout=30s")
            await call("set", "image", name, "main=app:2")
            assert done in await call("rollout", "status", name, "--timeout=30s")
            history = await call("rollout", "history", name)
            assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
            assert "app:2" in await call("rollout", "history", name, "--revision=2")
            await call("rollout", "undo", name)
            assert done in await call("rollout", "status", name, "--timeout=30s")
        images = await call("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}")
        assert images.split() == ["app:1"] * 5
