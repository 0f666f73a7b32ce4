"""The pods of a Job: which there should be, and what each of them looks like. Pure.

A pod's name is `<job>-<task>-<index>`. Plugins of the Job (`plugins/`) complete it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import meta
from rota.api.batch import kinds
from rota.api.meta import Object
from rota.api.patches import json_values
from rota.controllers import pod_states
from rota.controllers.batch import job_events, job_group, job_phases
from rota.controllers.batch.plugins import registry
from rota.controllers.batch.plugins.plugin import mount

#: Annotations of a Job that its pods inherit.
_INHERITED: Final = (
    kinds.PREEMPTABLE,
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
    "volcano.sh/numa-topology-policy",
)
#: Where a claim of the Job that is created for it has its name.
_CLAIM_KEY: Final = "volume-pvc-"


def name(job: Object, task: Mapping[str, Any], index: int) -> str:
    """The name of a pod."""
    return f"{meta.name(job)}-{task['name']}-{index}"


def missing(job: Object, pods: Iterable[Object]) -> list[tuple[Mapping[str, Any], int]]:
    """The pods to create: tasks and indexes, of tasks whose dependencies are met."""
    present = [*pods]
    taken = {meta.name(one) for one in present}
    return [
        (task, index)
        for task in job["spec"].get("tasks") or ()
        if dependencies_met(job, task, present)
        for index in range(task.get("replicas") or 0)
        if name(job, task, index) not in taken
    ]


def superfluous(job: Object, pods: Iterable[Object]) -> list[Object]:
    """The pods beyond the size of their tasks."""
    sizes = {task["name"]: task.get("replicas") or 0 for task in job["spec"].get("tasks") or ()}
    return [
        one
        for one in pods
        if job_events.index_of(one) >= sizes.get(job_events.task_of(one), 0) and not meta.is_deleting(one)
    ]


def dependencies_met(job: Object, task: Mapping[str, Any], pods: Sequence[Object]) -> bool:
    """Whether the tasks that a task depends on have enough pods that are ready or have succeeded."""
    needs = task.get("dependsOn") or {}
    wanted = needs.get("name") or ()
    if not wanted:
        return True
    tasks = {one["name"]: one for one in job["spec"].get("tasks") or ()}

    def met(other: str) -> bool:
        ready = sum(
            job_events.task_of(one) == other
            and not meta.is_deleting(one)
            and (pod_states.is_ready(one) or pod_states.phase(one) == "Succeeded")
            for one in pods
        )
        return ready >= job_phases.task_minimum(tasks[other])

    return (any if needs.get("iteration") == "any" else all)(met(other) for other in wanted)


def pod(job: Object, task: Mapping[str, Any], index: int) -> dict[str, Any]:
    """A pod with the marks of its Job, before and after the Job's plugins."""
    template = json_values.copy(dict(task.get("template") or {}))
    given, spec, status = template.get("metadata") or {}, job["spec"], job.get("status") or {}
    group = job_group.name(job)
    partitions = task.get("partitionPolicy") or {}
    identity = {
        kinds.JOB_NAME: meta.name(job),
        kinds.TASK_SPEC: task["name"],
        kinds.JOB_QUEUE: spec.get("queue") or kinds.DEFAULT_QUEUE,
    }
    labels = {
        **(given.get("labels") or {}),
        **identity,
        kinds.JOB_NAMESPACE: meta.namespace(job),
        kinds.TASK_INDEX: str(index),
    }
    if partitions.get("partitionSize"):
        labels[kinds.PARTITION] = str(index // partitions["partitionSize"])
    annotations = {
        **{key: value for key, value in meta.annotations(job).items() if key in _INHERITED},
        **(given.get("annotations") or {}),
        **identity,
        kinds.GROUP_NAME: group,
        kinds.OWN_GROUP_NAME: group,
        kinds.TASK_INDEX: str(index),
        kinds.JOB_VERSION: str(status.get("version") or 0),
        kinds.JOB_RETRIES: str(status.get("retryCount") or 0),
        kinds.TEMPLATE_UID: f"{meta.uid(job)}-{task['name']}",
    }
    if task.get("topologyPolicy"):
        annotations["volcano.sh/numa-topology-policy"] = task["topologyPolicy"]
    content = dict(template.get("spec") or {})
    content["schedulerName"] = content.get("schedulerName") or spec.get("schedulerName") or kinds.SCHEDULER
    if spec.get("priorityClassName") and not content.get("priorityClassName"):
        content["priorityClassName"] = spec["priorityClassName"]
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(job, task, index),
            "namespace": meta.namespace(job),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [meta.controller_reference(job)],
        },
        "spec": content,
    }
    _mount_claims(job, made)
    for plugin in registry.plugins_of(job):
        plugin.shape(made, job, task, index)
    return made


def claims(job: Object) -> list[dict[str, Any]]:
    """The claims that are created for a Job."""
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim_name(job, position),
                "namespace": meta.namespace(job),
                "ownerReferences": [meta.controller_reference(job)],
            },
            "spec": json_values.copy(volume["volumeClaim"]),
        }
        for position, volume in enumerate(job["spec"].get("volumes") or ())
        if not volume.get("volumeClaimName")
    ]


def claim_name(job: Object, position: int) -> str:
    """The claim of a Job's volume."""
    volume = job["spec"]["volumes"][position]
    return str(volume.get("volumeClaimName") or f"{meta.name(job)}-volume-{position}")


def controlled_claims(job: Object) -> dict[str, str]:
    """The claims of a Job as its status lists them."""
    found = {}
    for position, volume in enumerate(job["spec"].get("volumes") or ()):
        claim = claim_name(job, position)
        found[f"{_CLAIM_KEY}{claim}" if not volume.get("volumeClaimName") else f"volume-existing-pvc-{claim}"] = claim
    return found


def _mount_claims(job: Object, made: dict[str, Any]) -> None:
    for position, volume in enumerate(job["spec"].get("volumes") or ()):
        source = {"persistentVolumeClaim": {"claimName": claim_name(job, position)}}
        mount(made, f"volume-{position}", source, volume["mountPath"])
