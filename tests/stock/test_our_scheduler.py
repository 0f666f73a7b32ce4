"""Our scheduler on the stock API server, with a stock scheduler's rights: it leads, places and preempts."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.stock.clusters import EVENTS, LEASES, PODS, Cluster, cluster
from tests.stock.test_scheduler import PRIORITIES, ZONE, anti_affinity, zoned

from rota.client import client_factory, kubeconfig
from rota.client.endpoints import Endpoint
from rota.kit import system
from rota.scheduler.service import Scheduler
from rota.testing import manifests, schedulers
from rota.testing.servers.kubernetes import ControllerManager, StockApiServer

ACCOUNTS = ("", "v1", "serviceaccounts")
VOLUMES = ("", "v1", "persistentvolumes")
CLAIMS = ("", "v1", "persistentvolumeclaims")
STORAGE_CLASSES = ("storage.k8s.io", "v1", "storageclasses")
BUDGETS = ("policy", "v1", "poddisruptionbudgets")
ROLES = ("rbac.authorization.k8s.io", "v1", "roles")
GRANTS = ("rbac.authorization.k8s.io", "v1", "rolebindings")
ROLE_BINDINGS = ("rbac.authorization.k8s.io", "v1", "clusterrolebindings")

pytestmark = [pytest.mark.slow, pytest.mark.stock]


@pytest.fixture(scope="module")
def server() -> Iterator[StockApiServer]:
    # What these two do takes controllers, which do not run here.
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


@contextlib.asynccontextmanager
async def scheduling(
    server: StockApiServer, identity: str = "ours", *, name: str = "default-scheduler", endpoint: Endpoint | None = None
) -> AsyncIterator[Scheduler]:
    """Our scheduler at work for the pods of a name; as the user that every stock cluster knows, or as another."""
    clock, rng = system.SystemClock(), random.Random(0)
    endpoint = endpoint or kubeconfig.load(server.kubeconfig("system:kube-scheduler"), clock=clock)
    lease = {"resourceName": "kube-scheduler" if name == "default-scheduler" else f"{name}-scheduler"}
    loaded = schedulers.configured(yaml.safe_dump({"leaderElection": lease, "profiles": [{"schedulerName": name}]}))
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        scheduler = Scheduler(client, loaded, clock=clock, rng=rng, identity=identity)
        running = asyncio.ensure_future(scheduler.run())
        async with asyncio.timeout(30):
            await scheduler.wait_synced()
        try:
            yield scheduler
        finally:
            running.cancel()
            await asyncio.wait([running])


def sized(name: str, cpu: str, **spec: Any) -> manifests.Document:
    """A pod that asks for processors."""
    made = manifests.pod(name, **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


async def test_it_leads_and_places_pods_one_binding_each(server: StockApiServer) -> None:
    names = [f"p{n}" for n in range(20)]
    async with cluster(server.kubeconfig(), zoned(3)) as it, scheduling(server) as scheduler:
        await it.create(PODS, *(manifests.pod(name) for name in names))
        placed = await it.placed(*names)
        lease = await it.client.get(LEASES, "kube-scheduler", namespace="kube-system")
        assert not scheduler.bindings.batches
        assert lease["spec"]["holderIdentity"] == "ours"
        assert set(placed.values()) == {"node-0", "node-1", "node-2"}
        assert "Scheduled" in {one["reason"] for one in await it.list(EVENTS)}
    lease_after = await _lease(server)
    assert not lease_after["spec"].get("holderIdentity")


async def test_rules_of_placement_hold_there_as_here(server: StockApiServer) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "wide"}},
    }
    names = [f"p{n}" for n in range(6)]
    async with cluster(server.kubeconfig(), zoned(3)) as it, scheduling(server):
        pods = [manifests.pod(n, labels={"app": "wide"}, topologySpreadConstraints=[constraint]) for n in names]
        await it.create(PODS, *pods)
        placed = await it.placed(*names)
        assert set(Counter(placed.values()).values()) == {2}
        lonely = [
            manifests.pod(f"l{n}", labels={"app": "lonely"}, affinity=anti_affinity(app="lonely")) for n in range(4)
        ]
        await it.create(PODS, *lonely[:3])
        await it.placed("l0", "l1", "l2")
        await it.create(PODS, lonely[3])
        message = await it.unschedulable("l3")
        assert message.startswith("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.")


async def test_it_makes_room_for_what_is_more_important(server: StockApiServer) -> None:
    async with cluster(server.kubeconfig(), zoned(1)) as it, scheduling(server):
        urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent-ours"}}
        await it.client.create(PRIORITIES, {**urgent, "value": 1000})
        try:
            node = await it.client.get(("", "v1", "nodes"), "node-0")
            cores = int(node["status"]["allocatable"]["cpu"])
            await it.create(PODS, sized("small", str(cores), terminationGracePeriodSeconds=0))
            await it.placed("small")
            await it.create(PODS, sized("important", str(cores), priorityClassName="urgent-ours"))
            assert await it.placed("important") == {"important": "node-0"}
            assert {one["metadata"]["name"] for one in await it.list(PODS)} == {"important"}
        finally:
            await it.client.delete(PRIORITIES, "urgent-ours")


async def test_those_without_a_budget_give_way_first_and_the_winner_says_where_it_will_be(
    server: StockApiServer,
) -> None:
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent-nominated"}}
    async with cluster(server.kubeconfig(), zoned(2)) as it, scheduling(server):
        await it.client.create(PRIORITIES, {**urgent, "value": 1000})
        try:
            for number, name in enumerate(("guarded", "free")):
                made = sized(name, "3", nodeSelector={"kubernetes.io/hostname": f"node-{number}"})
                made["metadata"]["labels"] = {"app": name}
                await it.create(PODS, made)
            assert await it.placed("guarded", "free") == {"guarded": "node-0", "free": "node-1"}
            await it.create(BUDGETS, manifests.budget("guard", min_available=1, app="guarded"))
            # no controller counts here: the budget has nothing to give
            counted = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
            status = {"status": {**counted, "expectedPods": 1}}
            await it.client.patch(BUDGETS, "guard", status, namespace=it.namespace, subresource="status")
            await asyncio.sleep(3)  # the scheduler learns of it by a watch of its own, which nothing shows
            it.nodes.silence("node-1")  # who has to go takes time
            await it.create(PODS, sized("important", "3", priorityClassName="urgent-nominated"))

            async def nominated() -> bool:
                return bool((await it.get(PODS, "important"))["status"].get("nominatedNodeName") == "node-1")

            await it.until(nominated, "the pod says where it will be")
            assert "deletionTimestamp" in (await it.get(PODS, "free"))["metadata"]
            assert "deletionTimestamp" not in (await it.get(PODS, "guarded"))["metadata"]
            it.nodes.speak("node-1")
            assert await it.placed("important") == {"important": "node-1"}
        finally:
            await it.client.delete(PRIORITIES, "urgent-nominated")


async def test_a_claim_that_waits_for_its_first_pod_is_bound_where_its_volume_is(server: StockApiServer) -> None:
    config = server.kubeconfig()
    with ControllerManager(config, controllers="persistentvolume-binder-controller"):
        async with cluster(config, zoned(3)) as it, scheduling(server):
            await it.client.create(STORAGE_CLASSES, _storage_class(it.namespace))
            await it.client.create(VOLUMES, _volume(it.namespace, "node-2"))
            try:
                claim = {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": it.namespace,
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }
                await it.create(CLAIMS, claim)
                mount = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
                await it.create(PODS, manifests.pod("first", volumes=mount))
                assert await it.placed("first") == {"first": "node-2"}
                assert (await it.get(CLAIMS, "data"))["spec"]["volumeName"] == it.namespace
                # and who comes to a claim that is bound goes where it is
                await it.create(PODS, manifests.pod("second", volumes=mount))
                assert await it.placed("second") == {"second": "node-2"}
            finally:
                await it.client.delete(VOLUMES, it.namespace)
                await it.client.delete(STORAGE_CLASSES, it.namespace)


def _storage_class(name: str) -> dict[str, Any]:
    late = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **late}


def _volume(name: str, node: str) -> dict[str, Any]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


async def test_it_runs_as_a_pod_would_with_a_name_of_its_own_and_goes_on_after_the_server_was_killed(
    server: StockApiServer, tmp_path: Path
) -> None:
    """In-cluster configuration; a server that starts has forgotten old revisions, so that watches begin anew."""
    async with cluster(server.kubeconfig(), zoned(2)) as it:
        endpoint = kubeconfig.in_cluster(
            {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)},
            clock=system.SystemClock(),
            folder=await _mounted(it, server, tmp_path),
        )
        async with scheduling(server, name="in-cluster", endpoint=endpoint):
            await it.create(PODS, manifests.pod("mine", schedulerName="in-cluster"), manifests.pod("another"))
            await it.placed("mine")
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await it.create(PODS, manifests.pod("after", schedulerName="in-cluster"))
            await it.placed("after", patience_s=60.0)
            assert not (await it.get(PODS, "another"))["spec"].get("nodeName")


async def _mounted(it: Cluster, server: StockApiServer, folder: Path) -> Path:
    """What a kubelet puts into a pod of a service account, which has the rights of a scheduler."""
    account = {"kind": "ServiceAccount", "name": "scheduler", "namespace": it.namespace}
    await it.create(ACCOUNTS, {"metadata": {"name": "scheduler"}})
    for role in ("system:kube-scheduler", "system:volume-scheduler"):
        binding = {
            "metadata": {"name": f"{it.namespace}-{role.rpartition(':')[2]}"},
            "subjects": [account],
            "roleRef": {"apiGroup": ROLE_BINDINGS[0], "kind": "ClusterRole", "name": role},
        }
        await it.client.create(ROLE_BINDINGS, binding)
    # its own lease has a name of its own
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    await it.client.create(ROLES, {"metadata": {"name": "in-cluster"}, "rules": [leases]}, namespace="kube-system")
    own = {"apiGroup": ROLES[0], "kind": "Role", "name": "in-cluster"}
    grant = {"metadata": {"name": "in-cluster"}, "subjects": [account], "roleRef": own}
    await it.client.create(GRANTS, grant, namespace="kube-system")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = await it.client.create(ACCOUNTS, request, name="scheduler", namespace=it.namespace, subresource="token")
    (folder / "token").write_text(answer["status"]["token"])
    (folder / "namespace").write_text(it.namespace)
    (folder / "ca.crt").write_bytes(server.certificate.read_bytes())
    return folder


async def _lease(server: StockApiServer) -> dict[str, Any]:
    clock, rng = system.SystemClock(), random.Random(0)
    endpoint = kubeconfig.load(server.kubeconfig(), clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        return await client.get(LEASES, "kube-scheduler", namespace="kube-system")
