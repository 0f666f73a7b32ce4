"""Builders for tests of volume plugins: pods with volumes, and the storage objects around them, in one line each.

Objects are plain JSON data, as the cluster's catalog holds them; pods are what placement makes of theirs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rota.columns import cluster as clusters
from rota.columns import objects
from rota.columns.cluster import Cluster
from rota.columns.pods import LabelGroup, PodInfo, PodShape
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status

Document = dict[str, Any]


def pod(name: str = "pod", *volumes: Mapping[str, Any], node: str = "", namespace: str = "default") -> PodInfo:
    """Make a pod that asks for nothing but volumes."""
    shape = PodShape(
        group=LabelGroup(namespace, {}),
        priority=0,
        requests={},
        nonzero_requests=(0, 0),
        host_ports=(),
        images=(),
        tolerations=(),
        node_selector={},
        node_affinity=None,
        required_affinity=(),
        required_anti_affinity=(),
        preferred_affinity=(),
        preferred_anti_affinity=(),
        spread_constraints=(),
        preemption_policy="PreemptLowerPriority",
        scheduler_name="default-scheduler",
        scheduling_gates=(),
        owner=None,
        volumes=volumes,
    )
    return PodInfo(uid=f"uid-{namespace}-{name}", name=name, shape=shape, node_name=node)


def uses(*claims: str) -> list[Document]:
    """Give the volumes of a pod that mounts these claims."""
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def cluster(nodes: Mapping[str, Mapping[str, str]], *documents: Document, pods: Sequence[PodInfo] = ()) -> Cluster:
    """Make a cluster of nodes (labels by name) with these objects in its catalog and these pods on its nodes."""
    views = [
        objects.Node(metadata=objects.ObjectMeta(name=name, labels=dict(labels))) for name, labels in nodes.items()
    ]
    made = clusters.of(views, pods)
    for document in documents:
        made.catalog.put(document["kind"], document)
    return made


def claim(name: str, *, size: str = "1Gi", modes: Sequence[str] = ("ReadWriteOnce",), **more: Any) -> Document:
    """Make a claim; `volume` binds it, `storage_class`, `annotations`, `phase`, `owner` and `spec` add to it."""
    annotations = dict(more.get("annotations", {}))
    spec: Document = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **more.get("spec", {})}
    if "volume" in more:
        spec["volumeName"] = more["volume"]
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    if "storage_class" in more:
        spec["storageClassName"] = more["storage_class"]
    meta: Document = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations}
    if "owner" in more:
        meta["ownerReferences"] = [{"kind": "Pod", "name": "pod", "uid": more["owner"], "controller": True}]
    phase = more.get("phase", "Bound" if "volume" in more else "Pending")
    return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec, "status": {"phase": phase}}


def volume(
    name: str, *, size: str = "1Gi", modes: Sequence[str] = ("ReadWriteOnce",), storage_class: str = "", **more: Any
) -> Document:
    """Make a volume; `node` ties it to a host name, `labels`, `phase` and `spec` add to it."""
    spec: Document = {"capacity": {"storage": size}, "accessModes": list(modes), "storageClassName": storage_class}
    if "node" in more:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [more["node"]]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": more.get("labels", {})},
        "spec": {**spec, **more.get("spec", {})},
        "status": {"phase": more.get("phase", "Available")},
    }


def storage_class(name: str, *, provisioner: str = "csi.example.com", late: bool = True, **fields: Any) -> Document:
    """Make a storage class that binds late, or at once."""
    mode = "WaitForFirstConsumer" if late else "Immediate"
    return {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **fields,
    }


def verdicts(plugin: Any, state: CycleState, incoming: PodInfo, on: Cluster) -> dict[str, Status] | PreFilterResult:
    """Run PreFilter and, if it goes on, Filter on every node."""
    result: PreFilterResult = plugin.pre_filter(state, incoming, on)
    if not result.status.ok:
        return result
    return {node.name: plugin.filter(state, incoming, node) for node in on.node_infos()}
