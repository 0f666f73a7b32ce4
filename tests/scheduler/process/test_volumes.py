"""Volumes that wait for a consumer: chosen with the node, written before the binding, waited for."""

from rota.client.verbs import Object
from rota.testing.schedulers import SchedulingCluster

CLASSES = ("storage.k8s.io", "v1", "storageclasses")
VOLUMES = ("", "v1", "persistentvolumes")
CLAIMS = ("", "v1", "persistentvolumeclaims")


async def add_storage(cluster: SchedulingCluster, *, node: str) -> None:
    """A volume on one node, and a claim that waits for a consumer."""
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}}
    provisioner = "kubernetes.io/no-provisioner"
    await cluster.client.create(
        CLASSES, {**made, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    )
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/mnt/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }
    await cluster.client.create(VOLUMES, volume)
    await cluster.client.patch(VOLUMES, "disk", {"status": {"phase": "Available"}}, subresource="status")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }
    await cluster.client.create(CLAIMS, claim)


async def bind_claim(cluster: SchedulingCluster) -> None:
    """Do what the volume controller does once a volume is reserved for a claim."""
    patch: Object = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "disk"},
    }
    await cluster.client.patch(CLAIMS, "data", patch, namespace="default")
    await cluster.client.patch(
        CLAIMS, "data", {"status": {"phase": "Bound"}}, namespace="default", subresource="status"
    )
    await cluster.client.patch(VOLUMES, "disk", {"status": {"phase": "Bound"}}, subresource="status")


async def reserved(cluster: SchedulingCluster) -> bool:
    volume = await cluster.client.get(VOLUMES, "disk")
    return bool((volume["spec"].get("claimRef") or {}).get("name") == "data")


async def test_a_pod_goes_where_its_volume_is_once_the_claim_is_bound(cluster: SchedulingCluster) -> None:
    for name in ("n1", "n2"):
        await cluster.add_node(name)
    await add_storage(cluster, node="n2")
    async with cluster.scheduling():
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await cluster.add_pod("db", volumes=volumes)
        await cluster.until(lambda: reserved(cluster))
        await cluster.clock.advance(5)
        assert await cluster.node_of("db") == ""
        await bind_claim(cluster)
        await cluster.bound("db", "n2")


async def test_a_volume_that_is_not_bound_in_time_sends_the_pod_back(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    await add_storage(cluster, node="n1")
    quick = """
profiles:
- pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 3}}]
"""
    async with cluster.scheduling(quick):
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await cluster.add_pod("db", volumes=volumes)
        condition = await cluster.refused("db")
        assert condition["reason"] == "SchedulerError", condition["message"]
        assert "were not bound within 3 s" in condition["message"]
        await bind_claim(cluster)
        await cluster.bound("db", "n1")
