"""What is left out of a template before it goes to a member: what the control plane's own API server has written."""

from collections.abc import Mapping
from typing import Any, Final

from rota.federation.interpreters import trees

_METADATA: Final = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
    "finalizers",
)
_JOB_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_POD_LABELS: Final = (*_JOB_LABELS, "job-name", "batch.kubernetes.io/job-name")


def pruned(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object as a member should have it; kinds are told apart by their name alone, as upstream does."""
    new = trees.changed(obj)
    for name in _METADATA:
        trees.drop(new, "metadata", name)
    new.pop("status", None)
    special = _KINDS.get(new.get("kind", ""))
    if special is not None:
        special(new)
    return new


def without_ttl(obj: dict[str, Any]) -> None:
    """A Job must not delete itself in a member: the control plane would make it again."""
    if obj.get("kind") == "Job":
        trees.drop(obj, "spec", "ttlSecondsAfterFinished")


def _deployment(obj: dict[str, Any]) -> None:
    for name in ("deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"):
        trees.drop(obj, "metadata", "annotations", name)


def _job(obj: dict[str, Any]) -> None:
    if trees.get(obj, "spec", "manualSelector"):
        return
    for name in _JOB_LABELS:
        trees.drop(obj, "spec", "selector", "matchLabels", name)
    for name in _POD_LABELS:
        trees.drop(obj, "spec", "template", "metadata", "labels", name)


def _secret(obj: dict[str, Any]) -> None:
    if obj.get("type") == "kubernetes.io/service-account-token":
        trees.drop(obj, "metadata", "annotations", "kubernetes.io/service-account.uid")
        obj.pop("data", None)


def _service_account(obj: dict[str, Any]) -> None:
    """Without generated tokens; of two neighbours upstream leaves the second."""
    secrets = list(obj.get("secrets") or ())
    prefix = f"{trees.get(obj, 'metadata', 'name') or ''}-token-"
    place = 0
    while place < len(secrets):
        if str(secrets[place].get("name", "")).startswith(prefix):
            del secrets[place]
        place += 1
    if obj.get("secrets"):
        obj["secrets"] = secrets


def _service(obj: dict[str, Any]) -> None:
    address = trees.get(obj, "spec", "clusterIP")
    if address is not None and address != "None":
        trees.drop(obj, "spec", "clusterIP")
        trees.drop(obj, "spec", "clusterIPs")


def _claim(obj: dict[str, Any]) -> None:
    if trees.get(obj, "metadata", "annotations", "volume.kubernetes.io/selected-node"):
        trees.drop(obj, "metadata", "annotations", "volume.kubernetes.io/selected-node")


_KINDS: Final = {
    "Deployment": _deployment,
    "Job": _job,
    "Secret": _secret,
    "ServiceAccount": _service_account,
    "Service": _service,
    "PersistentVolumeClaim": _claim,
}
