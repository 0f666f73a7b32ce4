"""Which rules apply to a request for one of Volcano's kinds: the one table behind native admission and webhooks. Pure.

A caller asks `needs_queues`, reads them if so, and calls `defaults`, then `errors`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from rota.api import fields, meta
from rota.api.batch import job_rules, kinds, other_rules, queue_rules
from rota.api.batch.job_rules import TemplateCheck

Object: TypeAlias = Mapping[str, Any]
#: A group and a plural.
Resource: TypeAlias = tuple[str, str]

JOBS: Final = (kinds.BATCH, "jobs")
CRON_JOBS: Final = (kinds.BATCH, "cronjobs")
COMMANDS: Final = (kinds.BUS, "commands")
JOB_FLOWS: Final = (kinds.FLOW, "jobflows")
POD_GROUPS: Final = (kinds.SCHEDULING, "podgroups")
QUEUES: Final = (kinds.SCHEDULING, "queues")
HYPER_NODES: Final = (kinds.TOPOLOGY, "hypernodes")
PODS: Final = ("", "pods")
#: Every resource with rules.
RESOURCES: Final = frozenset({JOBS, CRON_JOBS, COMMANDS, JOB_FLOWS, POD_GROUPS, QUEUES, HYPER_NODES, PODS})


def needs_queues(resource: Resource, new: Object | None, old: Object | None) -> bool:
    """Whether the rules of a request look at the queues of the cluster."""
    if resource == QUEUES:
        return new is None or old is None or new.get("spec") != old.get("spec") or _hierarchy(new) != _hierarchy(old)
    if resource == CRON_JOBS:
        return new is not None and (old is None or new.get("spec") != old.get("spec"))
    return resource in (JOBS, POD_GROUPS) and old is None


def changes_queue(new: Object, old: Object) -> bool:
    """Whether a group moves to another queue."""
    was, now = ((one.get("spec") or {}).get("queue") or kinds.DEFAULT_QUEUE for one in (old, new))
    return bool(was != now)


def queue_errors(group: Object, pods: Iterable[Object]) -> list[fields.FieldError]:
    """Why a group cannot move to another queue: bound pods would be in a queue that nothing has let them into."""
    for pod in pods:
        annotations, status = meta.annotations(pod), pod.get("status") or {}
        mine = meta.name(group) in (annotations.get(kinds.GROUP_NAME), annotations.get(kinds.OWN_GROUP_NAME))
        if mine and (pod.get("spec") or {}).get("nodeName") and status.get("phase") not in ("Succeeded", "Failed"):
            why = f"pod {meta.name(pod)} of the group has a node; delete its pods, or create a group in the other queue"
            return [fields.forbidden(fields.Path("spec").child("queue"), why)]
    return []


def set_defaults(resource: Resource, new: dict[str, Any], old: Object | None, namespace: Object | None) -> None:
    """Fill in what a new object leaves out; changed objects have had their defaults, except queues and CronJobs."""
    if resource == QUEUES:
        queue_rules.set_defaults(new)
    elif resource == CRON_JOBS:
        other_rules.default_cron_job(new)
    elif old is None and resource == JOBS:
        job_rules.set_defaults(new)
    elif old is None and resource == POD_GROUPS:
        other_rules.default_group(new, namespace)


def errors(
    resource: Resource,
    new: Object,
    old: Object | None,
    queues: Mapping[str, Object],
    check_template: TemplateCheck | None = None,
) -> list[fields.FieldError]:
    """All errors of a new or changed object."""
    if old is not None and (new.get("metadata") or {}).get("deletionTimestamp"):
        return []  # only finalizers change now, and an object that has become invalid must be able to go
    if resource == JOBS:
        return job_rules.check(new, queues, check_template) if old is None else job_rules.check_update(new, old)
    if resource == QUEUES:
        return queue_rules.check(new, queues, old) if needs_queues(resource, new, old) else []
    if resource == POD_GROUPS:
        spec = new.get("spec") or {}
        return other_rules.check_group(new, queues) if old is None else other_rules.check_group_spec(spec)
    if resource == CRON_JOBS:
        changed = needs_queues(resource, new, old)
        return other_rules.check_cron_job(new, queues, check_template) if changed else []
    if resource == JOB_FLOWS:
        return other_rules.check_flow(new)
    if resource == HYPER_NODES:
        return other_rules.check_hyper_node(new)
    if resource == COMMANDS and old is None:
        return other_rules.check_command(new)
    return other_rules.check_pod(new) if resource == PODS else []


def deletion_refusal(resource: Resource, old: Object, queues: Mapping[str, Object]) -> str:
    """Why an object may not be deleted; empty if it may."""
    return queue_rules.check_delete(old, queues) if resource == QUEUES else ""


def _hierarchy(queue: Object) -> tuple[Any, Any]:
    annotations = (queue.get("metadata") or {}).get("annotations") or {}
    return annotations.get(queue_rules.HIERARCHY), annotations.get(queue_rules.WEIGHTS)
