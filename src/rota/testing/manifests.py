"""Builders for manifests: complete, with apiVersion and kind, and small.

They have the fields that a client must send and none that the server fills in.
"""

from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]


def pod(name: str, *, on: str = "", labels: Mapping[str, str] | None = None, **spec: Any) -> Document:
    """A pod of one container that is bound to a node if `on` says so."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], **({"nodeName": on} if on else {}), **spec},
    }


def node(name: str, **labels: str) -> Document:
    """A ready node."""
    resources = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "b",
                "containerRuntimeVersion": "none://1",
                "kernelVersion": "6.1",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.33.0",
                "machineID": "m",
                "operatingSystem": "linux",
                "osImage": "Debian",
                "systemUUID": "s",
            },
        },
    }


def deployment(name: str, *, image: str = "app:1", replicas: int = 1) -> Document:
    """A deployment of one container, selected by its name."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image, "ports": [{"containerPort": 8080}]}]},
            },
        },
    }


def job(name: str) -> Document:
    """A job of one container that runs once."""
    container = {"name": "main", "image": "app:1", "command": ["true"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def config_map(name: str, *, labels: Mapping[str, str] | None = None, **data: str) -> Document:
    """A config map; without labels or data it does not mention them, since an applied empty map is owned, too."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **({"labels": dict(labels)} if labels else {})},
        **({"data": data} if data else {}),
    }


def budget(name: str, *, min_available: int, **match: str) -> Document:
    """A disruption budget over the pods with these labels."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": match}},
    }


def widgets() -> Document:
    """The definition of a custom kind with validation, a default, a status, a scale and printed columns."""
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 0, "description": "How large it is."},
            "color": {"type": "string", "enum": ["grey", "red", "blue"], "default": "grey"},
            "replicas": {"type": "integer"},
        },
    }
    status = {"type": "object", "properties": {"ready": {"type": "integer"}, "phase": {"type": "string"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.ready"},
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version],
        },
    }


def widget(name: str, **spec: Any) -> Document:
    """An object of the kind that `widgets` defines."""
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
