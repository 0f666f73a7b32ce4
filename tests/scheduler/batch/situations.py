"""Situations for sessions, as plain objects: a few nodes, queues, groups and pods."""

from collections.abc import Mapping
from typing import Any

NOW = "2026-05-01T12:00:00Z"
QUEUE: Mapping[str, Any] = {"metadata": {"name": "q"}, "spec": {"weight": 1}, "status": {"state": "Open"}}


def node(name: str, **allocatable: str) -> dict[str, Any]:
    """A node of eight cores."""
    offered = {"cpu": "8", "memory": "32Gi", "pods": "40", **allocatable}
    return {"metadata": {"name": name}, "status": {"allocatable": offered}}


def group(name: str, *, least: int = 1, queue: str = "q", phase: str = "Inqueue", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-05-01T10:00:00Z"},
        "spec": {"queue": queue, "minMember": least, **spec},
        "status": {"phase": phase},
    }


def pod(
    group: str,
    number: int,
    requests: Mapping[str, str],
    *,
    on: str | None = None,
    annotations: Mapping[str, str] | None = None,
    priority: int = 0,
    limits: Mapping[str, str] | None = None,
    leaving: bool = False,
) -> dict[str, Any]:
    name = f"{group}-w-{number}"
    noted = {"scheduling.k8s.io/group-name": group, "volcano.sh/preemptable": "true", **(annotations or {})}
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": group}, "annotations": noted}
    if leaving:
        meta["deletionTimestamp"] = NOW
    resources: dict[str, Any] = {"requests": dict(requests)}
    if limits is not None:
        resources["limits"] = dict(limits)
    spec = {
        "priority": priority,
        "nodeName": on,
        "containers": [{"name": "c", "image": "i", "resources": resources}],
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if on else "Pending"}}


def situation(conf: str, **sections: Any) -> dict[str, Any]:
    return {"conf": conf, "now": NOW, "queues": [QUEUE], **sections}
