"""The PodGroup of a Job: what the scheduler starts together. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import meta, quantities, resources
from rota.api.batch import kinds
from rota.api.meta import Object
from rota.controllers.batch import job_phases

#: What a changed Job changes in its group.
_FOLLOWING: Final = ("minMember", "minTaskMember", "minResources", "priorityClassName")


def name(job: Object) -> str:
    """The name of a Job's group: the uid tells Jobs of one name apart."""
    return f"{meta.name(job)}-{meta.uid(job)}"


def group(job: Object, priorities: Mapping[str, int]) -> dict[str, Any]:
    """The group of a Job; `priorities` has the values of priority classes."""
    spec = job["spec"]
    tasks = spec.get("tasks") or ()
    wanted: dict[str, Any] = {
        "minMember": spec.get("minAvailable", 0),
        "minTaskMember": {task["name"]: job_phases.task_minimum(task) for task in tasks},
        "queue": spec.get("queue") or kinds.DEFAULT_QUEUE,
        "minResources": min_resources(spec, priorities),
    }
    for field in ("priorityClassName", "networkTopology"):
        if spec.get(field):
            wanted[field] = spec[field]
    parts = [_sub_groups(task) for task in tasks if task.get("partitionPolicy")]
    if parts:
        wanted["subGroupPolicy"] = parts
    return {
        "apiVersion": f"{kinds.SCHEDULING}/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name(job),
            "namespace": meta.namespace(job),
            "labels": dict(meta.labels(job)),
            "annotations": {
                key: value
                for key, value in meta.annotations(job).items()
                if key != "kubectl.kubernetes.io/last-applied-configuration"
            }
            | ({kinds.RUNNING_ESTIMATE: spec["runningEstimate"]} if spec.get("runningEstimate") else {}),
            "ownerReferences": [meta.controller_reference(job)],
        },
        "spec": wanted,
    }


def changed(present: Object, wanted: Object) -> dict[str, Any]:
    """The fields of a group that a changed Job changes, as a merge patch of its spec; empty if there are none."""
    have, want = present.get("spec") or {}, wanted["spec"]
    return {field: want.get(field) for field in _FOLLOWING if have.get(field) != want.get(field)}


def min_resources(spec: Mapping[str, Any], priorities: Mapping[str, int]) -> dict[str, str]:
    """The requests of the pods that must start: each task's minimum, tasks of higher priority first."""
    left = spec.get("minAvailable", 0)
    tasks = sorted(spec.get("tasks") or (), key=lambda task: -_priority(spec, task, priorities))
    total: dict[str, int] = {}
    shares = [(task, job_phases.task_minimum(task)) for task in tasks]
    shares += [(task, (task.get("replicas") or 0) - job_phases.task_minimum(task)) for task in tasks]
    for task, count in shares:
        taken = min(max(count, 0), left)
        left -= taken
        if taken:
            for resource, amount in resources.pod_requests(task.get("template") or {}).items():
                total[resource] = total.get(resource, 0) + amount * taken
    return {resource: _written(resource, amount) for resource, amount in sorted(total.items())}


def _priority(spec: Mapping[str, Any], task: Mapping[str, Any], priorities: Mapping[str, int]) -> int:
    named = ((task.get("template") or {}).get("spec") or {}).get("priorityClassName") or spec.get("priorityClassName")
    return priorities.get(named or "", 0)


def _written(resource: str, amount: int) -> str:
    if resource == resources.CPU:
        return str(quantities.from_milli(amount))
    binary = resource in (resources.MEMORY, resources.EPHEMERAL_STORAGE)
    return str(quantities.from_value(amount, quantities.Format.BINARY_SI if binary else quantities.Format.DECIMAL_SI))


def _sub_groups(task: Mapping[str, Any]) -> dict[str, Any]:
    policy = task["partitionPolicy"]
    made: dict[str, Any] = {
        "name": task["name"],
        "subGroupSize": policy["partitionSize"],
        "minSubGroups": policy.get("minPartitions") or 0,
        "labelSelector": {"matchLabels": {kinds.TASK_SPEC: task["name"]}},
        "matchLabelKeys": [kinds.PARTITION],
    }
    if policy.get("networkTopology"):
        made["networkTopology"] = policy["networkTopology"]
    return made
