"""Exclusive workloads: those that must not run in two clusters at the same time, not even when the network is divided.

A StatefulSet is exclusive, and so is any resource with the annotation `rota.dev/exclusive: "true"`; the value "false"
exempts a StatefulSet. The agent of a member stops exclusive workloads itself when its Lease has not been renewed for
the time that it declares on the Lease (T1). The control plane starts them elsewhere after T1, the time that stopping
takes, and a margin (together T2), counted from the last renewal that it saw. Pure: times are arguments.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation import object_names
from rota.federation.interpreters import trees

Object: TypeAlias = Mapping[str, Any]

#: On a resource, whether it is exclusive; as a label on Works and on objects in members, that it is.
EXCLUSIVE: Final = "rota.dev/exclusive"
#: On the Lease of an agent: after how many seconds without renewal it stops exclusive workloads.
FENCE_AFTER: Final = "rota.dev/fence-after-seconds"
#: Kubernetes' default of terminationGracePeriodSeconds.
_GRACE_S: Final = 30.0
_STATEFUL_SET: Final = ("apps/v1", "StatefulSet")


def is_exclusive(resource: Object) -> bool:
    """Whether a resource must not run in two clusters at once."""
    said = meta.annotations(resource).get(EXCLUSIVE)
    if said is not None:
        return said == "true"
    return (resource.get("apiVersion"), resource.get("kind")) == _STATEFUL_SET


def is_marked(obj: Object) -> bool:
    """Whether a Work, or an object in a member, is of an exclusive workload."""
    return meta.labels(obj).get(EXCLUSIVE) == "true"


def mark(work: dict[str, Any]) -> None:
    """Label a Work and its manifests, so that engines and agents recognise them."""
    trees.put(work, "true", "metadata", "labels", EXCLUSIVE)
    for manifest in work["spec"]["workload"]["manifests"]:
        trees.put(manifest, "true", "metadata", "labels", EXCLUSIVE)


def fence_after_s(lease: Object) -> float | None:
    """T1 of the agent that holds a Lease; None if it declares none, so that nothing stops the workloads."""
    try:
        found = float(meta.annotations(lease).get(FENCE_AFTER) or "")
    except ValueError:
        return None
    return found if found > 0 else None


def stopping_s(work: Object) -> float:
    """The longest grace period of the pods of a Work's manifests."""
    found = [_GRACE_S]
    carried = ((work.get("spec") or {}).get("workload") or {}).get("manifests") or ()
    for manifest in carried:
        pod = trees.get(manifest, "spec", "template", "spec") or (
            manifest.get("spec") if manifest.get("kind") == "Pod" else None
        )
        if isinstance(pod, Mapping):
            said = pod.get("terminationGracePeriodSeconds")
            found.append(_GRACE_S if said is None else float(said))
    return max(found[1:] or found)


@dataclass(frozen=True, slots=True)
class Holder:
    """A cluster that may still run a share of the workload that it has to give up, and the time until it cannot."""

    cluster: str
    remaining_s: float


def leaving(present: Iterable[Object], wanted: Iterable[Object]) -> list[Object]:
    """The Works whose cluster still has more of the workload than it should: all of it, or more replicas."""
    targets = {meta.namespace(work): work for work in wanted}
    return [
        work
        for work in present
        if meta.is_deleting(work)
        or meta.namespace(work) not in targets
        or reported_replicas(work) > replicas(targets[meta.namespace(work)])
    ]


def grows(work: Object, known: Object | None) -> bool:
    """Whether a Work starts something that its cluster does not run yet."""
    return known is None or replicas(work) > replicas(known)


def replicas(work: Object) -> int:
    """The replicas that a Work asks for; a workload without replicas counts as one."""
    carried = ((work.get("spec") or {}).get("workload") or {}).get("manifests") or ()
    return sum(int(_or(trees.get(manifest, "spec", "replicas"), 1)) for manifest in carried)


def reported_replicas(work: Object) -> int:
    """The replicas that a member reports of a Work."""
    items = (work.get("status") or {}).get("manifestStatuses") or ()
    return sum(int(_or(trees.get(item, "status", "replicas"), 0)) for item in items)


def cluster_of(work: Object) -> str:
    """The cluster of a Work."""
    return object_names.cluster_of(meta.namespace(work)) or ""


def longest(holders: Iterable[Holder]) -> Holder | None:
    """The holder that has to be waited for the longest, if any has to."""
    waiting = [holder for holder in holders if holder.remaining_s > 0]
    return max(waiting, key=lambda holder: holder.remaining_s, default=None)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
