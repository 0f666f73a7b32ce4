"""Which Jobs of a JobFlow start, what they look like, and what the flow has come to. Pure.

A flow starts when its targets are complete. With a probe it starts as soon as all of the probe's conditions hold: pods
of a target's task in a phase, or answers of a target's pods, which the caller asks for. `patch` changes the template's
spec: maps are merged, tasks are merged by their names, any other list is replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta
from rota.api.batch import kinds, other_rules
from rota.api.meta import Object
from rota.api.patches import json_values
from rota.controllers.batch import job_phases, job_status

SUCCEED: Final = "Succeed"
FAILED: Final = "Failed"
RUNNING: Final = "Running"
PENDING: Final = "Pending"
TERMINATING: Final = "Terminating"
OVER: Final = frozenset({SUCCEED, FAILED})
#: The lists of a flow's status by the phases of its Jobs.
_LISTS: Final = {
    "Pending": "pendingJobs",
    "Running": "runningJobs",
    "Restarting": "runningJobs",
    "Completing": "runningJobs",
    "Completed": "completedJobs",
    "Failed": "failedJobs",
    "Aborted": "terminatedJobs",
    "Aborting": "terminatedJobs",
    "Terminated": "terminatedJobs",
    "Terminating": "terminatedJobs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An answer that a flow waits for: of a TCP port, or with a path of an HTTP server."""

    job: str
    task: str
    port: int
    path: str | None = None
    header: tuple[str, str] | None = None


def job_name(flow: Object, one: Mapping[str, Any]) -> str:
    """The Job of one part of a flow."""
    return f"{meta.name(flow)}-{one['name']}"


def job(flow: Object, one: Mapping[str, Any], template: Object) -> dict[str, Any]:
    """The Job of one part of a flow, from its template."""
    spec = json_values.copy(dict(template.get("spec") or {}))
    space = meta.namespace(flow)
    marks = {
        kinds.CREATED_BY_FLOW: f"{space}.{meta.name(flow)}",
        kinds.CREATED_BY_TEMPLATE: f"{space}.{meta.name(template)}",
    }
    return {
        "apiVersion": f"{kinds.BATCH}/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": job_name(flow, one),
            "namespace": space,
            "labels": {**meta.labels(template), **marks},
            "annotations": {
                **{
                    key: value
                    for key, value in meta.annotations(template).items()
                    if key != "kubectl.kubernetes.io/last-applied-configuration"
                },
                **marks,
            },
            "ownerReferences": [meta.controller_reference(flow)],
        },
        "spec": patched(spec, ((one.get("patch") or {}).get("jobSpec")) or {}),
    }


def patched(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A spec with a patch; null removes a field."""
    found = dict(spec)
    for name, value in patch.items():
        present = found.get(name)
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(present, Mapping):
            found[name] = patched(present, value)
        elif name in ("tasks", "containers", "initContainers", "env") and isinstance(present, list):
            found[name] = _by_name(present, value)
        else:
            found[name] = json_values.copy(value)
    return found


def _by_name(present: Sequence[Mapping[str, Any]], changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    wanted = {one.get("name"): one for one in changes}
    merged = [patched(one, wanted.pop(one.get("name"), {})) for one in present]
    return [*merged, *(json_values.copy(dict(one)) for one in wanted.values())]


def startable(flow: Object, jobs: Mapping[str, Object]) -> list[Mapping[str, Any]]:
    """The parts that have no Job yet and whose targets are far enough; those with questions are still to be asked."""
    return [
        one
        for one in (flow.get("spec") or {}).get("flows") or ()
        if job_name(flow, one) not in jobs and _targets_met(flow, one, jobs)
    ]


def _targets_met(flow: Object, one: Mapping[str, Any], jobs: Mapping[str, Object]) -> bool:
    needs = one.get("dependsOn") or {}
    probed = bool(needs.get("probe"))
    for target in needs.get("targets") or ():
        found = jobs.get(job_name(flow, {"name": target}))
        if found is None or not (probed or job_status.phase_of(found) == job_phases.COMPLETED):
            return False
    for target in needs.get("targetsWithStatus") or ():
        found = jobs.get(job_name(flow, target))
        if found is None or job_status.phase_of(found) != (target.get("phase") or job_phases.COMPLETED):
            return False
    if not probed:
        return True
    return all(
        _has_phase(jobs.get(job_name(flow, {"name": target})), wanted)
        for target in other_rules.dependencies(one)
        for wanted in needs["probe"].get("taskStatusList") or ()
    )


def _has_phase(found: Object | None, wanted: Mapping[str, Any]) -> bool:
    """Whether all pods of a task of a Job are in a phase; a Job without that task has nothing to wait for."""
    if found is None:
        return False
    task = next((one for one in found["spec"].get("tasks") or () if one["name"] == wanted.get("taskName")), None)
    if task is None:
        return True
    counted = ((found.get("status") or {}).get("taskStatusCount") or {}).get(task["name"]) or {}
    return int((counted.get("phase") or {}).get(wanted.get("phase") or "", 0)) >= (task.get("replicas") or 0)


def questions(flow: Object, one: Mapping[str, Any], jobs: Mapping[str, Object]) -> list[Question]:
    """What to ask before a part starts."""
    probe = (one.get("dependsOn") or {}).get("probe") or {}
    found: list[Question] = []
    for target in other_rules.dependencies(one):
        name = job_name(flow, {"name": target})
        tasks = {task["name"] for task in (jobs.get(name) or {"spec": {}})["spec"].get("tasks") or ()}
        found += [
            Question(job=name, task=asked.get("taskName") or "", port=asked["port"])
            for asked in probe.get("tcpSocketList") or ()
            if not asked.get("taskName") or asked["taskName"] in tasks
        ]
        for asked in probe.get("httpGetList") or ():
            if asked.get("taskName") and asked["taskName"] not in tasks:
                continue
            header = asked.get("httpHeader")
            found.append(
                Question(
                    job=name,
                    task=asked.get("taskName") or "",
                    port=asked.get("port") or 80,
                    path=asked.get("path") or "/",
                    header=(header["name"], header["value"]) if header else None,
                )
            )
    return found


def status(flow: Object, jobs: Mapping[str, Object], *, missing: Sequence[str]) -> dict[str, Any]:
    """The status of a flow; `missing` are templates that do not exist."""
    parts = (flow.get("spec") or {}).get("flows") or ()
    before = {one.get("name"): one for one in (flow.get("status") or {}).get("jobStatusList") or ()}
    found: dict[str, Any] = {}
    conditions: dict[str, Any] = {}
    lists: dict[str, list[str]] = {}
    described: list[dict[str, Any]] = []
    for one in parts:
        name = job_name(flow, one)
        made = jobs.get(name)
        if made is None:
            continue
        phase = job_status.phase_of(made) or job_phases.PENDING
        lists.setdefault(_LISTS.get(phase, "unKnowJobs"), []).append(name)
        described.append(_described(made, phase, before.get(name) or {}))
        conditions[name] = _condition(made, phase)
    for name, some in lists.items():
        found[name] = sorted(some)
    if described:
        found |= {"jobStatusList": described, "conditions": conditions}
    found["state"] = {"phase": _phase(flow, lists, len(parts), len(described))}
    if missing:
        found["state"]["message"] = f"waits for JobTemplate {', '.join(sorted(missing))}"
    return found


def _phase(flow: Object, lists: Mapping[str, Sequence[str]], parts: int, started: int) -> str:
    if meta.is_deleting(flow):
        return TERMINATING
    if lists.get("failedJobs") or lists.get("terminatedJobs"):
        return FAILED
    if len(lists.get("completedJobs") or ()) == parts:
        return SUCCEED
    return RUNNING if started > len(lists.get("pendingJobs") or ()) else PENDING


def _described(made: Object, phase: str, before: Mapping[str, Any]) -> dict[str, Any]:
    state = made.get("status") or {}
    since = (state.get("state") or {}).get("lastTransitionTime")
    histories = [dict(one) for one in before.get("runningHistories") or ()]
    if since and (not histories or histories[-1].get("state") != phase):
        if histories:
            histories[-1]["endTimestamp"] = since
        histories.append({"startTimestamp": since, "state": phase})
    found = {
        "name": meta.name(made),
        "state": phase,
        "startTimestamp": meta.metadata(made).get("creationTimestamp"),
        "restartCount": state.get("retryCount") or 0,
        "runningHistories": histories,
    }
    if phase in job_phases.FINISHED and since:
        found["endTimestamp"] = since
    return found


def _condition(made: Object, phase: str) -> dict[str, Any]:
    state = made.get("status") or {}
    found = {"phase": phase, "createTime": meta.metadata(made).get("creationTimestamp")}
    for name in ("runningDuration", "taskStatusCount"):
        if state.get(name):
            found[name] = state[name]
    return found
