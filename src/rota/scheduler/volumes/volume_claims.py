"""Persistent volume claims: those of a pod, their requests, and the state of their binding."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rota.api import attachable_volumes, quantities
from rota.api.quantities import Quantity
from rota.columns.catalog import Catalog
from rota.columns.pods import PodInfo

Document = Mapping[str, Any]

CLAIM = "PersistentVolumeClaim"
VOLUME = "PersistentVolume"
CLASS = "StorageClass"

#: Annotations of claims and volumes.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim that a pod mounts; an ephemeral one is created for this pod and named after it."""

    name: str
    ephemeral: bool = False


def used_by(pod: PodInfo) -> Iterator[ClaimUse]:
    """The claims of a pod, in the order of its volumes."""
    for volume in pod.shape.volumes:
        if (source := volume.get("persistentVolumeClaim")) is not None:
            yield ClaimUse(source.get("claimName") or "")
        elif volume.get("ephemeral") is not None:
            yield ClaimUse(f"{pod.name}-{volume['name']}", ephemeral=True)


def named_by(pod: PodInfo) -> Iterator[str]:
    """The claims that a pod names, without ephemeral ones."""
    return (use.name for use in used_by(pod) if not use.ephemeral)


def find(catalog: Catalog, pod: PodInfo, use: ClaimUse) -> Document | None:
    """Find a pod's claim."""
    return catalog.get(CLAIM, namespace=pod.namespace, name=use.name)


def concerns(pod: PodInfo, claim: Document) -> bool:
    """Whether the claim is one of the pod's, ephemeral ones included."""
    meta = claim["metadata"]
    return meta.get("namespace") == pod.namespace and any(use.name == meta["name"] for use in used_by(pod))


def not_found(use: ClaimUse) -> str:
    """The API's message for a claim that does not exist."""
    return f'persistentvolumeclaim "{use.name}" not found'


def foreign(claim: Document, pod: PodInfo) -> str | None:
    """The error if an ephemeral volume's claim was not created for this pod."""
    owners = claim["metadata"].get("ownerReferences") or ()
    if any(owner.get("controller") and owner.get("uid") == pod.uid for owner in owners):
        return None
    return f"PVC {key(claim)} was not created for pod {pod.key} (pod is not owner)"


def key(claim: Document) -> str:
    """namespace/name."""
    return f"{claim['metadata'].get('namespace', '')}/{claim['metadata']['name']}"


def annotations(document: Document) -> Mapping[str, str]:
    """The annotations of an object."""
    return document["metadata"].get("annotations") or {}


def bound(claim: Document) -> bool:
    """Whether a claim is bound, and the controller has finished."""
    return bool(attachable_volumes.volume_name(claim)) and BIND_COMPLETED in annotations(claim)


def request(claim: Document) -> Quantity | None:
    """The requested storage of a claim; None if it has no request."""
    resources = (claim.get("spec") or {}).get("resources") or {}
    amount = (resources.get("requests") or {}).get("storage")
    return None if amount is None else quantities.from_wire(amount)
