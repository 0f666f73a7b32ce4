"""A push and a pull member that fail and come back: what moves, what must not, what returns, and who may do what."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rota.api import errors, meta
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.testing.federations import AgentProcess, FederationProcess, MemberProcess, client_of, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DEPLOYMENTS = ("apps", "v1", "deployments")
STATEFUL_SETS = ("apps", "v1", "statefulsets")
CONFIG_MAPS = ("", "v1", "configmaps")
PODS = ("", "v1", "pods")


@dataclass
class Place:
    """A federation with the push member m1 and the pull member m2."""

    federation: FederationProcess
    masters: dict[str, MemberProcess]
    agent: AgentProcess
    control: Client
    members: dict[str, Client]

    async def namespace(self, name: str) -> str:
        await self.control.create(
            kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
        return name

    def rota(self, *arguments: str, code: int = 0) -> str:
        done = self.federation.rota(*arguments)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, ...]]:
    folder = tmp_path_factory.mktemp("failover")
    masters = {name: MemberProcess(folder / name) for name in ("m1", "m2")}
    options = ("--lease-grace", "4s", "--fence-margin", "4s", "--eviction-rate", "10", "--unschedulable-after", "2s")
    with FederationProcess(folder / "control", *options) as federation, masters["m1"], masters["m2"]:
        joined = federation.rota("federation", "join", "m1", "--member", str(folder / "m1" / "kubeconfig"))
        assert joined.returncode == 0, joined.stderr
        with AgentProcess(folder / "agent", "m2", federation, masters["m2"]) as agent:
            yield federation, masters, agent, folder


@pytest.fixture
async def place(processes: tuple[Any, ...]) -> AsyncIterator[Place]:
    federation, masters, agent, folder = processes
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(federation.client())
        members = {name: await stack.enter_async_context(client_of(folder / name / "kubeconfig")) for name in masters}
        for name in masters:
            await until(control, kinds.CLUSTERS, name, is_schedulable)
        yield Place(federation, masters, agent, control, members)


def is_schedulable(cluster: Object | None) -> bool:
    return cluster is not None and meta.is_condition_true(cluster, "Ready") and not cluster["spec"].get("taints")


def workload(kind: str, name: str, namespace: str, replicas: int, *, cpu: str = "10m") -> dict[str, Any]:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "registry.example/app:v1",
        "command": ["sleep", "1000"],
        "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
    }
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        },
    }
    if kind == "StatefulSet":
        spec["serviceName"] = name
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def policy(kind: str, namespace: str, placement: dict[str, Any], **spec: Any) -> dict[str, Any]:
    version = "v1" if kind == "ConfigMap" else "apps/v1"
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": f"{kind.lower()}s", "namespace": namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": version, "kind": kind, "namespace": namespace}],
            "placement": placement,
            **spec,
        },
    }


def first(*names: str) -> dict[str, Any]:
    """One cluster after the other, in this order of preference."""
    return {
        "clusterAffinities": [{"affinityName": f"choice-{name}", "clusterNames": [name]} for name in names],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"},
    }


def at(*names: str) -> Callable[[Object | None], bool]:
    """Whether a binding is in these clusters, and in no other any more."""

    def holds(binding: Object | None) -> bool:
        spec = (binding or {}).get("spec") or {}
        return {target["name"] for target in spec.get("clusters") or ()} == set(names) and not spec.get(
            "gracefulEvictionTasks"
        )

    return holds


def is_ready(count: int) -> Callable[[Object | None], bool]:
    return lambda obj: obj is not None and (obj.get("status") or {}).get("readyReplicas", 0) == count


def has_label(key: str, value: str) -> Callable[[Object | None], bool]:
    return lambda obj: obj is not None and meta.labels(obj).get(key) == value


def lost_policy() -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": "lost"},
        "spec": {
            "addOnConditions": [{"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}],
            "removeOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
            "taints": [{"key": "lost", "effect": "NoExecute"}],
        },
    }


async def test_an_agent_can_touch_nothing_but_its_own_cluster(place: Place) -> None:
    token = (place.agent.folder / "token").read_text().strip()
    async with client_of(place.agent.folder / "control-plane.kubeconfig") as agent:
        assert meta.name(await agent.get(kinds.CLUSTERS, "m2")) == "m2"
        status = {"status": {"kubernetesVersion": "v0"}}
        lease = {"spec": {"holderIdentity": "m2"}}
        space = kinds.CLUSTER_NAMESPACE
        attempts = [
            agent.get(kinds.CLUSTERS, "m1"),
            agent.list(kinds.CLUSTERS),
            agent.patch(kinds.CLUSTERS, "m1", status, subresource="status"),
            agent.patch(kinds.CLUSTERS, "m2", {"spec": {"taints": None}}),
            agent.delete(kinds.CLUSTERS, "m2"),
            agent.list(kinds.WORKS, namespace="karmada-es-m1"),
            agent.list(kinds.WORKS),
            agent.create(kinds.WORKS, {"metadata": {"name": "w", "namespace": "karmada-es-m2"}, "spec": {}}),
            agent.patch(kinds.LEASES, "m1", lease, namespace=space),
            agent.list(kinds.LEASES, namespace=space),
            agent.list(kinds.SECRETS, namespace=space),
            agent.get(kinds.SECRETS, "m1", namespace=space),
            agent.list(kinds.BINDINGS),
            agent.list(kinds.POLICIES),
            agent.list(CONFIG_MAPS),
            agent.create(kinds.SERVICE_ACCOUNTS, {"spec": {}}, namespace=space, name="m1", subresource="token"),
        ]
        for attempt in attempts:
            with pytest.raises(errors.Forbidden):
                await attempt
    # the way into the push member is sealed at rest, and never printed
    secret = (await place.control.get(kinds.SECRETS, "m1", namespace=kinds.CLUSTER_NAMESPACE))["data"]["kubeconfig"]
    stored = b"".join(path.read_bytes() for path in place.federation.folder.glob("rota.db*") if path.is_file())
    shown = place.rota("federation", "clusters", "--json") + place.federation.output
    for credential in (secret, token):
        assert credential.encode() not in stored
        assert credential not in shown


async def test_exclusive_work_of_a_lost_push_member_stays_and_other_work_moves_and_returns(place: Place) -> None:
    namespace = await place.namespace("moving")
    await place.control.create(kinds.TAINT_POLICIES, lost_policy())
    for target, obj in (
        (STATEFUL_SETS, workload("StatefulSet", "db", namespace, 1)),
        (DEPLOYMENTS, workload("Deployment", "web", namespace, 2)),
        (kinds.POLICIES, policy("StatefulSet", namespace, first("m1", "m2"))),
        (kinds.POLICIES, policy("Deployment", namespace, first("m1", "m2"))),
    ):
        await place.control.create(target, obj)
    await until(place.members["m1"], DEPLOYMENTS, "web", is_ready(2), namespace=namespace)
    await until(place.members["m1"], STATEFUL_SETS, "db", is_ready(1), namespace=namespace)

    # a drill says all of it before
    told = json.loads(place.rota("federation", "drill", "--cluster", "m1", "--dry-run", "--json", code=3))
    fates = {one["resource"]: one for one in told["resources"]}
    assert fates[f"{namespace}/Deployment/web"]["to"] == {"m2": 2}
    assert "has no agent" in fates[f"{namespace}/StatefulSet/db"]["reason"]

    place.masters["m1"].kill()
    await until(place.members["m2"], DEPLOYMENTS, "web", is_ready(2), namespace=namespace)

    def refused(binding: Object | None) -> bool:
        condition = meta.condition(binding or {}, "Failover") or {}
        return condition.get("reason") == "NoFencingAgent" and "cluster m1" in condition["message"]

    await until(place.control, kinds.BINDINGS, "db-statefulset", refused, namespace=namespace)
    stays = await place.control.get(kinds.BINDINGS, "db-statefulset", namespace=namespace)
    assert [one["name"] for one in stays["spec"]["clusters"]] == ["m1"]
    with pytest.raises(errors.NotFound):
        await place.members["m2"].get(STATEFUL_SETS, "db", namespace=namespace)

    # a failback policy brings home what has left, once the member is well for long enough
    back = {
        "apiVersion": "federation.rota.dev/v1alpha1",
        "kind": "FailbackPolicy",
        "metadata": {"name": "home"},
        "spec": {"stabilizationSeconds": 2, "maxPerMinute": 60},
    }
    await place.control.create(kinds.FAILBACK_POLICIES, back)
    place.masters["m1"].start()
    await until(place.control, kinds.BINDINGS, "web-deployment", at("m1"), namespace=namespace)
    await until(place.members["m1"], DEPLOYMENTS, "web", is_ready(2), namespace=namespace)
    await until(place.members["m2"], DEPLOYMENTS, "web", lambda obj: obj is None, namespace=namespace)
    await until(
        place.control,
        kinds.BINDINGS,
        "db-statefulset",
        lambda obj: (meta.condition(obj or {}, "Failover") or {}).get("status") == "True",
        namespace=namespace,
    )
    await place.control.delete(kinds.FAILBACK_POLICIES, "home")
    await place.control.delete(kinds.TAINT_POLICIES, "lost")

    # a drill for real: both move, the exclusive one after it has stopped, and the time is measured
    told = json.loads(place.rota("federation", "drill", "--cluster", "m1", "--timeout", "90s", "--json"))
    assert {one["moves"] for one in told["resources"]} == {True}
    assert 0 < told["recoverySeconds"] < 90
    await until(place.members["m2"], STATEFUL_SETS, "db", is_ready(1), namespace=namespace)
    with pytest.raises(errors.NotFound):
        await place.members["m1"].get(STATEFUL_SETS, "db", namespace=namespace)

    # and a rebalancer moves them back by hand
    listed = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace},
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "missing", "namespace": namespace},
    ]
    rebalancer = {
        "apiVersion": "apps.karmada.io/v1alpha1",
        "kind": "WorkloadRebalancer",
        "metadata": {"name": "back"},
        "spec": {"workloads": listed, "ttlSecondsAfterFinished": 5},
    }
    await place.control.create(kinds.REBALANCERS, rebalancer)
    done = await until(
        place.control,
        kinds.REBALANCERS,
        "back",
        lambda obj: obj is not None and bool((obj.get("status") or {}).get("finishTime")),
    )
    assert done is not None
    assert [one["result"] for one in done["status"]["observedWorkloads"]] == ["Successful", "Failed"]
    await until(place.control, kinds.BINDINGS, "web-deployment", at("m1"), namespace=namespace)
    await until(place.control, kinds.REBALANCERS, "back", lambda obj: obj is None)


async def test_what_a_hostile_member_reports_hurts_only_itself(place: Place) -> None:
    namespace = await place.namespace("hostile")
    placement = {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
    await place.control.create(DEPLOYMENTS, workload("Deployment", "web", namespace, 1))
    await place.control.create(kinds.POLICIES, policy("Deployment", namespace, placement))
    await until(place.control, DEPLOYMENTS, "web", is_ready(2), namespace=namespace)
    place.agent.stop()
    try:
        async with client_of(place.agent.folder / "control-plane.kubeconfig") as agent:
            works = (await agent.list(kinds.WORKS, namespace="karmada-es-m2")).items
            (work,) = [
                one for one in works if meta.annotations(one)["resourcebinding.karmada.io/namespace"] == namespace
            ]
            reported = work["status"]["manifestStatuses"]
            for garbage in ({"readyReplicas": "many", "replicas": {}}, {"conditions": ["x" * 100_000]}):
                reported[0]["status"] = garbage
                await agent.patch(
                    kinds.WORKS,
                    meta.name(work),
                    {"status": {"manifestStatuses": reported}},
                    namespace="karmada-es-m2",
                    subresource="status",
                )

                def told(binding: Object | None) -> bool:
                    items = {one["clusterName"]: one for one in (binding or {})["status"].get("aggregatedStatus") or ()}
                    return (
                        "cannot be used" in items.get("m2", {}).get("appliedMessage", "")
                        and items["m1"].get("health") == "Healthy"
                    )

                await until(place.control, kinds.BINDINGS, "web-deployment", told, namespace=namespace)
                # the sum has what the other member reports
                await until(place.control, DEPLOYMENTS, "web", is_ready(1), namespace=namespace)
                await place.control.patch(
                    DEPLOYMENTS, "web", {"metadata": {"labels": {"round": str(len(garbage))}}}, namespace=namespace
                )
                await until(
                    place.members["m1"], DEPLOYMENTS, "web", has_label("round", str(len(garbage))), namespace=namespace
                )
    finally:
        place.agent.start()
    await until(place.control, DEPLOYMENTS, "web", is_ready(2), namespace=namespace)


async def test_a_member_with_slow_answers_or_a_wrong_certificate_delays_no_other(place: Place, tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    known = (place.masters["m1"].folder / "kubeconfig").read_text()
    address = next(line.split("server: ")[1].strip() for line in known.splitlines() if "server: " in line)
    slow, wrong = tmp_path / "slow", tmp_path / "wrong"
    slow.write_text(known.replace(address, f"https://127.0.0.1:{port}"))
    # m1's address with the certificate authority of m2
    theirs = (place.masters["m2"].folder / "kubeconfig").read_text()
    other = next(line.split("server: ")[1].strip() for line in theirs.splitlines() if "server: " in line)
    wrong.write_text(theirs.replace(other, address))
    try:
        for name, path in (("slow", slow), ("wrong", wrong)):
            place.rota("federation", "join", name, "--member", str(path))
        for name in ("slow", "wrong"):
            await until(
                place.control,
                kinds.CLUSTERS,
                name,
                lambda obj: (meta.condition(obj or {}, "Ready") or {}).get("reason") == "ClusterNotReachable",
            )
        namespace = await place.namespace("beside")
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "facts", "namespace": namespace},
            "data": {"a": "1"},
        }
        await place.control.create(CONFIG_MAPS, config)
        tolerant = {"clusterTolerations": [{"operator": "Exists"}]}
        await place.control.create(kinds.POLICIES, policy("ConfigMap", namespace, tolerant))
        for member in place.members.values():
            await until(member, CONFIG_MAPS, "facts", lambda obj: obj is not None, namespace=namespace, patience_s=90)
    finally:
        for name in ("slow", "wrong"):
            place.federation.rota("federation", "unjoin", name, "--timeout", "60s")
        server.close()


async def test_operators_cordon_taint_promote_and_see_the_use_of_members(place: Place) -> None:
    assert place.rota("federation", "cordon", "m1") == "cluster/m1 cordoned\n"
    assert place.rota("federation", "cordon", "m1") == "cluster/m1 already cordoned\n"
    cluster = await place.control.get(kinds.CLUSTERS, "m1")
    assert [one["key"] for one in cluster["spec"]["taints"]] == ["cluster.karmada.io/unschedulable"]
    assert place.rota("federation", "uncordon", "m1") == "cluster/m1 uncordoned\n"
    assert place.rota("federation", "taint", "m1", "a=b:NoSchedule") == "cluster/m1 tainted\n"
    assert place.rota("federation", "taint", "m1", "a:NoSchedule-") == "cluster/m1 untainted\n"
    assert not (await place.control.get(kinds.CLUSTERS, "m1"))["spec"].get("taints")
    place.rota("federation", "taint", "m1", "nonsense", code=2)
    used = {one["name"]: one for one in json.loads(place.rota("federation", "top", "--json"))}
    assert used["m1"]["cpu"]["allocatable"] > 0
    assert used["m2"]["pods"]["allocatable"] > 0

    # an object of a member becomes the federation's, and is not restarted for it
    namespace = await place.namespace("promoted")
    member = place.members["m1"]
    await member.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await member.create(DEPLOYMENTS, workload("Deployment", "old", namespace, 1))
    await until(member, DEPLOYMENTS, "old", is_ready(1), namespace=namespace)
    before = [meta.uid(pod) for pod in (await member.list(PODS, namespace=namespace)).items]
    made = place.rota("federation", "promote", "deployment", "old", "--cluster", "m1", "-n", namespace)
    assert made == "PropagationPolicy old-deployment created\nDeployment old created\n"
    await until(place.control, DEPLOYMENTS, "old", is_ready(1), namespace=namespace)
    found = await member.get(DEPLOYMENTS, "old", namespace=namespace)
    assert meta.labels(found)["karmada.io/managed"] == "true"
    assert [meta.uid(pod) for pod in (await member.list(PODS, namespace=namespace)).items] == before
    again = place.federation.rota("federation", "promote", "deployment", "old", "--cluster", "m1", "-n", namespace)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)


async def test_an_unhealthy_application_moves_and_is_removed_first(place: Place) -> None:
    namespace = await place.namespace("unhealthy")
    failover = {"application": {"decisionConditions": {"tolerationSeconds": 1}, "purgeMode": "Directly"}}
    broken = workload("Deployment", "web", namespace, 1)
    broken["spec"]["template"]["spec"]["containers"][0]["command"] = ["false"]
    await place.control.create(DEPLOYMENTS, broken)
    await place.control.create(
        kinds.POLICIES,
        policy("Deployment", namespace, first("m1", "m2"), failover=failover, propagateDeps=True),
    )

    def moved(binding: Object | None) -> bool:
        spec = (binding or {}).get("spec") or {}
        tasks = spec.get("gracefulEvictionTasks") or ()
        return [one["name"] for one in spec.get("clusters") or ()] == ["m2"] and [
            (one["fromCluster"], one["purgeMode"], one["reason"]) for one in tasks
        ] == [("m1", "Directly", "ApplicationFailure")]

    await until(place.control, kinds.BINDINGS, "web-deployment", moved, namespace=namespace)
    await until(place.members["m2"], DEPLOYMENTS, "web", lambda obj: obj is not None, namespace=namespace)
    assert await until(place.members["m1"], DEPLOYMENTS, "web", lambda obj: obj is None, namespace=namespace) is None
    await place.control.delete(DEPLOYMENTS, "web", namespace=namespace)


async def test_the_agent_of_a_pull_member_publishes_the_capacity_that_a_source_names(place: Place) -> None:
    metadata = {"name": "seats", "namespace": "default", "labels": {"licence": "cad"}}
    seats = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"total": "9", "free": "4"}}
    await place.members["m2"].create(CONFIG_MAPS, seats)
    selected = {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"licence": "cad"}}}
    source = {
        "apiVersion": "federation.rota.dev/v1alpha1",
        "kind": "CapacitySource",
        "metadata": {"name": "cad"},
        "spec": {"objects": selected, "totalPath": ".data.total", "freePath": ".data.free"},
    }
    await place.control.create(kinds.CAPACITY_SOURCES, source)
    resource = "capacity.federation.rota.dev/cad"

    def shows(total: str | None, used: str | None) -> Callable[[Object | None], bool]:
        def holds(cluster: Object | None) -> bool:
            summary = ((cluster or {}).get("status") or {}).get("resourceSummary") or {}
            parts = (summary.get(part) or {} for part in ("allocatable", "allocated"))
            return [part.get(resource) for part in parts] == [total, used]

        return holds

    await until(place.control, kinds.CLUSTERS, "m2", shows("9", "5"))
    await place.members["m2"].patch(CONFIG_MAPS, "seats", {"data": {"free": "1"}}, namespace="default")
    await until(place.control, kinds.CLUSTERS, "m2", shows("9", "8"))
    await place.control.delete(kinds.CAPACITY_SOURCES, "cad")
    await until(place.control, kinds.CLUSTERS, "m2", shows(None, None))
