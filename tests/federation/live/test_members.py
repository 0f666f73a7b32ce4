"""A federation with two real members: what goes where, what comes back, and what it leaves alone."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rota.api import errors, meta
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.testing.federations import FederationProcess, MemberProcess, client_of, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DEPLOYMENTS = ("apps", "v1", "deployments")
CONFIG_MAPS = ("", "v1", "configmaps")
CLUSTER_ROLES = ("rbac.authorization.k8s.io", "v1", "clusterroles")
NAMES = ("m1", "m2")


@dataclass
class Place:
    """A federation and its members, with a way into each."""

    federation: FederationProcess
    masters: dict[str, MemberProcess]
    control: Client
    members: dict[str, Client]

    async def submit(self, *objects: dict[str, Any]) -> None:
        plurals = {
            "Deployment": DEPLOYMENTS,
            "ConfigMap": CONFIG_MAPS,
            "ClusterRole": CLUSTER_ROLES,
            "Namespace": kinds.NAMESPACES,
            "PropagationPolicy": kinds.POLICIES,
            "ClusterPropagationPolicy": kinds.CLUSTER_POLICIES,
            "OverridePolicy": kinds.OVERRIDES,
        }
        for obj in objects:
            await self.control.create(plurals[obj["kind"]], obj)

    async def namespace(self, name: str) -> str:
        await self.submit({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name


@pytest.fixture(scope="module")
def processes(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[FederationProcess, dict[str, MemberProcess], Path]]:
    folder = tmp_path_factory.mktemp("federation")
    masters = {name: MemberProcess(folder / name) for name in NAMES}
    with FederationProcess(folder / "control") as federation, masters["m1"], masters["m2"]:
        for name, region in zip(NAMES, ("eu", "us"), strict=True):
            joined = federation.rota(
                *("federation", "join", name, "--member", str(folder / name / "kubeconfig")),
                *("--region", region, "--label", f"name={name}"),
            )
            assert joined.returncode == 0, joined.stderr
        yield federation, masters, folder


@pytest.fixture
async def place(processes: tuple[FederationProcess, dict[str, MemberProcess], Path]) -> AsyncIterator[Place]:
    federation, masters, folder = processes
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(federation.client())
        members = {name: await stack.enter_async_context(client_of(folder / name / "kubeconfig")) for name in NAMES}
        for name in [meta.name(cluster) for cluster in (await control.list(kinds.CLUSTERS)).items]:
            await until(control, kinds.CLUSTERS, name, is_schedulable)
        yield Place(federation, masters, control, members)


def is_schedulable(cluster: Object | None) -> bool:
    """Whether the cluster is ready again after a test before this one, and its taints are gone."""
    return is_ready(cluster) and not (cluster or {})["spec"].get("taints")


def is_ready(cluster: Object | None) -> bool:
    return cluster is not None and meta.is_condition_true(cluster, "Ready")


def deployment(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "registry.example/app:v1",
        "command": ["sleep", "1000"],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def policy(namespace: str, kind: str, *, name: str = "policy", divided: bool = False, **spec: Any) -> dict[str, Any]:
    placement: dict[str, Any] = spec.pop("placement", {})
    if divided:
        placement["replicaScheduling"] = {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
        }
    version = {"Deployment": "apps/v1", "ConfigMap": "v1"}[kind]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": version, "kind": kind, "namespace": namespace}],
            "placement": placement,
            **spec,
        },
    }


def replicas(count: int) -> Any:
    return lambda obj: obj is not None and obj["spec"].get("replicas") == count


def ready(count: int) -> Any:
    return lambda obj: obj is not None and (obj.get("status") or {}).get("readyReplicas", 0) == count


def absent(obj: Object | None) -> bool:
    return obj is None


async def test_replicas_are_divided_run_and_are_reported(place: Place) -> None:
    namespace = await place.namespace("divided")
    await place.submit(deployment("web", namespace, 4), policy(namespace, "Deployment", divided=True))
    for member in place.members.values():
        await until(member, DEPLOYMENTS, "web", ready(2), namespace=namespace)
    # the template's own status is the sum of its members'
    template = await until(place.control, DEPLOYMENTS, "web", ready(4), namespace=namespace)
    assert template is not None
    assert template["status"]["observedGeneration"] == template["metadata"]["generation"]
    binding = await place.control.get(kinds.BINDINGS, "web-deployment", namespace=namespace)
    assert meta.is_condition_true(binding, "Scheduled")
    assert [item["clusterName"] for item in binding["status"]["aggregatedStatus"]] == ["m1", "m2"]

    # a change of the template follows
    await place.control.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 6}}, namespace=namespace)
    for member in place.members.values():
        await until(member, DEPLOYMENTS, "web", replicas(3), namespace=namespace)

    # what somebody changes in a member is put back
    changed = await place.members["m1"].patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, namespace=namespace)
    generation = changed["metadata"]["generation"]

    def put_back(obj: Object | None) -> bool:
        return obj is not None and obj["spec"]["replicas"] == 3 and obj["metadata"]["generation"] > generation

    await until(place.members["m1"], DEPLOYMENTS, "web", put_back, namespace=namespace)

    # what is deleted goes everywhere
    await place.control.delete(DEPLOYMENTS, "web", namespace=namespace)
    for member in place.members.values():
        await until(member, DEPLOYMENTS, "web", absent, namespace=namespace)
    await until(place.control, kinds.BINDINGS, "web-deployment", absent, namespace=namespace)


async def test_a_cluster_gets_what_its_overrides_say(place: Place) -> None:
    namespace = await place.namespace("overridden")
    rules = [
        {
            "targetCluster": {
                "fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["us"]}]}
            },
            "overriders": {"plaintext": [{"path": "/data/where", "operator": "replace", "value": "there"}]},
        }
    ]
    override = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": "where", "namespace": namespace},
        "spec": {"overrideRules": rules},
    }
    await place.submit(override, config_map("facts", namespace, where="here"), policy(namespace, "ConfigMap"))
    for name, where in (("m1", "here"), ("m2", "there")):

        def holds(obj: Object | None, where: str = where) -> bool:
            return obj is not None and obj["data"]["where"] == where

        await until(place.members[name], CONFIG_MAPS, "facts", holds, namespace=namespace)


async def test_what_the_federation_did_not_make_is_left_alone(place: Place) -> None:
    namespace = await place.namespace("theirs")
    member = place.members["m1"]
    await member.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await member.create(CONFIG_MAPS, config_map("facts", namespace, owner="somebody else"))
    await place.submit(config_map("facts", namespace, owner="federation"), policy(namespace, "ConfigMap"))

    def refused(binding: Object | None) -> bool:
        items = ((binding or {}).get("status") or {}).get("aggregatedStatus") or ()
        told = {item["clusterName"]: item.get("appliedMessage", "") for item in items}
        return "is not managed by this federation" in told.get("m1", "") and told.get("m2") == ""

    await until(place.control, kinds.BINDINGS, "facts-configmap", refused, namespace=namespace)
    assert (await member.get(CONFIG_MAPS, "facts", namespace=namespace))["data"] == {"owner": "somebody else"}

    # not even when the template goes
    await place.control.delete(CONFIG_MAPS, "facts", namespace=namespace)
    await until(place.members["m2"], CONFIG_MAPS, "facts", absent, namespace=namespace)
    await until(place.control, kinds.BINDINGS, "facts-configmap", absent, namespace=namespace)
    assert (await member.get(CONFIG_MAPS, "facts", namespace=namespace))["data"] == {"owner": "somebody else"}


async def test_a_policy_may_take_over_what_is_there(place: Place) -> None:
    namespace = await place.namespace("taken")
    member = place.members["m1"]
    await member.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await member.create(CONFIG_MAPS, config_map("facts", namespace, owner="somebody else"))
    await place.submit(
        config_map("facts", namespace, owner="federation"),
        policy(namespace, "ConfigMap", conflictResolution="Overwrite"),
    )
    await until(
        member,
        CONFIG_MAPS,
        "facts",
        lambda obj: obj is not None and obj["data"]["owner"] == "federation",
        namespace=namespace,
    )


async def test_cluster_wide_resources_go_by_cluster_wide_policies(place: Place) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "seen"},
        "rules": [],
    }
    await place.submit(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "ClusterPropagationPolicy",
            "metadata": {"name": "roles"},
            "spec": {
                "resourceSelectors": [
                    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "seen"}
                ],
                "placement": {"clusterAffinity": {"clusterNames": ["m2"]}},
            },
        },
        role,
    )
    await until(place.members["m2"], CLUSTER_ROLES, "seen", lambda obj: obj is not None)
    with pytest.raises(errors.NotFound):
        await place.members["m1"].get(CLUSTER_ROLES, "seen")


async def test_suspended_dispatching_waits(place: Place) -> None:
    namespace = await place.namespace("suspended")
    suspended = policy(namespace, "ConfigMap", suspension={"dispatchingOnClusters": {"clusterNames": ["m1"]}})
    await place.submit(config_map("facts", namespace, a="1"), suspended)
    await until(place.members["m2"], CONFIG_MAPS, "facts", lambda obj: obj is not None, namespace=namespace)
    with pytest.raises(errors.NotFound):
        await place.members["m1"].get(CONFIG_MAPS, "facts", namespace=namespace)
    await place.control.patch(kinds.POLICIES, "policy", {"spec": {"suspension": None}}, namespace=namespace)
    await until(place.members["m1"], CONFIG_MAPS, "facts", lambda obj: obj is not None, namespace=namespace)


async def test_a_control_plane_that_was_killed_goes_on(place: Place) -> None:
    namespace = await place.namespace("killed")
    await place.submit(deployment("web", namespace, 2), policy(namespace, "Deployment", divided=True))
    for member in place.members.values():
        await until(member, DEPLOYMENTS, "web", replicas(1), namespace=namespace)
    place.federation.kill()
    # while it is away, somebody deletes what it made
    await place.members["m1"].delete(DEPLOYMENTS, "web", namespace=namespace)
    place.federation.start()
    await until(place.members["m1"], DEPLOYMENTS, "web", replicas(1), namespace=namespace)


async def test_a_member_that_is_away_is_not_ready_and_comes_back(place: Place) -> None:
    place.masters["m2"].kill()
    dark = await until(place.control, kinds.CLUSTERS, "m2", lambda cluster: not is_ready(cluster))
    assert dark is not None
    assert (meta.condition(dark, "Ready") or {})["reason"] == "ClusterNotReachable"

    def tainted(cluster: Object | None) -> bool:
        taints = ((cluster or {}).get("spec") or {}).get("taints") or ()
        return [taint["key"] for taint in taints] == ["cluster.karmada.io/not-ready"]

    await until(place.control, kinds.CLUSTERS, "m2", tainted)
    namespace = await place.namespace("dark")
    await place.submit(config_map("facts", namespace, a="1"), policy(namespace, "ConfigMap"))
    # new resources go where there is no taint
    await until(place.members["m1"], CONFIG_MAPS, "facts", lambda obj: obj is not None, namespace=namespace)
    binding = await place.control.get(kinds.BINDINGS, "facts-configmap", namespace=namespace)
    assert [target["name"] for target in binding["spec"]["clusters"]] == ["m1"]
    place.masters["m2"].start()


async def test_replicas_of_a_lost_member_come_up_elsewhere(place: Place) -> None:
    namespace = await place.namespace("lost-member")
    # not ready means that what is there has to go; well again takes that back
    taints = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": "lost"},
        "spec": {
            "addOnConditions": [{"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}],
            "removeOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
            "taints": [{"key": "lost", "effect": "NoExecute"}],
        },
    }
    await place.control.create(kinds.TAINT_POLICIES, taints)
    movable = policy(namespace, "Deployment", divided=True)
    fixed = policy(namespace, "ConfigMap", name="fixed", placement={"clusterAffinity": {"clusterNames": ["m2"]}})
    await place.submit(deployment("web", namespace, 4), movable, config_map("facts", namespace, a="1"), fixed)
    for member in place.members.values():
        await until(member, DEPLOYMENTS, "web", replicas(2), namespace=namespace)
    await until(place.members["m2"], CONFIG_MAPS, "facts", lambda obj: obj is not None, namespace=namespace)

    place.masters["m2"].kill()
    await until(place.members["m1"], DEPLOYMENTS, "web", replicas(4), namespace=namespace)

    def settled(binding: Object | None) -> bool:
        spec = (binding or {}).get("spec") or {}
        targets = [(target["name"], target.get("replicas")) for target in spec.get("clusters") or ()]
        return targets == [("m1", 4)] and not spec.get("gracefulEvictionTasks")

    # the eviction is over when the successor is healthy
    await until(place.control, kinds.BINDINGS, "web-deployment", settled, namespace=namespace)
    # what no other cluster can take stays where it is
    stays = await place.control.get(kinds.BINDINGS, "facts-configmap", namespace=namespace)
    assert [target["name"] for target in stays["spec"]["clusters"]] == ["m2"]
    assert not stays["spec"].get("gracefulEvictionTasks")

    # the member comes back without its taint, and what has moved away is removed there
    place.masters["m2"].start()
    await until(
        place.control, kinds.CLUSTERS, "m2", lambda obj: is_ready(obj) and not (obj or {})["spec"].get("taints")
    )
    await until(place.members["m2"], DEPLOYMENTS, "web", absent, namespace=namespace)
    assert await place.members["m2"].get(CONFIG_MAPS, "facts", namespace=namespace)
    await place.control.delete(kinds.TAINT_POLICIES, "lost")


async def test_an_unknown_or_doubled_cluster_is_refused_in_one_line(place: Place, tmp_path: Path) -> None:
    doubled = place.federation.rota("federation", "join", "m1", "--member", str(place.federation.folder / "kubeconfig"))
    assert (doubled.returncode, doubled.stderr.count("\n")) == (2, 1)
    assert "there is a cluster m1 already" in doubled.stderr
    unknown = place.federation.rota("federation", "unjoin", "m9")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (2, 1)
    assert "there is no cluster m9" in unknown.stderr


async def test_a_member_that_leaves_gives_its_replicas_to_the_others(place: Place) -> None:
    namespace = await place.namespace("leaving")
    await place.submit(deployment("web", namespace, 4), policy(namespace, "Deployment", divided=True))
    for member in place.members.values():
        await until(member, DEPLOYMENTS, "web", replicas(2), namespace=namespace)
    left = place.federation.rota("federation", "unjoin", "m2", "--timeout", "90s")
    assert left.returncode == 0, left.stderr
    await until(place.members["m1"], DEPLOYMENTS, "web", replicas(4), namespace=namespace)
    await until(place.members["m2"], DEPLOYMENTS, "web", absent, namespace=namespace)
    listed = place.federation.rota("federation", "clusters", "--json")
    assert '"m1"' in listed.stdout
    assert '"m2"' not in listed.stdout
    # nothing is kept of the way into it
    with pytest.raises(errors.NotFound):
        await place.control.get(kinds.SECRETS, "m2", namespace=kinds.CLUSTER_NAMESPACE)


async def test_a_member_that_never_answers_again_can_be_let_go(place: Place) -> None:
    namespace = await place.namespace("lost")
    only = policy(namespace, "ConfigMap", placement={"clusterAffinity": {"clusterNames": ["m1"]}})
    await place.submit(config_map("facts", namespace, a="1"), only)
    await until(place.members["m1"], CONFIG_MAPS, "facts", lambda obj: obj is not None, namespace=namespace)
    place.masters["m1"].kill()
    left = place.federation.rota("federation", "unjoin", "m1", "--timeout", "90s")
    assert left.returncode == 0, left.stderr

    def nowhere(binding: Object | None) -> bool:
        return binding is not None and (meta.condition(binding, "Scheduled") or {}).get("reason") == "NoClusterFit"

    await until(place.control, kinds.BINDINGS, "facts-configmap", nowhere, namespace=namespace)
