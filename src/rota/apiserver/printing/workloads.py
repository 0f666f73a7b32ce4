"""Workloads: deployments, replica sets, stateful sets, daemon sets, jobs, cron jobs and disruption budgets."""

from typing import Any, Final

from rota.api import identifiers, times
from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations, texts
from rota.apiserver.printing.columns import (
    NONE,
    UNSET,
    Cells,
    Object,
    Printer,
    Printers,
    age,
    at,
    columns,
    holds,
    items,
    name,
    terminating,
)


def _number(obj: Object, *path: str) -> int:
    return at(obj, *path) or 0


def _template_and_selector(spec: Any) -> Cells:
    return [*texts.containers(at(spec, "template")), texts.selector(at(spec, "selector"))]


def _deployment(obj: Object, now: float) -> Cells:
    selector = texts.selector(at(obj, "spec", "selector"), broken="<invalid>")
    return [
        name(obj),
        f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}",
        _number(obj, "status", "updatedReplicas"),
        _number(obj, "status", "availableReplicas"),
        age(obj, now),
        *texts.containers(at(obj, "spec", "template")),
        # unlike all others, a deployment with an empty selector shows nothing here
        "" if selector == NONE else selector,
    ]


def _replicas(obj: Object, now: float) -> Cells:
    return [
        name(obj),
        _number(obj, "spec", "replicas"),
        _number(obj, "status", "replicas"),
        _number(obj, "status", "readyReplicas"),
        age(obj, now),
    ]


def _replica_set(obj: Object, now: float) -> Cells:
    return _replicas(obj, now) + _template_and_selector(at(obj, "spec"))


def _replication_controller(obj: Object, now: float) -> Cells:
    wide = [*texts.containers(at(obj, "spec", "template")), texts.labels(at(obj, "spec", "selector"))]
    return _replicas(obj, now) + wide


def _stateful_set(obj: Object, now: float) -> Cells:
    ready = f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}"
    return [name(obj), ready, age(obj, now), *texts.containers(at(obj, "spec", "template"))]


_DAEMON_COUNTS: Final = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def _daemon_set(obj: Object, now: float) -> Cells:
    return [
        name(obj),
        *(_number(obj, "status", key) for key in _DAEMON_COUNTS),
        texts.labels(at(obj, "spec", "template", "spec", "nodeSelector")),
        age(obj, now),
        *_template_and_selector(at(obj, "spec")),
    ]


def _job(obj: Object, now: float) -> Cells:
    return [
        name(obj),
        _job_status(obj),
        _completions(obj),
        _job_duration(obj, now),
        age(obj, now),
        *_template_and_selector(at(obj, "spec")),
    ]


def _job_status(obj: Object) -> str:
    for finished in ("Complete", "Failed"):
        if holds(obj, finished):
            return finished
    if terminating(obj):
        return "Terminating"
    return next((word for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if holds(obj, word)), "Running")


def _completions(obj: Object) -> str:
    succeeded, wanted = _number(obj, "status", "succeeded"), at(obj, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = _number(obj, "spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(obj: Object, now: float) -> str:
    started, completed = at(obj, "status", "startTime"), at(obj, "status", "completionTime")
    if not started:
        return ""
    return durations.human((times.parse(completed) if completed else now) - times.parse(started))


def _cron_job(obj: Object, now: float) -> Cells:
    suspend, last = at(obj, "spec", "suspend"), at(obj, "status", "lastScheduleTime")
    return [
        name(obj),
        at(obj, "spec", "schedule") or "",
        NONE if at(obj, "spec", "timeZone") is None else at(obj, "spec", "timeZone"),
        UNSET if suspend is None else str(suspend),
        len(items(obj, "status", "active")),
        durations.since(last, now) if last else NONE,
        age(obj, now),
        *_template_and_selector(at(obj, "spec", "jobTemplate", "spec")),
    ]


def _controller_revision(obj: Object, now: float) -> Cells:
    owners = (one for one in items(obj, "metadata", "ownerReferences") if one.get("controller"))
    owner = next(owners, None)
    return [name(obj), _owner(owner) if owner else NONE, _number(obj, "revision"), age(obj, now)]


def _owner(reference: Object) -> str:
    group_version = identifiers.parse_api_version(reference.get("apiVersion") or "")
    kind = identifiers.GroupKind(group_version.group if group_version else "", reference.get("kind") or "")
    return f"{str(kind).lower()}/{reference.get('name')}"


def _disruption_budget(obj: Object, now: float) -> Cells:
    limits = (at(obj, "spec", key) for key in ("minAvailable", "maxUnavailable"))
    return [
        name(obj),
        *("N/A" if limit is None else str(limit) for limit in limits),
        _number(obj, "status", "disruptionsAllowed"),
        age(obj, now),
    ]


def _scale(obj: Object, now: float) -> Cells:
    return [name(obj), _number(obj, "spec", "replicas"), _number(obj, "status", "replicas"), age(obj, now)]


_WIDE: Final = """
            Containers | string wide | The names of the containers in the template.
            Images     | string wide | The images of the containers in the template.
            Selector   | string wide | Which pods belong to it.
"""
_REPLICAS: Final = f"""
            Name       | string name | The name of the object.
            Desired    | integer     | How many pods there should be.
            Current    | integer     | How many pods there are.
            Ready      | integer     | How many of them are ready.
            Age        | string      | How long the object has existed.
            {_WIDE.strip()}
"""

#: The scale subresource of any kind.
SCALE: Final = Printer(
    columns=columns("""
        Name      | string  | The name of the scaled object.
        Desired   | integer | How many pods there should be.
        Available | integer | How many pods there are.
        Age       | string  | How long the object has existed.
    """),
    cells=_scale,
)

PRINTERS: Final[Printers] = {
    GroupResource("apps", "deployments"): Printer(
        columns=columns(f"""
            Name       | string name | The name of the deployment.
            Ready      | string      | How many pods are ready, of how many there should be.
            Up-to-date | string      | How many pods follow the present template.
            Available  | string      | How many pods have been ready for long enough.
            Age        | string      | How long the deployment has existed.
            {_WIDE.strip()}
        """),
        cells=_deployment,
    ),
    GroupResource("apps", "replicasets"): Printer(columns=columns(_REPLICAS), cells=_replica_set),
    GroupResource("", "replicationcontrollers"): Printer(columns=columns(_REPLICAS), cells=_replication_controller),
    GroupResource("apps", "statefulsets"): Printer(
        columns=columns("""
            Name       | string name | The name of the stateful set.
            Ready      | string      | How many pods are ready, of how many there should be.
            Age        | string      | How long the stateful set has existed.
            Containers | string wide | The names of the containers in the template.
            Images     | string wide | The images of the containers in the template.
        """),
        cells=_stateful_set,
    ),
    GroupResource("apps", "daemonsets"): Printer(
        columns=columns(f"""
            Name          | string name | The name of the daemon set.
            Desired       | integer     | On how many nodes its pod should run.
            Current       | integer     | On how many of these there is a pod.
            Ready         | integer     | On how many of these the pod is ready.
            Up-to-date    | integer     | On how many of these the pod follows the present template.
            Available     | integer     | On how many of these the pod has been ready for long enough.
            Node Selector | string      | Which nodes the pods ask for.
            Age           | string      | How long the daemon set has existed.
            {_WIDE.strip()}
        """),
        cells=_daemon_set,
    ),
    GroupResource("apps", "controllerrevisions"): Printer(
        columns=columns("""
            Name       | string name | The name of the revision.
            Controller | string      | The object whose state this is.
            Revision   | string      | The number of the state.
            Age        | string      | How long the revision has existed.
        """),
        cells=_controller_revision,
    ),
    GroupResource("batch", "jobs"): Printer(
        columns=columns(f"""
            Name        | string name | The name of the job.
            Status      | string      | What the job is doing, in one word.
            Completions | string      | How many pods have succeeded, of how many must.
            Duration    | string      | How long the job has been running, or ran.
            Age         | string      | How long the job has existed.
            {_WIDE.strip()}
        """),
        cells=_job,
    ),
    GroupResource("batch", "cronjobs"): Printer(
        columns=columns(f"""
            Name          | string name | The name of the cron job.
            Schedule      | string      | When jobs are started, in cron's notation.
            Timezone      | string      | The time zone of the schedule.
            Suspend       | boolean     | Whether no further jobs are started.
            Active        | integer     | How many jobs are running.
            Last Schedule | string      | How long ago a job was last due.
            Age           | string      | How long the cron job has existed.
            {_WIDE.strip()}
        """),
        cells=_cron_job,
    ),
    GroupResource("policy", "poddisruptionbudgets"): Printer(
        columns=columns("""
            Name                | string name | The name of the budget.
            Min Available       | string      | How many pods must stay, as a number or a percentage.
            Max Unavailable     | string      | How many pods may be away, as a number or a percentage.
            Allowed Disruptions | integer     | How many pods may be evicted now.
            Age                 | string      | How long the budget has existed.
        """),
        cells=_disruption_budget,
    ),
}
