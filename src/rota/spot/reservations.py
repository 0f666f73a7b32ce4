"""Placeholder pods, which hold places on nodes for the successors of pods that leave. Pure.

A placeholder requests the same resources as the pod that leaves, and runs nothing. It is bound when it is created, so
that every scheduler, also the stock one, counts its requests. Where containers come from images it never starts,
because its image is empty; where they are processes it sleeps. It has the priority of the pod that it stands for, so
that no pod of lower priority can preempt it. It ends by itself some time after the deadline of the machine that is
left, even if no controller deletes it. Annotations describe its purpose, and a label identifies it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, resources, times

#: The label of a placeholder; its value is the uid of the pod that leaves.
HELD_FOR: Final = "rota.dev/spot-place-for"
_OWNER: Final = "rota.dev/spot-place-owner"
_POD: Final = "rota.dev/spot-place-pod"
_CONTAINER: Final = "place"
#: No image: Rota's workers run the command as a process; other kubelets cannot start it.
_IMAGE: Final = "none"
_COMMAND: Final = ("sleep", "infinity")
#: Kubelets evict other pods for pods of this priority; a placeholder must not cause that.
_CRITICAL: Final = 2_000_000_000
_NOBODY: Final = 65534
_ENDED: Final = frozenset({"Succeeded", "Failed"})

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A placeholder, as the cluster shows it."""

    name: str
    namespace: str
    uid: str
    node: str
    #: The pod that leaves: its uid, and namespace/name.
    leaver: str
    pod: str
    #: The uid of the controller that creates the successor.
    owner: str
    since: float
    #: Whether it holds nothing any more: it has ended, or is in deletion.
    over: bool


def is_one(pod: Document) -> bool:
    """Whether a pod is a placeholder."""
    return HELD_FOR in (pod["metadata"].get("labels") or {})


def name_for(uid: str) -> str:
    """The name of the placeholder for a pod's successor: there is at most one."""
    return f"spot-place-{uid}"


def manifest(pod: Document, *, node: str, owner: str, namespace: str, lasts_s: float) -> dict[str, Any]:
    """The placeholder for the successor of a pod."""
    requests = {name: resources.shown(name, amount) for name, amount in resources.pod_requests(pod).items() if amount}
    # resources that cannot be overcommitted need limits equal to their requests
    limits = {name: amount for name, amount in requests.items() if resources.is_scalar(name)}
    spec = pod.get("spec") or {}
    critical = (spec.get("priority") or 0) >= _CRITICAL
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_for(meta.uid(pod)),
            "namespace": namespace,
            "labels": {HELD_FOR: meta.uid(pod)},
            "annotations": {
                _OWNER: owner,
                _POD: f"{meta.namespace(pod)}/{meta.name(pod)}",
                # a cluster autoscaler may remove its node
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
            },
        },
        "spec": {
            "nodeName": node,
            "activeDeadlineSeconds": max(1, math.ceil(lasts_s)),
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            **(
                {"priorityClassName": spec["priorityClassName"]}
                if spec.get("priorityClassName") and not critical
                else {}
            ),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": _CONTAINER,
                    "image": _IMAGE,
                    "imagePullPolicy": "Never",
                    "command": list(_COMMAND),
                    "resources": {"requests": requests, **({"limits": limits} if limits else {})},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


def read(pod: Document) -> Reservation:
    """The annotations of a placeholder."""
    metadata = pod["metadata"]
    said = metadata.get("annotations") or {}
    return Reservation(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=meta.uid(pod),
        node=(pod.get("spec") or {}).get("nodeName") or "",
        leaver=metadata["labels"][HELD_FOR],
        pod=said.get(_POD, ""),
        owner=said.get(_OWNER, ""),
        since=times.parse(metadata["creationTimestamp"]),
        over=meta.is_deleting(pod) or (pod.get("status") or {}).get("phase") in _ENDED,
    )


def stand_in(pod: Document) -> dict[str, Any]:
    """The old pod as far as its placeholder describes it, for when the old pod is gone."""
    held = read(pod)
    namespace, _, name = held.pod.partition("/")
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    owner = {"apiVersion": "v1", "kind": "Unknown", "name": "unknown", "uid": held.owner, "controller": True}
    metadata = {"name": name, "namespace": namespace, "uid": held.leaver, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": spec}
