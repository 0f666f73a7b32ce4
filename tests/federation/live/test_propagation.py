"""What follows a resource into its clusters, what holds it back, and what changes its size."""

import asyncio
from typing import Any

import pytest
from tests.federation.live import live_place as live

from rota.api import errors, meta
from rota.client.verbs import Object, Propagation
from rota.federation import kinds, queues
from rota.testing.federations import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SECRETS = ("", "v1", "secrets")
QUOTAS = ("", "v1", "resourcequotas")
DEPLOYMENT = ("apps/v1", "Deployment")
CONFIG_MAP = ("v1", "ConfigMap")
JOBS = ("batch", "v1", "jobs")
SLICES = ("discovery.k8s.io", "v1", "endpointslices")
#: The status of a queue for 20 thousandths of a core while one job has them.
FULL = {"waiting": 1, "admitted": 1, "used": {"cpu": "20m"}}


def secret(name: str, namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}


def says(words: str) -> Any:
    """Whether a condition of a binding has this message."""

    def holds(binding: Object | None) -> bool:
        conditions = ((binding or {}).get("status") or {}).get("conditions") or ()
        return any(one["message"] == words for one in conditions)

    return holds


def has(reason: str, kind: str = "Scheduled") -> Any:
    """Whether a binding has a condition with this reason."""

    def holds(binding: Object | None) -> bool:
        conditions = ((binding or {}).get("status") or {}).get("conditions") or ()
        return any(one["type"] == kind and one["reason"] == reason for one in conditions)

    return holds


async def test_dependencies_follow_move_and_disappear_with_their_owner(fed: live.Place) -> None:
    namespace = await fed.namespace("dependencies")
    uses = {"container": {"envFrom": [{"configMapRef": {"name": "facts"}}, {"secretRef": {"name": "keys"}}]}}
    await fed.submit(
        live.config_map("facts", namespace, a="1"),
        secret("keys", namespace),
        live.deployment("web", namespace, 2, **uses),
        live.policy(namespace, *DEPLOYMENT, placement=live.only("m1"), propagateDeps=True),
    )
    await until(fed.members["m1"], live.CONFIG_MAPS, "facts", live.there, namespace=namespace)
    await until(fed.members["m1"], SECRETS, "keys", live.there, namespace=namespace)
    with pytest.raises(errors.NotFound):
        await fed.members["m2"].get(live.CONFIG_MAPS, "facts", namespace=namespace)

    # a change of the dependency follows, and so does a move of the owner
    await fed.control.patch(live.CONFIG_MAPS, "facts", {"data": {"a": "2"}}, namespace=namespace)
    await until(
        fed.members["m1"],
        live.CONFIG_MAPS,
        "facts",
        lambda obj: obj is not None and obj["data"] == {"a": "2"},
        namespace=namespace,
    )
    await fed.control.patch(kinds.POLICIES, "policy", {"spec": {"placement": live.only("m2")}}, namespace=namespace)
    await until(fed.members["m2"], live.CONFIG_MAPS, "facts", live.there, namespace=namespace)
    await until(fed.members["m1"], live.CONFIG_MAPS, "facts", live.absent, namespace=namespace)

    # what is needed no longer goes, and without the owner everything does
    containers = [{"name": "main", "envFrom": None}]
    await fed.control.patch(
        live.DEPLOYMENTS,
        "web",
        {"spec": {"template": {"spec": {"containers": [{**containers[0], "image": "registry.example/app:v2"}]}}}},
        namespace=namespace,
    )
    await until(fed.members["m2"], SECRETS, "keys", live.absent, namespace=namespace)
    await fed.control.delete(live.DEPLOYMENTS, "web", namespace=namespace)
    await until(fed.members["m2"], live.DEPLOYMENTS, "web", live.absent, namespace=namespace)
    await until(fed.control, kinds.BINDINGS, "facts-configmap", live.absent, namespace=namespace)
    assert (await fed.control.get(live.CONFIG_MAPS, "facts", namespace=namespace))["data"] == {"a": "2"}


async def test_a_dependency_that_comes_later_follows_and_one_with_a_policy_keeps_its_clusters(fed: live.Place) -> None:
    namespace = await fed.namespace("late-dependencies")
    uses = {"container": {"envFrom": [{"configMapRef": {"name": "late"}}, {"configMapRef": {"name": "own"}}]}}
    await fed.submit(
        live.config_map("own", namespace),
        live.policy(namespace, *CONFIG_MAP, name="own", selected="own", placement=live.only("m3")),
        live.deployment("web", namespace, 1, **uses),
        live.policy(namespace, *DEPLOYMENT, placement=live.only("m1"), propagateDeps=True),
    )
    for name in ("m1", "m3"):
        await until(fed.members[name], live.CONFIG_MAPS, "own", live.there, namespace=namespace)
    await fed.submit(live.config_map("late", namespace))
    await until(fed.members["m1"], live.CONFIG_MAPS, "late", live.there, namespace=namespace)
    await fed.control.delete(live.DEPLOYMENTS, "web", namespace=namespace)
    await until(fed.members["m1"], live.CONFIG_MAPS, "own", live.absent, namespace=namespace)
    assert await fed.members["m3"].get(live.CONFIG_MAPS, "own", namespace=namespace)


async def test_preserved_resources_stay_when_their_template_goes(fed: live.Place) -> None:
    namespace = await fed.namespace("preserved")
    await fed.submit(
        live.config_map("facts", namespace),
        live.policy(namespace, *CONFIG_MAP, placement=live.only("m1"), preserveResourcesOnDeletion=True),
    )
    await until(fed.members["m1"], live.CONFIG_MAPS, "facts", live.there, namespace=namespace)
    await fed.control.delete(live.CONFIG_MAPS, "facts", namespace=namespace)
    await until(fed.control, kinds.BINDINGS, "facts-configmap", live.absent, namespace=namespace)
    assert await fed.members["m1"].get(live.CONFIG_MAPS, "facts", namespace=namespace)


async def test_protected_resources_are_not_deleted_until_the_label_is_gone(fed: live.Place) -> None:
    namespace = await fed.namespace("protected")
    label = "resourcetemplate.karmada.io/deletion-protected"
    protected = live.config_map("facts", namespace)
    protected["metadata"]["labels"] = {label: "Always"}
    await fed.submit(protected, live.policy(namespace, *CONFIG_MAP, placement=live.only("m1")))
    await until(fed.members["m1"], live.CONFIG_MAPS, "facts", live.there, namespace=namespace)
    with pytest.raises(errors.Forbidden, match="remove the label first"):
        await fed.control.delete(live.CONFIG_MAPS, "facts", namespace=namespace)
    # in a member the federation may take it away
    await fed.control.patch(kinds.POLICIES, "policy", {"spec": {"placement": live.only("m2")}}, namespace=namespace)
    await until(fed.members["m1"], live.CONFIG_MAPS, "facts", live.absent, namespace=namespace)
    await fed.control.patch(live.CONFIG_MAPS, "facts", {"metadata": {"labels": {label: None}}}, namespace=namespace)
    await fed.control.delete(live.CONFIG_MAPS, "facts", namespace=namespace)
    await until(fed.members["m2"], live.CONFIG_MAPS, "facts", live.absent, namespace=namespace)


async def test_a_lazy_policy_acts_when_the_template_is_touched(fed: live.Place) -> None:
    namespace = await fed.namespace("lazy")
    await fed.submit(
        live.policy(namespace, *CONFIG_MAP, placement=live.only("m1"), activationPreference="Lazy"),
        live.config_map("facts", namespace, a="1"),
    )
    await until(fed.members["m1"], live.CONFIG_MAPS, "facts", live.there, namespace=namespace)
    await fed.control.patch(kinds.POLICIES, "policy", {"spec": {"placement": live.only("m2")}}, namespace=namespace)
    # another template of the policy is propagated by its new placement, which proves that the change was seen
    await fed.submit(live.config_map("other", namespace))
    await until(fed.members["m2"], live.CONFIG_MAPS, "other", live.there, namespace=namespace)
    binding = await fed.control.get(kinds.BINDINGS, "facts-configmap", namespace=namespace)
    assert live.targets({"m1": None})(binding)
    await fed.control.patch(live.CONFIG_MAPS, "facts", {"data": {"a": "2"}}, namespace=namespace)
    await until(fed.members["m2"], live.CONFIG_MAPS, "facts", live.there, namespace=namespace)
    await until(fed.members["m1"], live.CONFIG_MAPS, "facts", live.absent, namespace=namespace)


async def test_policies_that_contradict_themselves_are_refused(fed: live.Place) -> None:
    wrong = live.policy(
        "default",
        *CONFIG_MAP,
        placement={**live.only("m1"), "clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"]}]},
    )
    with pytest.raises(errors.Invalid, match="clusterAffinities"):
        await fed.submit(wrong)


async def test_a_federated_quota_blocks_what_exceeds_it_and_counts_exactly(fed: live.Place) -> None:
    namespace = await fed.namespace("quota")
    await fed.submit(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "FederatedResourceQuota",
            "metadata": {"name": "team", "namespace": namespace},
            "spec": {
                "overall": {"cpu": "40m"},
                "staticAssignments": [{"clusterName": "m1", "hard": {"cpu": "1"}}],
            },
        },
        live.deployment("web", namespace, 3),
        live.policy(namespace, *DEPLOYMENT, divided=True, placement=live.only("m1", "m2")),
    )

    def uses(amount: str) -> Any:
        return lambda quota: ((quota or {}).get("status") or {}).get("overallUsed") == {"cpu": amount}

    await until(fed.control, kinds.QUOTAS, "team", uses("30m"), namespace=namespace)
    await until(fed.members["m1"], QUOTAS, "team", live.there, namespace=namespace)
    # more than the quota is not placed, and what is there stays
    await fed.control.patch(live.DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, namespace=namespace)
    refused = await fed.binding("web-deployment", namespace, has("QuotaExceeded"))
    assert sum(one["replicas"] for one in refused["spec"]["clusters"]) == 3
    await fed.submit(live.deployment("other", namespace, 2))
    await fed.binding("other-deployment", namespace, has("QuotaExceeded"))
    # a larger quota lets both in
    await fed.control.patch(kinds.QUOTAS, "team", {"spec": {"overall": {"cpu": "70m"}}}, namespace=namespace)
    await until(fed.control, kinds.QUOTAS, "team", uses("70m"), namespace=namespace)
    await fed.control.delete(live.DEPLOYMENTS, "other", namespace=namespace)
    await until(fed.control, kinds.QUOTAS, "team", uses("50m"), namespace=namespace)
    await fed.control.delete(kinds.QUOTAS, "team", namespace=namespace)
    await until(fed.members["m1"], QUOTAS, "team", live.absent, namespace=namespace)


async def test_a_priority_class_decides_the_priority_and_without_it_nothing_is_scheduled(fed: live.Place) -> None:
    namespace = await fed.namespace("priority")
    wanted = {"priorityClassSource": "KubePriorityClass", "priorityClassName": "urgent"}
    await fed.submit(
        live.config_map("facts", namespace),
        live.policy(namespace, *CONFIG_MAP, placement=live.only("m1"), schedulePriority=wanted),
    )
    await fed.submit(live.deployment("web", namespace, 1), live.policy(namespace, *DEPLOYMENT, name="other"))
    await fed.binding("web-deployment", namespace, live.there)
    with pytest.raises(errors.NotFound):
        await fed.control.get(kinds.BINDINGS, "facts-configmap", namespace=namespace)
    await fed.submit(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        }
    )
    binding = await fed.binding("facts-configmap", namespace, live.there)
    assert binding["spec"]["schedulePriority"] == {"priority": 1000}


def job(name: str, namespace: str, *command: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.example/app:v1",
        "command": list(command),
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {queues.QUEUE: "nightly"}},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
        },
    }


async def test_a_queue_admits_gangs_one_after_the_other_and_each_into_one_cluster(fed: live.Place) -> None:
    namespace = await fed.namespace("queued")
    whole = {
        "clusterAffinity": {"clusterNames": ["m1", "m2"]},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    }
    await fed.submit(live.policy(namespace, "batch/v1", "Job", placement=whole), job("first", namespace, "true"))
    waiting = await fed.binding("first-job", namespace, has("WaitsInQueue"))
    assert "create the FederatedQueue nightly" in str(waiting["status"]["conditions"])
    assert not waiting["spec"].get("clusters")
    capacity = {"capacity": {"cpu": "20m"}}
    await fed.submit(
        {
            "apiVersion": "federation.rota.dev/v1alpha1",
            "kind": "FederatedQueue",
            "metadata": {"name": "nightly"},
            "spec": {**capacity, "suspended": True},
        }
    )
    await fed.binding("first-job", namespace, says("queue nightly is suspended"))
    await fed.control.patch(kinds.QUEUES, "nightly", {"spec": {"suspended": False}})
    # the first one ends, which makes room for the second; the third waits until the second is gone
    await fed.binding("first-job", namespace, lambda one: one is not None and queues.is_finished(one))
    await fed.submit(job("second", namespace, "sleep", "1000"))
    running = await fed.binding("second-job", namespace, has("Success"))
    assert [one["replicas"] for one in running["spec"]["clusters"]] == [2], "a gang is in one cluster"
    await fed.submit(job("third", namespace, "sleep", "1000"))
    await fed.binding("third-job", namespace, says("waits until queue nightly has enough cpu"))
    await until(fed.control, kinds.QUEUES, "nightly", lambda one: (one or {}).get("status") == FULL)
    await fed.control.delete(JOBS, "second", namespace=namespace, propagation=Propagation.BACKGROUND)
    await fed.binding("third-job", namespace, has("Success"))
    # without its label a workload waits for nothing
    await fed.submit(job("fourth", namespace, "sleep", "1000"))
    await fed.binding("fourth-job", namespace, says("waits until queue nightly has enough cpu"))
    await fed.control.patch(JOBS, "fourth", {"metadata": {"labels": {queues.QUEUE: None}}}, namespace=namespace)
    await fed.binding("fourth-job", namespace, has("Success"))
    for name in ("first", "third", "fourth"):
        await fed.control.delete(JOBS, name, namespace=namespace, propagation=Propagation.BACKGROUND)
    await fed.control.delete(kinds.QUEUES, "nightly")


async def test_members_autoscalers_keep_their_replicas_and_the_template_follows_their_sum(fed: live.Place) -> None:
    namespace = await fed.namespace("synced")
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 2,
            # every process uses more than that, so each member scales to its most
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1k"}},
                }
            ],
        },
    }
    await fed.submit(
        live.deployment("web", namespace, 2),
        live.policy(namespace, *DEPLOYMENT, divided=True, placement=live.only("m1", "m2")),
        live.policy(namespace, "autoscaling/v2", "HorizontalPodAutoscaler", name="b", placement=live.only("m1", "m2")),
        autoscaler,
    )
    for name in ("m1", "m2"):
        await until(fed.members[name], live.DEPLOYMENTS, "web", live.replicas(2), namespace=namespace)
    await until(fed.control, live.DEPLOYMENTS, "web", live.replicas(4), namespace=namespace)
    await fed.binding("web-deployment", namespace, live.targets({"m1": 2, "m2": 2}))


async def test_a_federated_autoscaler_scales_the_template_by_pods_of_all_clusters(fed: live.Place) -> None:
    namespace = await fed.namespace("autoscaled")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1k"}}
    await fed.submit(
        live.deployment("web", namespace, 2),
        live.policy(namespace, *DEPLOYMENT, divided=True, placement=live.only("m1", "m2")),
    )
    for name in ("m1", "m2"):
        await until(
            fed.members[name],
            live.DEPLOYMENTS,
            "web",
            lambda obj: obj is not None and (obj.get("status") or {}).get("readyReplicas") == 1,
            namespace=namespace,
        )
    await fed.submit(
        {
            "apiVersion": "autoscaling.karmada.io/v1alpha1",
            "kind": "FederatedHPA",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "scaleTargetRef": target,
                "minReplicas": 1,
                "maxReplicas": 4,
                "metrics": [{"type": "Resource", "resource": metric}],
            },
        }
    )
    await until(fed.control, live.DEPLOYMENTS, "web", live.replicas(4), namespace=namespace)
    for name in ("m1", "m2"):
        await until(fed.members[name], live.DEPLOYMENTS, "web", live.replicas(2), namespace=namespace)
    scaled = await fed.control.get(kinds.FEDERATED_HPAS, "web", namespace=namespace)
    assert scaled["status"]["desiredReplicas"] == 4
    # the clock moves the bounds
    await fed.submit(
        {
            "apiVersion": "autoscaling.karmada.io/v1alpha1",
            "kind": "CronFederatedHPA",
            "metadata": {"name": "night", "namespace": namespace},
            "spec": {
                "scaleTargetRef": {
                    "apiVersion": "autoscaling.karmada.io/v1alpha1",
                    "kind": "FederatedHPA",
                    "name": "web",
                },
                "rules": [{"name": "down", "schedule": "@every 1s", "targetMinReplicas": 1, "targetMaxReplicas": 2}],
            },
        }
    )
    await until(fed.control, live.DEPLOYMENTS, "web", live.replicas(2), namespace=namespace)
    cron = await until(
        fed.control,
        kinds.CRON_HPAS,
        "night",
        lambda obj: bool(((obj or {}).get("status") or {}).get("executionHistories")),
        namespace=namespace,
    )
    assert cron is not None
    history = cron["status"]["executionHistories"][0]
    assert history["ruleName"] == "down"
    assert history["successfulExecutions"][0]["appliedMaxReplicas"] == 2
    assert 1 <= len(history["successfulExecutions"]) <= 3
    await fed.control.delete(kinds.CRON_HPAS, "night", namespace=namespace)


async def test_namespaces_go_where_they_are_needed_or_where_a_policy_says(fed: live.Place) -> None:
    namespace = await fed.namespace("needed")
    await fed.submit(
        live.config_map("facts", namespace), live.policy(namespace, *CONFIG_MAP, placement=live.only("m1"))
    )
    await until(fed.members["m1"], live.CONFIG_MAPS, "facts", live.there, namespace=namespace)
    await until(fed.members["m1"], kinds.NAMESPACES, namespace, live.there)
    with pytest.raises(errors.NotFound):
        await fed.members["m2"].get(kinds.NAMESPACES, namespace)
    # a policy for the namespace takes over what was created for the object, with its labels
    await fed.control.patch(kinds.NAMESPACES, namespace, {"metadata": {"labels": {"team": "a"}}})
    await fed.submit(
        live.policy("", "v1", "Namespace", name="needed", selected=namespace, placement=live.only("m1", "m3"))
    )
    for name in ("m1", "m3"):
        await until(
            fed.members[name],
            kinds.NAMESPACES,
            namespace,
            lambda obj: obj is not None and obj["metadata"]["labels"].get("team") == "a",
        )
    with pytest.raises(errors.NotFound):
        await fed.members["m2"].get(kinds.NAMESPACES, namespace)
    assert await fed.members["m1"].get(live.CONFIG_MAPS, "facts", namespace=namespace)


async def test_suspended_dispatching_resumes_with_an_empty_suspension(fed: live.Place) -> None:
    namespace = await fed.namespace("suspended-all")
    await fed.submit(
        live.config_map("facts", namespace),
        live.policy(namespace, *CONFIG_MAP, placement=live.only("m1", "m2"), suspension={"dispatching": True}),
    )

    def held(work: Object | None) -> bool:
        conditions = ((work or {}).get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Dispatching" and one["status"] == "False" for one in conditions)

    await fed.binding("facts-configmap", namespace, has("Success"))
    works: list[Object] = []
    async with asyncio.timeout(60):
        while len(works) < 2:
            works = [
                work
                for work in (await fed.control.list(kinds.WORKS)).items
                if work["metadata"]["annotations"].get("resourcebinding.karmada.io/namespace") == namespace
            ]
            await asyncio.sleep(0.05)
    for work in works:
        await until(fed.control, kinds.WORKS, work["metadata"]["name"], held, namespace=work["metadata"]["namespace"])
    with pytest.raises(errors.NotFound):
        await fed.members["m1"].get(live.CONFIG_MAPS, "facts", namespace=namespace)
    await fed.control.patch(kinds.POLICIES, "policy", {"spec": {"suspension": None}}, namespace=namespace)
    for name in ("m1", "m2"):
        await until(fed.members[name], live.CONFIG_MAPS, "facts", live.there, namespace=namespace)


async def test_backends_of_a_service_in_one_cluster_are_reachable_in_another(fed: live.Place) -> None:
    namespace = await fed.namespace("exposed")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }
    exposed = {
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "types": ["CrossCluster"],
            "providerClusters": [{"name": "m1"}],
            "consumerClusters": [{"name": "m2"}],
        },
    }
    await fed.submit(
        live.deployment("web", namespace, 1),
        live.policy(namespace, *DEPLOYMENT, placement=live.only("m1")),
        service,
        exposed,
    )
    # the slice that the endpoints controller of m1 made, with the address of the pod there
    own: dict[str, Object] = {}

    def has_backend(obj: Object | None) -> bool:
        return obj is not None and any(one.get("addresses") for one in obj.get("endpoints") or ())

    async with asyncio.timeout(240):
        while not own:
            listed = await fed.members["m1"].list(SLICES, namespace=namespace)
            own = {one["metadata"]["name"]: one for one in listed.items if has_backend(one)}
            await asyncio.sleep(0.2)
    ((name, original),) = own.items()
    copy = await until(fed.members["m2"], SLICES, f"m1.{name}", has_backend, namespace=namespace)
    assert copy is not None
    assert copy["endpoints"][0]["addresses"] == original["endpoints"][0]["addresses"]
    assert copy["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert await fed.members["m2"].get(kinds.SERVICES, "web", namespace=namespace)
    await until(
        fed.control,
        kinds.MULTI_CLUSTER_SERVICES,
        "web",
        lambda obj: obj is not None and meta.is_condition_true(obj, "EndpointSliceDispatched"),
        namespace=namespace,
    )
    await fed.control.delete(kinds.MULTI_CLUSTER_SERVICES, "web", namespace=namespace)
    await until(fed.members["m2"], SLICES, f"m1.{name}", live.absent, namespace=namespace)
