"""The PodGroup of pods that come without one: bare pods, and those of ReplicaSets, StatefulSets and Jobs. Pure."""

from collections.abc import Collection
from typing import Any, Final

from rota.api import meta
from rota.api.batch import kinds
from rota.api.meta import Object
from rota.controllers import pod_states
from rota.controllers.batch import job_group

#: Annotations of pods and their owners that a group inherits.
_INHERITED: Final = (
    kinds.PREEMPTABLE,
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
    "volcano.sh/sla-waiting-time",
)


def needs_group(pod: Object, schedulers: Collection[str]) -> bool:
    """Whether a pod is for a batch scheduler and has no group yet."""
    spec = pod.get("spec") or {}
    if spec.get("schedulerName") not in schedulers or pod_states.is_finished(pod) or meta.is_deleting(pod):
        return False
    annotations = meta.annotations(pod)
    return not (annotations.get(kinds.GROUP_NAME) or annotations.get(kinds.OWN_GROUP_NAME))


def name(pod: Object) -> str:
    """The group of a pod: pods of one owner share theirs."""
    owner = meta.controller_of(pod)
    return name_for(meta.uid(pod) if owner is None else str(owner.get("uid", "")))


def name_for(uid: str) -> str:
    """The group of an owner's pods."""
    return f"podgroup-{uid}"


def group(pod: Object, owner: Object | None) -> dict[str, Any]:
    """The group of a pod; `owner` is the object that controls it, if it is known."""
    reference = meta.controller_of(pod)
    annotations = {**meta.annotations(owner or {}), **meta.annotations(pod)}
    given = annotations.get(kinds.MIN_MEMBER, "")
    least = int(given) if given.isdigit() and int(given) > 0 else 1
    one = {"replicas": least, "minAvailable": least, "template": pod, "name": ""}
    spec: dict[str, Any] = {
        "minMember": least,
        "minResources": job_group.min_resources({"tasks": [one], "minAvailable": least}, {}),
    }
    queue = annotations.get(kinds.QUEUE_NAME) or meta.labels(pod).get(kinds.QUEUE_NAME)
    if queue:
        spec["queue"] = queue
    if (pod.get("spec") or {}).get("priorityClassName"):
        spec["priorityClassName"] = pod["spec"]["priorityClassName"]
    own = {"apiVersion": "v1", "kind": "Pod", **pod}
    return {
        "apiVersion": f"{kinds.SCHEDULING}/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name(pod),
            "namespace": meta.namespace(pod),
            "annotations": {key: value for key, value in annotations.items() if key in _INHERITED},
            "ownerReferences": [dict(reference) if reference is not None else meta.controller_reference(own)],
        },
        "spec": spec,
    }
