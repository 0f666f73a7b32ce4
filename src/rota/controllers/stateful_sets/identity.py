"""The identity of a StatefulSet's ordinal: pod name, host name, volume claims. Pure.

Names, labels and the owners of claims are upstream's (`pkg/controller/statefulset/stateful_set_utils.go`, 1.36).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import meta
from rota.api.meta import Object
from rota.controllers.controller_revisions import HASH_LABEL

NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-([0-9]+)", re.ASCII)
_POD: Final = {"apiVersion": "v1", "kind": "Pod"}


def ordinals(owner: Mapping[str, Any]) -> range:
    """The ordinals of a set."""
    spec = owner["spec"]
    first = int((spec.get("ordinals") or {}).get("start") or 0)
    return range(first, first + (1 if spec.get("replicas") is None else int(spec["replicas"])))


def ordinal(owner: Mapping[str, Any], pod: Mapping[str, Any]) -> int:
    """A pod's ordinal; -1 if its name does not belong to the set."""
    found = _NAME.fullmatch(meta.name(pod))
    return int(found[2]) if found is not None and found[1] == meta.name(owner) else -1


def revision(pod: Mapping[str, Any]) -> str:
    """The name of a pod's revision."""
    return meta.labels(pod).get(HASH_LABEL, "")


def labels(owner: Mapping[str, Any], number: int) -> dict[str, str]:
    """The identity labels of a pod."""
    return {NAME_LABEL: f"{meta.name(owner)}-{number}", INDEX_LABEL: str(number)}


def pod(owner: Mapping[str, Any], number: int, *, revision: str) -> dict[str, Any]:
    """The pod of an ordinal, from the set's template."""
    template = owner["spec"]["template"]
    made, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    name = f"{meta.name(owner)}-{number}"
    spec["hostname"] = name
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    claimed = {one["metadata"]["name"]: meta.name(one_of) for one, one_of in _pairs(owner, number)}
    volumes = [{"name": title, "persistentVolumeClaim": {"claimName": claim}} for title, claim in claimed.items()]
    volumes += [one for one in spec.get("volumes") or () if one["name"] not in claimed]
    if volumes:
        spec["volumes"] = volumes
    metadata: dict[str, Any] = {
        "name": name,
        "generateName": f"{meta.name(owner)}-",
        "namespace": meta.namespace(owner),
        "labels": {**(made.get("labels") or {}), **labels(owner, number), HASH_LABEL: revision},
        "ownerReferences": [meta.controller_reference(owner)],
        **{part: made[part] for part in ("annotations", "finalizers") if made.get(part)},
    }
    return {**_POD, "metadata": metadata, "spec": spec}


def claims(owner: Mapping[str, Any], number: int) -> list[Object]:
    """The volume claims of an ordinal."""
    return [made for _, made in _pairs(owner, number)]


def owned(
    owner: Mapping[str, Any], claim: Mapping[str, Any], pod: Mapping[str, Any], *, condemned: bool
) -> Sequence[Object]:
    """The owner references of a claim by the set's retention policy: to the set, to the pod, or to neither."""
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    of_pod = condemned and policy.get("whenScaled") == "Delete"
    of_set = policy.get("whenDeleted") == "Delete" and not of_pod
    ours = {("StatefulSet", meta.name(owner)), ("Pod", meta.name(pod))}
    kept = [one for one in meta.owner_references(claim) if (one.get("kind"), one.get("name")) not in ours]
    if any(one.get("controller") for one in kept):
        return meta.owner_references(claim)  # a foreign owner
    wanted = [meta.controller_reference(owner)] if of_set else []
    return [*kept, *wanted, *([meta.controller_reference({**pod, **_POD})] if of_pod else [])]


def is_stale(claim: Mapping[str, Any], pod_name: str) -> bool:
    """Whether a claim is in deletion, or is owned by a former pod of the ordinal."""
    waits_for_pod = any(
        one.get("kind") == "Pod" and one.get("name") == pod_name for one in meta.owner_references(claim)
    )
    return meta.is_deleting(claim) or waits_for_pod


def _pairs(owner: Mapping[str, Any], number: int) -> list[tuple[Object, Object]]:
    """The claim templates, and the claim of each for an ordinal."""
    selected = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
    found: list[tuple[Object, Object]] = []
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        given = template.get("metadata") or {}
        metadata = {
            **given,
            "name": f"{given['name']}-{meta.name(owner)}-{number}",
            "namespace": meta.namespace(owner),
            "labels": {**(given.get("labels") or {}), **selected},
        }
        made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}
        found.append((template, made))
    return found
