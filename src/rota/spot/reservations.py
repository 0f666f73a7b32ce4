"""A place that is held on a node for the successor of a pod that leaves: a pod that asks for the same and runs nothing.

It is bound when it is made, so that every scheduler, the stock one too, counts what it asks for. Where containers come
from images it never starts, since there is none; where they are processes it sleeps. It has the priority of the pod
that it stands for: nobody less important can have it preempted. It ends by itself some time after the machine that is
left, also if nobody is there any more to take it away. What it is for stands on it, and whoever holds places finds them
again by a label. Pure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, resources, times

#: The label of such a pod; its value is the uid of the pod that leaves.
HELD_FOR: Final = "rota.dev/spot-place-for"
_OWNER: Final = "rota.dev/spot-place-owner"
_POD: Final = "rota.dev/spot-place-pod"
_CONTAINER: Final = "place"
#: No image: our workers run the command as a process, others find that it is not there.
_IMAGE: Final = "none"
_COMMAND: Final = ("sleep", "infinity")
#: Kubelets make room for pods of this priority by themselves; a place is not worth that.
_CRITICAL: Final = 2_000_000_000
_NOBODY: Final = 65534
_ENDED: Final = frozenset({"Succeeded", "Failed"})

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A place that is held, as the cluster shows it."""

    name: str
    namespace: str
    uid: str
    node: str
    #: The pod that leaves: its uid, and namespace/name.
    leaver: str
    pod: str
    #: The uid of what makes the successor.
    owner: str
    since: float
    #: Whether nothing is held any more: it has ended, or is about to be taken away.
    over: bool


def is_one(pod: Document) -> bool:
    """Whether a pod only holds a place."""
    return HELD_FOR in (pod["metadata"].get("labels") or {})


def name_for(uid: str) -> str:
    """The name of the place for the successor of a pod: there is one at most."""
    return f"spot-place-{uid}"


def manifest(pod: Document, *, node: str, owner: str, namespace: str, lasts_s: float) -> dict[str, Any]:
    """The pod that holds a place for the successor of another."""
    requests = {name: resources.shown(name, amount) for name, amount in resources.pod_requests(pod).items() if amount}
    # what cannot be overcommitted has to be limited by what is asked for
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
                # an autoscaler need not keep a node for it
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
    """What a pod that holds a place says about itself."""
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
    """The pod that a place was held for, as far as the place tells: for when it has gone itself."""
    held = read(pod)
    namespace, _, name = held.pod.partition("/")
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    owner = {"apiVersion": "v1", "kind": "Unknown", "name": "unknown", "uid": held.owner, "controller": True}
    metadata = {"name": name, "namespace": namespace, "uid": held.leaver, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": spec}
