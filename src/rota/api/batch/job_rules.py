"""Defaults and validation of a Job: the rules of upstream's webhooks. Pure.

A rule that looks at queues gets them as an argument. Pod templates are checked for unknown fields and wrong types here;
the native server also validates them as it validates pods.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import durations, fields, meta, names, schemas
from rota.api.batch import graphs, kinds, plugin_arguments, policies

Object: TypeAlias = Mapping[str, Any]
Found: TypeAlias = list[fields.FieldError]
#: Validates a pod template.
TemplateCheck: TypeAlias = Callable[[Object, fields.Path], Found]

SPEC: Final = fields.Path("spec")
PLUGINS: Final = tuple(plugin_arguments.FLAGS)
MAX_RETRY: Final = 3
#: Pods of a job at most, as stock Kubernetes limits an indexed Job: its controller compares all of them.
MOST_REPLICAS: Final = 100_000
_NEEDED: Final = {
    "tensorflow": ("svc",),
    "pytorch": ("svc",),
    "ray": ("svc",),
    "mpi": ("svc", "ssh"),
}
#: What may change of a job, and of a task, besides the number of pods.
_MUTABLE: Final = frozenset({"minAvailable", "tasks", "priorityClassName"})
_MUTABLE_IN_TASK: Final = frozenset({"replicas", "minAvailable"})


def set_defaults(job: dict[str, Any]) -> None:
    """Fill in what a job leaves out."""
    set_spec_defaults(job.setdefault("spec", {}))


def set_spec_defaults(spec: dict[str, Any]) -> None:
    """Fill in what the spec of a job leaves out."""
    spec["queue"] = spec.get("queue") or kinds.DEFAULT_QUEUE
    spec["schedulerName"] = spec.get("schedulerName") or kinds.SCHEDULER
    spec["maxRetry"] = spec.get("maxRetry") or MAX_RETRY
    for position, task in enumerate(spec.get("tasks") or ()):
        _default_task(task, position)
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(task["minAvailable"] for task in spec.get("tasks") or ())
    plugins = spec.get("plugins") or {}
    for name in [*plugins]:
        for needed in _NEEDED.get(name, ()):
            plugins.setdefault(needed, [])
    _default_topology(spec)


def _default_task(task: dict[str, Any], position: int) -> None:
    task["name"] = task.get("name") or f"default{position}"
    partitions = task.get("partitionPolicy")
    if partitions and not task.get("replicas"):
        task["replicas"] = (partitions.get("totalPartitions") or 0) * (partitions.get("partitionSize") or 0)
    task["replicas"] = task.get("replicas") or 0
    if task.get("minAvailable") is None:
        task["minAvailable"] = task["replicas"]
    task["maxRetry"] = task.get("maxRetry") or MAX_RETRY
    template = task.get("template")
    pod = template.get("spec") if isinstance(template, dict) else None
    if isinstance(pod, dict) and pod.get("hostNetwork") and not pod.get("dnsPolicy"):
        pod["dnsPolicy"] = "ClusterFirstWithHostNet"
    if partitions:
        _default_topology(partitions)


def _default_topology(holder: dict[str, Any]) -> None:
    topology = holder.get("networkTopology")
    if topology and not topology.get("highestTierName") and topology.get("highestTierAllowed") is None:
        topology["highestTierAllowed"] = 1


def check(job: Object, queues: Mapping[str, Object], check_template: TemplateCheck | None = None) -> Found:
    """All errors of a new job; `queues` has the queues of the cluster by name."""
    spec = job.get("spec") or {}
    found = check_spec(spec, SPEC, check_template)
    found += check_queue(spec.get("queue") or kinds.DEFAULT_QUEUE, queues, SPEC.child("queue"), "job")
    for position, task in enumerate(spec.get("tasks") or ()):
        last = f"{meta.name(job)}-{task.get('name', '')}-{max((task.get('replicas') or 0) - 1, 0)}"
        for why in names.check_dns1123_subdomain(last):
            found.append(fields.invalid(SPEC.child("tasks").index(position).child("name"), last, f"pod name: {why}"))
    return found


def check_spec(spec: Object, path: fields.Path, check_template: TemplateCheck | None = None) -> Found:
    """All errors of the spec of a job that can be seen without the cluster."""
    found = [
        fields.invalid(path.child(name), spec[name], "must be greater than or equal to 0")
        for name in ("minAvailable", "maxRetry", "ttlSecondsAfterFinished")
        if (spec.get(name) or 0) < 0
    ]
    tasks = spec.get("tasks") or ()
    if not tasks:
        return [*found, fields.required(path.child("tasks"), "no task specified in job spec")]
    found += _check_tasks(tasks, path.child("tasks"), check_template)
    found += check_sizes(spec, path)
    found += policies.check(spec.get("policies") or (), path.child("policies"))
    for name, arguments in (spec.get("plugins") or {}).items():
        if name not in PLUGINS:
            found.append(fields.not_supported(path.child("plugins"), name, PLUGINS))
            continue
        try:
            plugin_arguments.parse(name, arguments or ())
        except plugin_arguments.ArgumentError as problem:
            found.append(fields.invalid(path.child("plugins").key(name), " ".join(arguments), str(problem)))
    found += _check_volumes(spec.get("volumes") or (), path.child("volumes"))
    found += check_topology(spec.get("networkTopology"), path.child("networkTopology"))
    estimate = spec.get("runningEstimate")
    if estimate is not None and (durations.duration(estimate) or 0) <= 0:
        found.append(fields.invalid(path.child("runningEstimate"), estimate, 'must be a duration such as "30m"'))
    return found


def check_update(new: Object, old: Object) -> Found:
    """All errors of a changed job: its size and its priority may change, and nothing else."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    found = [
        fields.forbidden(SPEC.child(name), "may not change; minAvailable, priorityClassName and replicas may")
        for name in sorted({*after, *before} - _MUTABLE)
        if after.get(name) != before.get(name)
    ]
    tasks, known = after.get("tasks") or (), before.get("tasks") or ()
    if len(tasks) != len(known):
        return [*found, fields.forbidden(SPEC.child("tasks"), "job updates may not add or remove tasks")]
    for position, (task, former) in enumerate(zip(tasks, known, strict=True)):
        for name in sorted({*task, *former} - _MUTABLE_IN_TASK):
            if task.get(name) != former.get(name):
                at = SPEC.child("tasks").index(position).child(name)
                found.append(fields.forbidden(at, "may not change; replicas and minAvailable may"))
    return found + check_sizes(after, SPEC)


def check_sizes(spec: Object, path: fields.Path) -> Found:
    """Whether minimums are within the numbers of pods."""
    found: Found = []
    tasks = spec.get("tasks") or ()
    for position, task in enumerate(tasks):
        at, replicas, least = path.child("tasks").index(position), task.get("replicas") or 0, task.get("minAvailable")
        if replicas < 0:
            found.append(fields.invalid(at.child("replicas"), replicas, "must be greater than or equal to 0"))
        if least is not None and least < 0:
            found.append(fields.invalid(at.child("minAvailable"), least, "must be greater than or equal to 0"))
        if least is not None and least > max(replicas, 0):
            found.append(fields.invalid(at.child("minAvailable"), least, f"must not exceed replicas ({replicas})"))
        found += _check_partitions(task, at)
    total = sum(max(task.get("replicas") or 0, 0) for task in tasks)
    if total > MOST_REPLICAS:
        found.append(fields.invalid(path.child("tasks"), total, f"replicas of all tasks: at most {MOST_REPLICAS}"))
    if (spec.get("minAvailable") or 0) > total:
        why = f"must not be greater than total replicas in tasks ({total})"
        found.append(fields.invalid(path.child("minAvailable"), spec["minAvailable"], why))
    return found


def check_queue(name: str, queues: Mapping[str, Object], path: fields.Path, what: str) -> Found:
    """Whether new work may go to a queue: it exists, is open, and is a leaf."""
    queue = queues.get(name)
    if name == kinds.ROOT_QUEUE:
        return [fields.forbidden(path, f"can not submit {what} to root queue")]
    if queue is None:
        return [fields.invalid(path, name, f"unable to find {what} queue: create it, or name another")]
    state = (queue.get("status") or {}).get("state") or "Open"
    if state != "Open":
        return [fields.forbidden(path, f"can only submit {what} to queue with state Open, queue {name} is {state}")]
    children = sorted(meta.name(one) for one in queues.values() if (one.get("spec") or {}).get("parent") == name)
    if children:
        why = f"can only submit {what} to leaf queue, queue {name} has the children {', '.join(children[:5])}"
        return [fields.forbidden(path, why)]
    return []


def check_topology(topology: Object | None, path: fields.Path) -> Found:
    """Whether a network topology names its highest tier in one way."""
    if topology and topology.get("highestTierName") and topology.get("highestTierAllowed") is not None:
        return [fields.forbidden(path, "must not specify highestTierAllowed and highestTierName simultaneously")]
    return []


def _check_tasks(tasks: Sequence[Object], path: fields.Path, check_template: TemplateCheck | None) -> Found:
    found: Found = []
    known: set[str] = set()
    for position, task in enumerate(tasks):
        at, name = path.index(position), task.get("name") or ""
        found += [fields.invalid(at.child("name"), name, why) for why in names.check_dns1123_label(name)]
        if name in known:
            found.append(fields.duplicate(at.child("name"), name))
        known.add(name)
        found += policies.check(task.get("policies") or (), at.child("policies"))
        found += _check_template(task.get("template"), at.child("template"), check_template)
        partitions = task.get("partitionPolicy") or {}
        found += check_topology(partitions.get("networkTopology"), at.child("partitionPolicy", "networkTopology"))
    needs = {task.get("name") or "": (task.get("dependsOn") or {}).get("name") or () for task in tasks}
    for position, task in enumerate(tasks):
        at = path.index(position).child("dependsOn")
        for name in needs[task.get("name") or ""]:
            if name not in known:
                found.append(fields.invalid(at.child("name"), name, "there is no such task"))
        iteration = (task.get("dependsOn") or {}).get("iteration") or "all"
        if iteration not in ("any", "all"):
            found.append(fields.not_supported(at.child("iteration"), iteration, ("any", "all")))
    if around := graphs.cycle(needs):
        why = f"job has dependencies between tasks that do not form a directed acyclic graph: {' -> '.join(around)}"
        found.append(fields.forbidden(path, why))
    return found


def _check_template(template: Any, path: fields.Path, check_template: TemplateCheck | None) -> Found:
    if not isinstance(template, Mapping) or not template.get("spec"):
        return [fields.required(path.child("spec"))]
    try:
        cleaned, unknown = schemas.clean(template, "core_v1.PodTemplateSpec")
    except schemas.SchemaError as problem:
        return [fields.invalid(path, fields.Literal("PodTemplateSpec"), str(problem))]
    found = [fields.forbidden(path.child(name), "unknown field") for name in unknown]
    found += schemas.missing_fields(cleaned, "core_v1.PodTemplateSpec", path)
    return found or ([] if check_template is None else check_template(cleaned, path))


def _check_partitions(task: Object, at: fields.Path) -> Found:
    partitions = task.get("partitionPolicy")
    if not partitions:
        return []
    total, size = partitions.get("totalPartitions") or 0, partitions.get("partitionSize") or 0
    found: Found = []
    if total * size != (task.get("replicas") or 0):
        why = f"replicas must be totalPartitions * partitionSize ({total * size})"
        found.append(fields.invalid(at.child("replicas"), task.get("replicas") or 0, why))
    least = partitions.get("minPartitions") or 0
    if least > total:
        where = at.child("partitionPolicy", "minPartitions")
        found.append(fields.invalid(where, least, f"must not exceed totalPartitions ({total})"))
    return found


def _check_volumes(volumes: Sequence[Object], path: fields.Path) -> Found:
    found: Found = []
    mounted: set[str] = set()
    for position, volume in enumerate(volumes):
        at, where = path.index(position), volume.get("mountPath") or ""
        name, claim = volume.get("volumeClaimName"), volume.get("volumeClaim")
        if not where:
            found.append(fields.required(at.child("mountPath")))
        elif where in mounted:
            found.append(fields.duplicate(at.child("mountPath"), where))
        mounted.add(where)
        if not name and claim is None:
            found.append(fields.required(at, "either volumeClaim or volumeClaimName must be specified"))
        if name and claim is not None:
            why = "name an existing claim with volumeClaimName, or describe a new one with volumeClaim, not both"
            found.append(fields.forbidden(at, why))
        if name:
            found += [
                fields.invalid(at.child("volumeClaimName"), name, why) for why in names.check_dns1123_subdomain(name)
            ]
    return found
