"""Pages of `rota describe`: fields of an object, then tables of its dependents. Pure."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rota.api import amounts, meta, resources
from rota.apiserver.printing import durations
from rota.cli.commands import object_listing
from rota.client.verbs import Object

_MOST_EVENTS: Final = 20
#: Fields that the page of any kind shows separately; all others follow as they are.
_KNOWN: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table or a text, under a heading."""

    heading: str = ""
    text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    right: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The described object."""

    title: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The input of a page."""

    obj: Object
    now: float
    events: Sequence[Object] = ()
    pods: Sequence[Object] = field(default_factory=list)

    def ago(self, time: str | None) -> str:
        """How long ago a time was."""
        return f"{durations.since(time, self.now)} ago" if time else "never"


def of(gathered: Gathered) -> Page:
    """The page of an object, by its kind."""
    make = {"Pod": _pod, "Job": _job, "Deployment": _deployment}.get(gathered.obj.get("kind", ""), _any)
    return make(gathered)


def node(gathered: Gathered, account: Mapping[str, Any]) -> Page:
    """The page of a node, with the requests of its pods."""
    obj = gathered.obj
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = meta.condition(obj, "Ready") or {}
    state = "Ready" if ready.get("status") == "True" else f"NotReady ({ready.get('message') or 'it has not reported'})"
    info = status.get("nodeInfo") or {}
    taints = [_taint(one) for one in spec.get("taints") or ()]
    facts = [
        ("Status", f"{state}{', cordoned' if spec.get('unschedulable') else ''}"),
        *_usual(gathered),
        *([("Taints", ", ".join(taints))] if taints else []),
        ("Address", ", ".join(one.get("address", "") for one in status.get("addresses") or ()) or "unknown"),
        ("System", " ".join(filter(None, (info.get("osImage"), info.get("kernelVersion"), info.get("architecture"))))),
        ("Worker", " ".join(filter(None, (info.get("kubeletVersion"), info.get("containerRuntimeVersion"))))),
    ]
    requested = Section(
        columns=["RESOURCE", "ALLOCATABLE", "REQUESTED", "FREE", "REQUESTED%"],
        rows=[
            [
                each["resource"],
                *(_human(each["resource"], each[amount]) for amount in ("allocatable", "requested", "free")),
                f"{each['percent']}%",
            ]
            for each in account["resources"]
        ],
        right=["ALLOCATABLE", "REQUESTED", "FREE", "REQUESTED%"],
    )
    pods = Section(
        columns=["NAMESPACE", "POD", "CPU", "MEMORY", "PHASE"],
        rows=[
            [each["namespace"], each["name"], each["cpu"], _human("memory", each["memory"]), each["phase"]]
            for each in account["pods"]
        ],
        right=["CPU", "MEMORY"],
    )
    unusual = [one for one in meta.conditions(obj) if (one.get("status") == "True") != (one.get("type") == "Ready")]
    title = f"Node {meta.name(obj)}{' (cordoned)' if spec.get('unschedulable') else ''}"
    sections = [requested, *([pods] if pods.rows else []), *_conditions(gathered, unusual), *_events(gathered)]
    return Page(title=title, facts=facts, sections=sections)


def _pod(gathered: Gathered) -> Page:
    obj = gathered.obj
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if meta.is_deleting(obj) else status.get("phase") or "Pending"
    where = f" on {spec['nodeName']}" if spec.get("nodeName") else ""
    why = status.get("message") or status.get("reason") or _waiting(obj)
    asked = resources.pod_requests(obj)
    facts = [
        ("Status", f"{phase}{where}{f': {why}' if why else ''}"),
        *_usual(gathered),
        ("Started", gathered.ago(status.get("startTime"))),
        *([("Address", status["podIP"])] if status.get("podIP") else []),
        ("Requests", ", ".join(f"{name} {amounts.human(name, asked[name])}" for name in sorted(asked)) or "nothing"),
        ("Restart", spec.get("restartPolicy") or "Always"),
        *([("Priority", str(spec["priority"]))] if spec.get("priority") else []),
    ]
    statuses = {
        one["name"]: one
        for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    }
    runs = [*(("init", one) for one in spec.get("initContainers") or ()), *(("", one) for one in spec["containers"])]
    containers = Section(
        columns=["CONTAINER", "STATE", "READY", "RESTARTS", "RUNS", "WHY"],
        rows=[
            [
                f"{one['name']}{f' ({role})' if role else ''}",
                *_container(statuses.get(one["name"], {}), gathered),
                _command(one),
                _why(statuses.get(one["name"], {})),
            ]
            for role, one in runs
        ],
        right=["RESTARTS"],
    )
    unmet = [
        one for one in meta.conditions(obj) if one.get("status") != "True" and phase not in {"Succeeded", "Failed"}
    ]
    sections = [containers, *_conditions(gathered, unmet), *_events(gathered)]
    return Page(title=f"Pod {meta.qualified_name(obj)}", facts=facts, sections=sections)


def _job(gathered: Gathered) -> Page:
    obj = gathered.obj
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    wanted = spec.get("completions")
    progress = f"{status.get('succeeded', 0)} of {'one' if wanted is None else wanted} done"
    counts = f"{status.get('active', 0)} active, {status.get('failed', 0)} failed"
    facts = [
        ("Status", _verdict(obj) or ("Suspended" if spec.get("suspend") else "Running")),
        ("Progress", f"{progress}, {counts}"),
        *_usual(gathered),
        ("Parallelism", str(spec.get("parallelism", 1))),
        ("Retries", f"up to {spec.get('backoffLimit', 6)}"),
        ("Started", gathered.ago(status.get("startTime"))),
        ("Finished", gathered.ago(status.get("completionTime"))),
        *_template(spec),
    ]
    sections = [*_pods(gathered), *_conditions(gathered, meta.conditions(obj)), *_events(gathered)]
    return Page(title=f"Job {meta.qualified_name(obj)}", facts=facts, sections=sections)


def _deployment(gathered: Gathered) -> Page:
    obj = gathered.obj
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    counts = [f"{status.get(f'{name}Replicas', 0)} {name}" for name in ("updated", "ready", "available")]
    facts = [
        ("Replicas", f"{spec.get('replicas', 1)} wanted: {', '.join(counts)}"),
        *_usual(gathered),
        ("Strategy", (spec.get("strategy") or {}).get("type", "RollingUpdate")),
        ("Selector", selector_text(spec.get("selector") or {})),
        *_template(spec),
    ]
    sections = [*_pods(gathered), *_conditions(gathered, meta.conditions(obj)), *_events(gathered)]
    return Page(title=f"Deployment {meta.qualified_name(obj)}", facts=facts, sections=sections)


def _any(gathered: Gathered) -> Page:
    """The page of any kind: its metadata, then its fields."""
    obj = gathered.obj
    shown = {name: value for name, value in obj.items() if name not in _KNOWN}
    status = {name: value for name, value in (obj.get("status") or {}).items() if name != "conditions"}
    content = {**_hidden(obj, shown), **({"status": status} if status else {})}
    sections = [
        *([Section(heading="Content", text=object_listing.as_yaml(content))] if content else []),
        *_pods(gathered),
        *_conditions(gathered, meta.conditions(obj)),
        *_events(gathered),
    ]
    return Page(title=f"{obj.get('kind')} {meta.qualified_name(obj)}", facts=_usual(gathered), sections=sections)


def _hidden(obj: Object, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without secrets; a Secret's values are shown as sizes."""
    if obj.get("kind") != "Secret":
        return dict(shown)
    sizes = {name: f"({len(value) * 3 // 4} bytes)" for name, value in (shown.get("data") or {}).items()}
    return {**shown, "data": sizes}


# --- sections ---------------------------------------------------------------------------------------------------------


def _usual(gathered: Gathered) -> list[tuple[str, str]]:
    obj = gathered.obj
    owner = meta.controller_of(obj)
    facts = [("Created", gathered.ago(meta.metadata(obj).get("creationTimestamp")))]
    if labels := meta.labels(obj):
        facts.append(("Labels", "\n".join(f"{key}={value}" for key, value in sorted(labels.items()))))
    if notes := {key: value for key, value in meta.annotations(obj).items() if not key.startswith("kubectl.")}:
        facts.append(("Annotations", "\n".join(f"{key}={value}" for key, value in sorted(notes.items()))))
    if owner is not None:
        facts.append(("Belongs to", f"{owner.get('kind')} {owner.get('name')}"))
    if waits := meta.finalizers(obj):
        facts.append(("Finalizers", ", ".join(waits)))
    return facts


def _template(spec: Object) -> list[tuple[str, str]]:
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    return [("Runs", "\n".join(f"{one.get('name')}: {_command(one)}" for one in containers))]


def _pods(gathered: Gathered) -> list[Section]:
    rows = [
        [
            meta.name(pod),
            "Terminating" if meta.is_deleting(pod) else (pod.get("status") or {}).get("phase") or "Pending",
            (pod.get("spec") or {}).get("nodeName") or "",
            durations.since(meta.metadata(pod).get("creationTimestamp"), gathered.now),
        ]
        for pod in gathered.pods
    ]
    return [Section(columns=["POD", "PHASE", "NODE", "AGE"], rows=rows)] if rows else []


def _conditions(gathered: Gathered, chosen: Iterable[meta.Condition]) -> list[Section]:
    rows = [
        [
            one.get("type"),
            one.get("status"),
            durations.since(one.get("lastTransitionTime"), gathered.now),
            one.get("reason") or "",
            one.get("message") or "",
        ]
        for one in chosen
    ]
    return [Section(columns=["CONDITION", "IS", "SINCE", "REASON", "MESSAGE"], rows=rows)] if rows else []


def _events(gathered: Gathered) -> list[Section]:
    rows = [
        [
            durations.since(moment(one) or None, gathered.now),
            one.get("type") or "",
            one.get("reason") or "",
            (one.get("source") or {}).get("component") or one.get("reportingComponent") or "",
            f"{one.get('message') or ''}{_times(one)}",
        ]
        for one in gathered.events[-_MOST_EVENTS:]
    ]
    return [Section(columns=["LAST", "TYPE", "REASON", "FROM", "MESSAGE"], rows=rows)] if rows else []


def moment(event: Object) -> str:
    """When an event was last seen."""
    series = (event.get("series") or {}).get("lastObservedTime")
    created = meta.metadata(event).get("creationTimestamp")
    return str(series or event.get("lastTimestamp") or event.get("eventTime") or created or "")


def _times(event: Object) -> str:
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    return f" ({count} times)" if count > 1 else ""


def selector_text(selector: Mapping[str, Any]) -> str:
    """A label selector as in a query."""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in selector.items())
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        values = f"({','.join(one.get('values') or ())})"
        form = {"In": "{} in {}", "NotIn": "{} notin {}", "Exists": "{}", "DoesNotExist": "!{}"}[one["operator"]]
        parts.append(form.format(one["key"], values))
    return ",".join(parts)


def _container(status: Object, gathered: Gathered) -> list[str]:
    ready, restarts = "yes" if status.get("ready") else "no", str(status.get("restartCount", 0))
    state = status.get("state") or {}
    if running := state.get("running"):
        return [f"Running {durations.since(running.get('startedAt'), gathered.now)}", ready, restarts]
    if ended := state.get("terminated"):
        return [f"{ended.get('reason') or 'Ended'} ({ended.get('exitCode', 0)})", ready, restarts]
    return [(state.get("waiting") or {}).get("reason") or "Waiting", ready, restarts]


def _why(status: Object) -> str:
    for where in ("state", "lastState"):
        for state in (status.get(where) or {}).values():
            if state.get("message") or (where == "lastState" and state.get("reason")):
                before = "before: " if where == "lastState" else ""
                return f"{before}{state.get('message') or state.get('reason')}".strip()
    return ""


def _command(container: Object) -> str:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    line = shlex.join(str(word).replace("$$", "$") for word in words)
    text = line or f"image {container.get('image')}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _waiting(pod: Object) -> str:
    scheduled = meta.condition(pod, "PodScheduled") or {}
    return str(scheduled.get("message") or "") if scheduled.get("status") == "False" else ""


def _verdict(obj: Object) -> str:
    for one in meta.conditions(obj):
        if one.get("type") in {"Complete", "Failed"} and one.get("status") == "True":
            message = one.get("message") or one.get("reason")
            return f"{one['type']}{f': {message}' if message else ''}"
    return ""


def _taint(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _human(resource: str, quantity: str) -> str:
    return amounts.human(resource, resources.amount(resource, quantity))
