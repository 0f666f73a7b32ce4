"""The workload that a pod belongs to, as far as the pod itself shows it."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rota.api import meta

HASH_LABEL: Final = "pod-template-hash"


class Workload(NamedTuple):
    """The kind and the name of a workload, in the namespace of its pods."""

    kind: str
    name: str


def workloads(pod: Mapping[str, Any]) -> tuple[Workload, ...]:
    """The controller of a pod, preceded by the Deployment that owns it if it is a ReplicaSet of one.

    The ReplicaSets of a Deployment have its name and the hash of their template, which their pods carry as a label.
    """
    owner = meta.controller_of(pod)
    if owner is None:
        return ()
    direct = Workload(owner.get("kind", ""), owner.get("name", ""))
    template = meta.labels(pod).get(HASH_LABEL, "")
    if direct.kind == "ReplicaSet" and template and direct.name.endswith(f"-{template}"):
        return (Workload("Deployment", direct.name.removesuffix(f"-{template}")), direct)
    return (direct,)
