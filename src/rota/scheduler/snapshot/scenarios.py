"""Scenarios: nodes, pods and related objects as JSON, and a pod to place.

Reads the conformance format (one JSON object per scenario) and dumps of a live cluster (`kubectl get -o json`). A
malformed object is refused with its path. Pure: the caller reads the files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.columns import objects
from rota.columns.cluster import Cluster
from rota.columns.objects import MalformedObjectError
from rota.columns.pod_interner import PodInterner, read_node
from rota.columns.pods import PodInfo
from rota.scheduler.ingest import related_objects

#: Sections of a scenario with objects for the catalog, by kind.
CATALOGUED = {
    "namespaces": "Namespace",
    "pdbs": "PodDisruptionBudget",
    "services": "Service",
    "replicasets": "ReplicaSet",
    "replicationcontrollers": "ReplicationController",
    "statefulsets": "StatefulSet",
    "persistentvolumes": "PersistentVolume",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "storageclasses": "StorageClass",
}
#: Pods in these phases use no resources of their node.
OVER = frozenset({"Succeeded", "Failed"})
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cluster and a pod to place."""

    cluster: Cluster
    pod: PodInfo


def read_scenario(document: Mapping[str, Any], interner: PodInterner) -> Scenario:
    """Read one line of the conformance format."""
    cluster = Cluster()
    for position, node in enumerate(_listed(document, "nodes")):
        _set_node(cluster, node, path=f"nodes[{position}]")
    for position, pod in enumerate(_listed(document, "pods")):
        _add_pod(cluster, interner, pod, path=f"pods[{position}]")
    for section, kind in CATALOGUED.items():
        for position, each in enumerate(_listed(document, section)):
            _catalogue(cluster, kind, each, path=f"{section}[{position}]")
    return Scenario(cluster=cluster, pod=_read_pod(interner, _object(document, "pod"), path="pod"))


def read_dump(documents: Iterable[tuple[str, object]], interner: PodInterner) -> Cluster:
    """Read a cluster from objects of any kind, and lists of them; each has a path that names it."""
    cluster = Cluster()
    for path, each in flattened(documents):
        kind = each.get("kind")
        if kind == "Node":
            _set_node(cluster, each, path=path)
        elif kind == "Pod":
            _add_pod(cluster, interner, each, path=path)
        elif isinstance(kind, str) and kind:
            _catalogue(cluster, kind, each, path=path)
        else:
            raise MalformedObjectError(f"{path}.kind", "is required")
    return cluster


def read_incoming(document: object, cluster: Cluster, interner: PodInterner, *, path: str) -> PodInfo:
    """Read the pod to place; its priority comes from its class, as on the API server."""
    whole = with_priority(document, cluster.catalog.list("PriorityClass"), path=path)
    return _read_pod(interner, whole, path=path)


def checked_incoming(document: object, classes: Iterable[Mapping[str, Any]], *, path: str) -> dict[str, Any]:
    """A pod to place as plain data, with its priority by these PriorityClasses, after validation."""
    whole = with_priority(document, classes, path=path)
    _read_pod(PodInterner(), whole, path=path)
    return whole


def with_priority(document: object, classes: Iterable[Mapping[str, Any]], *, path: str) -> dict[str, Any]:
    """A pod with the priority of its class, as admission sets it."""
    if not isinstance(document, dict) or document.get("kind") != "Pod":
        raise MalformedObjectError(f"{path}.kind", "must be Pod")
    spec = document.get("spec")
    if isinstance(spec, dict) and spec.get("priority") is None:
        found = _priority(spec.get("priorityClassName"), list(classes), path=path)
        return {**document, "spec": {**spec, **found}}
    return document


def _priority(name: object, classes: Sequence[Mapping[str, Any]], *, path: str) -> dict[str, Any]:
    if not name:
        chosen = max((each for each in classes if each.get("globalDefault")), key=_value, default=None)
    elif name in SYSTEM_PRIORITIES:
        return {"priority": SYSTEM_PRIORITIES[str(name)]}
    else:
        chosen = next((each for each in classes if each["metadata"]["name"] == name), None)
        if chosen is None:
            raise MalformedObjectError(
                f"{path}.spec.priorityClassName", f'the cluster has no PriorityClass "{name}"; add it or set priority'
            )
    if chosen is None:
        return {}
    return {"priority": _value(chosen), "preemptionPolicy": chosen.get("preemptionPolicy")}


def _value(priority_class: Mapping[str, Any]) -> int:
    value: int = priority_class.get("value", 0)
    return value


def _add_pod(cluster: Cluster, interner: PodInterner, document: Mapping[str, Any], *, path: str) -> None:
    """Add a pod to its node; a pod without a node, or one that has ended, is left out."""
    pod = _read_pod(interner, document, path=path)
    if pod.node_name and (document.get("status") or {}).get("phase") not in OVER:
        cluster.add_pod(pod)


def _set_node(cluster: Cluster, document: Mapping[str, Any], *, path: str) -> None:
    node = read_node(document, path=path)
    related_objects.check_amounts(node.status.allocatable, path=f"{path}.status.allocatable")
    cluster.set_node(node)


def _read_pod(interner: PodInterner, document: Mapping[str, Any], *, path: str) -> PodInfo:
    """Read a pod, after validating the fields that the interner trusts."""
    spec = objects.read(document, objects.Pod, path=path).spec
    related_objects.check_amounts(spec.overhead, path=f"{path}.spec.overhead")
    related_objects.check_resources(spec.resources, path=f"{path}.spec.resources")
    for section, containers in (("initContainers", spec.initContainers), ("containers", spec.containers)):
        for position, container in enumerate(containers or ()):
            place = f"{path}.spec.{section}[{position}].resources"
            related_objects.check_resources(container.resources, path=place)
    for position, constraint in enumerate(spec.topologySpreadConstraints or ()):
        place = f"{path}.spec.topologySpreadConstraints[{position}].labelSelector"
        related_objects.check_selector(constraint.labelSelector, path=place)
    _check_volumes(spec.volumes or (), path=f"{path}.spec.volumes")
    return interner.pod(document, path=path)


def _check_volumes(volumes: Sequence[Mapping[str, Any]], *, path: str) -> None:
    """Check what plugins read of any volume: its name, and that its source is an object with a valid claim name."""
    for position, volume in enumerate(volumes):
        if not isinstance(volume.get("name"), str):
            raise MalformedObjectError(f"{path}[{position}].name", "is required")
        for source, value in volume.items():
            if source != "name" and value is not None and not isinstance(value, dict):
                raise MalformedObjectError(f"{path}[{position}].{source}", "expected an object")
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim is not None and not isinstance(claim, str):
            raise MalformedObjectError(f"{path}[{position}].persistentVolumeClaim.claimName", "expected a string")


def _catalogue(cluster: Cluster, kind: str, document: Mapping[str, Any], *, path: str) -> None:
    """Add an object to the catalog."""
    related_objects.check(document, kind, path=path)
    cluster.catalog.put(kind, document)


def flattened(documents: Iterable[tuple[str, object]]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Take lists apart; each object has a path that names it."""
    for path, document in documents:
        if not isinstance(document, dict):
            raise MalformedObjectError(path, "expected an object")
        kind, items = document.get("kind"), document.get("items")
        if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
            item_kind = kind.removesuffix("List")
            entries = ((f"{path}.items[{position}]", item) for position, item in enumerate(items))
            for place, item in flattened(entries):
                # Items of a typed list may omit their version and kind.
                yield (
                    place,
                    {"apiVersion": document.get("apiVersion"), "kind": item_kind, **item} if item_kind else item,
                )
        else:
            yield path, document


def _listed(document: Mapping[str, Any], section: str) -> list[dict[str, Any]]:
    items = document.get(section)
    if items is None:
        return []
    if not isinstance(items, list):
        raise MalformedObjectError(section, "expected a list")
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            raise MalformedObjectError(f"{section}[{position}]", "expected an object")
    return items


def _object(document: Mapping[str, Any], section: str) -> dict[str, Any]:
    found = document.get(section)
    if not isinstance(found, dict):
        raise MalformedObjectError(section, "is required" if found is None else "expected an object")
    return found
