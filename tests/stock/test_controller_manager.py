"""The stock kube-controller-manager on our API server: its controllers do their work with simulated nodes.

Rota's own scheduler places the pods, so that they go from a workload's template to Running and away again.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.stock.clusters import NAMESPACES, NODES, PODS, Cluster, cluster

from rota.api import errors, scheme
from rota.api.kinds import ResourceType
from rota.client import pods as pod_actions
from rota.client.verbs import Propagation
from rota.testing import manifests
from rota.testing.nodes import FAILS
from rota.testing.servers.kubernetes import ControllerManager
from rota.testing.servers.rota import RotaServer

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(180)]

DEPLOYMENTS = ("apps", "v1", "deployments")
REPLICA_SETS = ("apps", "v1", "replicasets")
STATEFUL_SETS = ("apps", "v1", "statefulsets")
DAEMON_SETS = ("apps", "v1", "daemonsets")
JOBS = ("batch", "v1", "jobs")
CRON_JOBS = ("batch", "v1", "cronjobs")
BUDGETS = ("policy", "v1", "poddisruptionbudgets")
CONFIG_MAPS = ("", "v1", "configmaps")
ACCOUNTS = ("", "v1", "serviceaccounts")
CONTROLLERS = (
    "deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,job-controller,"
    "cronjob-controller,disruption-controller,namespace-controller,garbage-collector-controller,"
    "taint-eviction-controller,node-lifecycle-controller,serviceaccount-controller,root-ca-certificate-publisher-controller"
)
#: Ours without those that make pods for an owner.
OURS = "*,-cron-jobs,-daemon-sets,-deployments,-jobs,-replica-sets,-stateful-sets,-ttl-after-finished"


@pytest.fixture(scope="module")
def server() -> Iterator[RotaServer]:
    """A server whose own garbage and namespace controllers run beside the stock ones: two of a kind do no harm.

    Two that make pods for one owner would make twice as many, so of those only the stock ones run.
    """
    with RotaServer("--controllers", OURS) as rota:
        yield rota


@pytest.fixture(scope="module", autouse=True)
def components(server: RotaServer) -> Iterator[None]:
    flags = {
        "controllers": CONTROLLERS,
        "use_service_account_credentials": "true",
        "node_monitor_period": "1s",
        "node_monitor_grace_period": "6s",
        "node_startup_grace_period": "6s",
    }
    with ControllerManager(server.kubeconfig("system:kube-controller-manager"), **flags):
        yield


def nodes(count: int) -> list[manifests.Document]:
    return [manifests.node(f"node-{number}") for number in range(count)]


def template(app: str, **spec: Any) -> manifests.Document:
    containers = [{"name": "main", "image": "app:1"}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers, **spec}}


def resource(target: tuple[str, str, str]) -> ResourceType:
    """A built-in kind."""
    found = scheme.builtin().by_resource(*target)
    assert found is not None
    return found


async def reaches(it: Cluster, target: Any, name: str, **status: Any) -> None:
    """Return once an object's status says all this."""

    async def says() -> bool:
        found = (await it.get(target, name)).get("status", {})
        return all(found.get(field, 0) == value for field, value in status.items())

    await it.until(says, f"{name} has {status}", patience_s=60)


async def test_a_deployment_rolls_out_and_goes_with_all_that_it_owns(server: RotaServer) -> None:
    async with cluster(server.kubeconfig(), nodes(2)) as it:
        await it.create(DEPLOYMENTS, manifests.deployment("web", replicas=3))
        await reaches(it, DEPLOYMENTS, "web", readyReplicas=3, updatedReplicas=3)
        change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
        await it.client.patch(DEPLOYMENTS, "web", change, namespace=it.namespace)
        await reaches(it, DEPLOYMENTS, "web", observedGeneration=2, readyReplicas=3, updatedReplicas=3, replicas=3)
        assert {one["spec"]["containers"][0]["image"] for one in await it.list(PODS, "app=web")} == {"app:2"}
        assert len(await it.list(REPLICA_SETS)) == 2
        await it.client.delete(DEPLOYMENTS, "web", namespace=it.namespace, propagation=Propagation.FOREGROUND)

        async def nothing_is_left() -> bool:
            return not [*await it.list(DEPLOYMENTS), *await it.list(REPLICA_SETS), *await it.list(PODS)]

        await it.until(nothing_is_left, "the garbage collector takes what the deployment owned", patience_s=60)


async def test_a_stateful_set_makes_its_pods_in_order_and_scales_down_from_the_end(server: RotaServer) -> None:
    async with cluster(server.kubeconfig(), nodes(2)) as it:
        spec = {
            "serviceName": "db",
            "replicas": 3,
            "selector": {"matchLabels": {"app": "db"}},
            "template": template("db"),
        }
        await it.create(STATEFUL_SETS, {"metadata": {"name": "db"}, "spec": spec})
        await reaches(it, STATEFUL_SETS, "db", readyReplicas=3)
        ages = {one["metadata"]["name"]: int(one["metadata"]["resourceVersion"]) for one in await it.list(PODS)}
        assert sorted(ages) == ["db-0", "db-1", "db-2"]
        await pod_actions.scale(it.client, resource(STATEFUL_SETS), "db", namespace=it.namespace, replicas=1)
        await reaches(it, STATEFUL_SETS, "db", replicas=1, readyReplicas=1)
        assert [one["metadata"]["name"] for one in await it.list(PODS)] == ["db-0"]


async def test_a_daemon_set_has_a_pod_on_every_node(server: RotaServer) -> None:
    async with cluster(server.kubeconfig(), nodes(3)) as it:
        spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")}
        await it.create(DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": spec})
        await reaches(it, DAEMON_SETS, "agent", numberReady=3, desiredNumberScheduled=3)
        assert {one["spec"]["nodeName"] for one in await it.list(PODS)} == {"node-0", "node-1", "node-2"}


async def test_jobs_end_well_or_badly_and_cron_jobs_make_them(server: RotaServer) -> None:
    async with cluster(server.kubeconfig(), nodes(2)) as it:
        good = manifests.job("good")
        good["spec"] |= {"completions": 3, "parallelism": 2}
        bad = manifests.job("bad")
        bad["spec"]["backoffLimit"] = 0
        bad["spec"]["template"]["metadata"] = {"annotations": {FAILS: ""}}
        await it.create(JOBS, good, bad)
        cron = {"schedule": "* * * * *", "jobTemplate": {"spec": manifests.job("x")["spec"]}}
        await it.create(CRON_JOBS, {"metadata": {"name": "often"}, "spec": cron})
        await reaches(it, JOBS, "good", succeeded=3)
        await reaches(it, JOBS, "bad", failed=1)
        conditions = {one["type"] for one in (await it.get(JOBS, "bad"))["status"]["conditions"]}
        assert {"Failed", "FailureTarget"} <= conditions

        async def made() -> bool:
            return any(one["metadata"]["name"].startswith("often-") for one in await it.list(JOBS))

        await it.until(made, "the cron job makes a job within the minute", patience_s=75)


async def test_a_disruption_budget_is_counted_and_holds_evictions_back(server: RotaServer) -> None:
    async with cluster(server.kubeconfig(), nodes(2)) as it:
        await it.create(DEPLOYMENTS, manifests.deployment("web", replicas=2))
        await it.create(BUDGETS, manifests.budget("web", min_available=2, app="web"))
        await reaches(it, DEPLOYMENTS, "web", readyReplicas=2)
        await reaches(it, BUDGETS, "web", currentHealthy=2, desiredHealthy=2, disruptionsAllowed=0)
        name = (await it.list(PODS, "app=web"))[0]["metadata"]["name"]
        with pytest.raises(errors.TooManyRequests):
            await pod_actions.evict(it.client, name, namespace=it.namespace)
        await pod_actions.scale(it.client, resource(DEPLOYMENTS), "web", namespace=it.namespace, replicas=3)
        await reaches(it, BUDGETS, "web", currentHealthy=3, disruptionsAllowed=1)
        await pod_actions.evict(it.client, name, namespace=it.namespace)


async def test_a_silent_node_is_tainted_and_its_pods_move(server: RotaServer) -> None:
    async with cluster(server.kubeconfig(), nodes(2)) as it:
        toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
        impatient = [{**toleration, "tolerationSeconds": 1}]
        spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}}
        spec["template"] = template("web", tolerations=impatient, terminationGracePeriodSeconds=0)
        await it.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
        await reaches(it, DEPLOYMENTS, "web", readyReplicas=4)
        it.nodes.silence("node-0")

        async def moved() -> bool:
            pods = [one for one in await it.list(PODS) if "deletionTimestamp" not in one["metadata"]]
            return len(pods) == 4 and {one["spec"].get("nodeName") for one in pods} == {"node-1"}

        await it.until(moved, "the pods of the silent node are made again elsewhere", patience_s=90)
        node = await it.client.get(NODES, "node-0")
        assert {one["key"] for one in node["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
        ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")


async def test_a_namespace_gets_its_account_and_goes_with_all_that_is_in_it(server: RotaServer) -> None:
    async with cluster(server.kubeconfig(), nodes(1)) as it:

        async def account() -> bool:
            return {"default"} <= {one["metadata"]["name"] for one in await it.list(ACCOUNTS)}

        await it.until(account, "the namespace has a default account")
        await it.create(CONFIG_MAPS, manifests.config_map("settings", a="1"))
        await it.create(DEPLOYMENTS, manifests.deployment("web", replicas=2))
        await reaches(it, DEPLOYMENTS, "web", readyReplicas=2)
        await it.client.delete(NAMESPACES, it.namespace)

        async def gone() -> bool:
            try:
                await it.client.get(NAMESPACES, it.namespace)
            except errors.NotFound:
                return True
            return False

        await it.until(gone, "the namespace is gone", patience_s=60)
        await it.client.create(NAMESPACES, {"metadata": {"name": it.namespace}})  # for whoever cleans up
        assert "settings" not in {one["metadata"]["name"] for one in await it.list(CONFIG_MAPS)}
