"""Nodes, leases, events, runtime classes and component statuses."""

from typing import Any, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations
from rota.apiserver.printing.columns import (
    NONE,
    Cells,
    Object,
    Printer,
    Printers,
    age,
    at,
    columns,
    items,
    name,
)

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def _node(obj: Object, now: float) -> Cells:
    info = at(obj, "status", "nodeInfo")
    kernel = at(info, "kernelVersion") or durations.UNKNOWN
    architecture = at(info, "architecture")
    return [
        name(obj),
        _node_status(obj),
        _roles(obj),
        age(obj, now),
        at(info, "kubeletVersion") or "",
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        at(info, "osImage") or durations.UNKNOWN,
        f"{kernel} ({architecture})" if architecture else kernel,
        at(info, "containerRuntimeVersion") or durations.UNKNOWN,
    ]


def _node_status(obj: Object) -> str:
    ready = {one.get("type"): one.get("status") for one in items(obj, "status", "conditions")}.get("Ready")
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if at(obj, "spec", "unschedulable") else word


def _roles(obj: Object) -> str:
    labels = at(obj, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL, ""))
    return ",".join(sorted(role for role in roles if role)) or NONE


def _address(obj: Object, type_: str) -> str:
    found = (one.get("address") for one in items(obj, "status", "addresses") if one.get("type") == type_)
    return next(found, None) or NONE


def _event(obj: Object, now: float) -> Cells:
    """Both groups have the same events; events.k8s.io has other names for half of the fields."""
    regarding = at(obj, "involvedObject") or at(obj, "regarding")
    first = at(obj, "firstTimestamp") or at(obj, "deprecatedFirstTimestamp") or at(obj, "eventTime")
    last = at(obj, "lastTimestamp") or at(obj, "deprecatedLastTimestamp") or first
    count = at(obj, "count") or at(obj, "deprecatedCount") or 1
    series = at(obj, "series")
    if series is not None:
        last, count = series.get("lastObservedTime"), series.get("count") or 0
    kind, named = (at(regarding, "kind") or "").lower(), at(regarding, "name")
    return [
        durations.since(last, now),
        at(obj, "type") or "",
        at(obj, "reason") or "",
        f"{kind}/{named}" if named else kind,
        at(regarding, "fieldPath") or "",
        _source(obj),
        (at(obj, "message") or at(obj, "note") or "").strip(),
        durations.since(first, now),
        count,
        name(obj),
    ]


def _source(obj: Object) -> str:
    source: Any = at(obj, "source") or at(obj, "deprecatedSource")
    component = at(source, "component") or at(obj, "reportingComponent") or at(obj, "reportingController") or ""
    instance = at(source, "host") or at(obj, "reportingInstance")
    return f"{component}, {instance}" if instance else component


def _lease(obj: Object, now: float) -> Cells:
    return [name(obj), at(obj, "spec", "holderIdentity") or "", age(obj, now)]


def _lease_candidate(obj: Object, now: float) -> Cells:
    keys = ("leaseName", "binaryVersion", "emulationVersion")
    return [name(obj), *(at(obj, "spec", key) or "" for key in keys), age(obj, now)]


def _runtime_class(obj: Object, now: float) -> Cells:
    return [name(obj), at(obj, "handler") or "", age(obj, now)]


def _component_status(obj: Object, now: float) -> Cells:
    healthy = next((one for one in items(obj, "conditions") if one.get("type") == "Healthy"), None)
    if healthy is None:
        return [name(obj), "Unknown", "", ""]
    word = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name(obj), word, healthy.get("message") or "", healthy.get("error") or ""]


_EVENT: Final = Printer(
    columns=columns("""
        Last Seen  | string           | How long ago it last happened.
        Type       | string           | Normal or Warning.
        Reason     | string           | Why it happened, in one word.
        Object     | string           | The object that it is about.
        Subobject  | string wide      | The part of that object.
        Source     | string wide      | Who reports it.
        Message    | string           | What happened.
        First Seen | string wide      | How long ago it first happened.
        Count      | string wide      | How often it happened.
        Name       | string name wide | The name of the event.
    """),
    cells=_event,
)

PRINTERS: Final[Printers] = {
    GroupResource("", "nodes"): Printer(
        columns=columns("""
            Name              | string name | The name of the node.
            Status            | string      | Whether the node is ready, and whether it takes new pods.
            Roles             | string      | What the node is for, from its labels.
            Age               | string      | How long the node has existed.
            Version           | string      | The version of its agent.
            Internal-IP       | string wide | Its address within the cluster.
            External-IP       | string wide | Its address for the outside.
            OS-Image          | string wide | Its operating system.
            Kernel-Version    | string wide | Its kernel and architecture.
            Container-Runtime | string wide | What runs its containers.
        """),
        cells=_node,
    ),
    GroupResource("", "events"): _EVENT,
    GroupResource("events.k8s.io", "events"): _EVENT,
    GroupResource("coordination.k8s.io", "leases"): Printer(
        columns=columns("""
            Name   | string name | The name of the lease.
            Holder | string      | Who holds the lease.
            Age    | string      | How long the lease has existed.
        """),
        cells=_lease,
    ),
    GroupResource("coordination.k8s.io", "leasecandidates"): Printer(
        columns=columns("""
            Name             | string name | The name of the candidate.
            LeaseName        | string      | The lease that it would hold.
            BinaryVersion    | string      | The version of its program.
            EmulationVersion | string      | The version that it behaves like.
            Age              | string      | How long the candidate has existed.
        """),
        cells=_lease_candidate,
    ),
    GroupResource("node.k8s.io", "runtimeclasses"): Printer(
        columns=columns("""
            Name    | string name | The name of the class.
            Handler | string      | What nodes call this runtime.
            Age     | string      | How long the class has existed.
        """),
        cells=_runtime_class,
    ),
    GroupResource("", "componentstatuses"): Printer(
        columns=columns("""
            Name    | string name | The name of the component.
            Status  | string      | Whether the component is healthy.
            Message | string      | What the component says.
            Error   | string      | What went wrong when asking it.
        """),
        cells=_component_status,
    ),
}
