"""The progress of a pod's volume binding: done, not yet, or failed.

`binding.volume_binder` calls this with the current objects until it returns True or raises.
"""

from collections.abc import Mapping, Sequence

from rota.api import attachable_volumes
from rota.columns.catalog import Catalog
from rota.scheduler.volumes import matching, volume_claims
from rota.scheduler.volumes.volume_claims import Document


class BindingFailedError(Exception):
    """A volume could not be bound; the pod must be scheduled again."""


def done(
    *,
    node_name: str,
    node_labels: Mapping[str, str],
    volumes: Sequence[Document],
    provisioned: Sequence[Document],
    catalog: Catalog,
) -> bool:
    """Whether all written volumes and all annotated claims are bound."""
    bindings = [_bound_claim(volume, catalog, node_labels) for volume in volumes]
    claims_made = [_made_claim(claim, catalog, node_name, node_labels) for claim in provisioned]
    return all(claim is not None and volume_claims.bound(claim) for claim in [*bindings, *claims_made])


def _bound_claim(written: Document, catalog: Catalog, node_labels: Mapping[str, str]) -> Document | None:
    name = written["metadata"]["name"]
    volume = catalog.get(volume_claims.VOLUME, name=name)
    if volume is None:
        raise BindingFailedError(f'failed to check binding: persistentvolume "{name}" not found')
    _check_reach(volume, node_labels)
    reference = (volume.get("spec") or {}).get("claimRef") or {}
    if not reference.get("uid"):
        raise BindingFailedError(f'ClaimRef got reset for pv "{name}"')
    return catalog.get(volume_claims.CLAIM, namespace=reference["namespace"], name=reference["name"])


def _made_claim(written: Document, catalog: Catalog, node_name: str, node_labels: Mapping[str, str]) -> Document | None:
    meta = written["metadata"]
    claim = catalog.get(volume_claims.CLAIM, namespace=meta["namespace"], name=meta["name"])
    if claim is None:
        raise BindingFailedError(f'failed to check provisioning pvc: persistentvolumeclaim "{meta["name"]}" not found')
    if volume_claims.annotations(claim).get(volume_claims.SELECTED_NODE) != node_name:
        # A provisioner that gives up removes the annotation, which asks the scheduler to try again.
        raise BindingFailedError(f'provisioning failed for PVC "{meta["name"]}"')
    volume = (
        catalog.get(volume_claims.VOLUME, name=attachable_volumes.volume_name(claim))
        if attachable_volumes.volume_name(claim)
        else None
    )
    if volume is not None:
        _check_reach(volume, node_labels)
    return claim if volume is not None else None


def _check_reach(volume: Document, node_labels: Mapping[str, str]) -> None:
    if not matching.offer(volume).reachable(node_labels):
        raise BindingFailedError(f'pv "{volume["metadata"]["name"]}" node affinity doesn\'t match the node')
