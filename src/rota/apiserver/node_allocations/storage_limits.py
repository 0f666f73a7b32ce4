"""Limits of claims and volumes that a binding respects, from objects that are at hand. Pure.

A claim with the access mode ReadWriteOncePod serves one pod of the cluster. A CSI driver attaches a limited number of
volumes to a node. The binding transaction of Rota's API server and the resolver beside a stock one both use this.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from rota.api import attachable_volumes, conflict_reasons
from rota.api.attachable_volumes import Attached
from rota.apiserver.node_allocations import pod_index
from rota.apiserver.node_allocations.pod_shares import Collision, PodAllocation

Object = Mapping[str, Any]


class StorageObjects(Protocol):
    """Objects by name; None for those that do not exist."""

    def claim(self, name: str, /) -> Object | None:
        """A claim by namespace/name."""
        ...

    def volume(self, name: str, /) -> Object | None:
        """A PersistentVolume."""
        ...

    def storage_class(self, name: str, /) -> Object | None:
        """A StorageClass."""
        ...

    def csi_node(self, name: str, /) -> Object | None:
        """The CSINode of a node."""
        ...


def named_claims(namespace: str, share: PodAllocation) -> list[str]:
    """The claims that a pod names, as namespace/name; an ephemeral claim has one user anyway."""
    return [f"{namespace}/{use.name}" for use in share.claims if not use.ephemeral]


def exclusive(namespace: str, share: PodAllocation, claim: Callable[[str], Object | None]) -> list[str]:
    """Those of them that one pod may use."""
    found = ((name, claim(name)) for name in named_claims(namespace, share))
    return [
        name
        for name, obj in found
        if obj is not None and attachable_volumes.READ_WRITE_ONCE_POD in attachable_volumes.access_modes(obj)
    ]


def in_use(claim: str, user: str) -> Collision:
    """The refusal of a claim that another pod, given by namespace/name, uses."""
    message = f"claim {claim} is for one pod, and pod {user} uses it"
    return Collision("ClaimInUse", claim, message, conflict_reasons.VOLUME)


def volume_limit(
    node: str,
    pod: tuple[str, PodAllocation],
    others: Iterable[tuple[str, PodAllocation]],
    objects: StorageObjects,
) -> Collision | None:
    """The driver that would attach too many volumes to a node; pods are given by keys that end with namespace/name."""
    csi_node = objects.csi_node(node)
    limits = attachable_volumes.limits(csi_node)
    if csi_node is None or not limits:
        return None
    own = set(_attached(*pod, csi_node, objects))
    there = {volume for other in others for volume in _attached(*other, csi_node, objects)}
    driver = attachable_volumes.exceeded(own, there, limits)
    if not driver:
        return None
    message = f"driver {driver} attaches at most {limits[driver]} volumes to node {node}"
    return Collision("VolumeLimitExceeded", driver, message, conflict_reasons.VOLUME)


def _attached(key: str, share: PodAllocation, csi_node: Object, objects: StorageObjects) -> Iterator[Attached]:
    yield from share.disks
    for name in pod_index.claims_of(key, share):
        claim = objects.claim(name)
        if claim is not None:
            volume = objects.volume(attachable_volumes.volume_name(claim))
            storage_class = objects.storage_class(attachable_volumes.class_name(claim))
            one = attachable_volumes.attached_for(claim, volume, storage_class, csi_node)
            if one is not None:
                yield one
