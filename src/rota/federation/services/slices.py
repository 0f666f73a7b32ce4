"""EndpointSlices between clusters: what a provider reports of its own, and what a consumer gets of them.

A Work with the MultiClusterService is in the execution space of each provider. It is not applied: the engine of that
member reports the EndpointSlices of the Service in its status. The control plane writes a Work for each slice and
consumer.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import meta, names
from rota.federation import object_names
from rota.federation.services import exposure
from rota.federation.works import manifests

Object: TypeAlias = Mapping[str, Any]

SERVICE: Final = "kubernetes.io/service-name"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_DISPATCHED: Final = "endpointslice-dispatch-controller.karmada.io"
PROVIDER: Final = "endpointslice.karmada.io/provision-cluster"
#: Marks Works that are not applied in the member.
INSTRUCTION: Final = "propagation.karmada.io/instruction"
SUPPRESSED: Final = "suppressed"
COLLECTED: Final = "EndpointSliceCollected"
#: Slices of Services that a member made itself, and not those that came from other clusters.
OWN: Final = f"{SERVICE},{_MANAGED_BY}!={_DISPATCHED}"
#: The most slices of one Service that are taken from one cluster, and their size, so that they fit in one object.
MOST: Final = 100
LARGEST_BYTES: Final = 1024 * 1024
_COPIED: Final = ("addressType", "endpoints", "ports")
#: A Work's name has a hash of 10 characters behind that of its object.
_LONGEST: Final = 240


def is_collecting(work: Object) -> bool:
    """Whether a Work asks for the EndpointSlices of a Service."""
    labels = meta.labels(work)
    return labels.get(INSTRUCTION) == SUPPRESSED and exposure.NAME in labels


def collecting_name(namespace: str, service: str) -> str:
    """The name of the Work that asks for the EndpointSlices of a Service."""
    return object_names.work(exposure.KIND, service, namespace)


def collecting_work(service: Object, provider: str, marks: Mapping[str, str]) -> dict[str, Any]:
    """The Work that asks a provider for the EndpointSlices of a Service."""
    work = manifests.plain_work(service, provider, marks)
    del work["metadata"]["finalizers"]  # nothing of it is in the member
    work["metadata"]["labels"] = {
        **exposure.references(service),
        exposure.ID: meta.labels(service).get(exposure.ID) or "",
        manifests.MANAGED: "true",
        INSTRUCTION: SUPPRESSED,
    }
    return work


def collected(present: Iterable[Object]) -> dict[str, Any]:
    """What an engine reports of the slices of a Service: by name, without what only the member knows."""
    kept = sorted((one for one in present if not meta.is_deleting(one)), key=meta.name)
    found: list[dict[str, Any]] = []
    size = 0
    for one in kept[:MOST]:
        copied = {"name": meta.name(one), **{part: one[part] for part in _COPIED if one.get(part) is not None}}
        size += len(msgspec.json.encode(copied))
        if size > LARGEST_BYTES:
            break
        found.append(copied)
    return {"endpointSlices": found, **({"leftOut": len(kept) - len(found)} if len(kept) > len(found) else {})}


def reported(work: Object) -> list[Object] | None:
    """The slices that a provider's Work reports; None before the first report. What is no slice is left out."""
    statuses = (work.get("status") or {}).get("manifestStatuses") or ()
    if not statuses or not meta.is_condition_true(work, COLLECTED):
        return None
    given = (statuses[0].get("status") or {}).get("endpointSlices")
    return [one for one in given[:MOST] if _is_slice(one)] if isinstance(given, list) else []


def left_out(work: Object) -> int:
    """How many slices a provider did not report because there are too many."""
    statuses = (work.get("status") or {}).get("manifestStatuses") or ()
    given = ((statuses[0].get("status") or {}) if statuses else {}).get("leftOut")
    return given if isinstance(given, int) else 0


def imported_work(
    found: Object,
    service: Object,
    provider: str,
    consumer: str,
    ports: Collection[str] | None,
    marks: Mapping[str, str],
) -> dict[str, Any]:
    """The Work that brings a provider's slice to a consumer, with the exposed ports only."""
    manifest = {
        "apiVersion": exposure.SLICE[0],
        "kind": exposure.SLICE[1],
        "metadata": {
            # a cluster's name has no dot, so no two providers give the same name
            "name": f"{provider}.{found['name']}",
            "namespace": meta.namespace(service),
            "labels": {SERVICE: meta.name(service), _MANAGED_BY: _DISPATCHED},
            "annotations": {PROVIDER: provider},
        },
        **{member: found[member] for member in _COPIED if member in found},
    }
    if ports is not None:
        manifest["ports"] = [one for one in found.get("ports") or () if (one.get("name") or "") in ports]
    work = manifests.plain_work(manifest, consumer, {**marks, PROVIDER: provider})
    work["metadata"]["labels"] = exposure.references(service)
    return work


def _is_slice(given: object) -> bool:
    """Whether a member reported something of the form of a slice; its values are checked by consumers' servers."""
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return False
    lists = [given.get(member) for member in ("endpoints", "ports")]
    return (
        len(given["name"]) <= _LONGEST - names.MAX_LABEL_LENGTH
        and not names.check_dns1123_subdomain(given["name"])
        and all(
            part is None or (isinstance(part, list) and all(isinstance(one, dict) for one in part)) for part in lists
        )
    )
