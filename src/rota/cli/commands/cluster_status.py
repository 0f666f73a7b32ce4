"""`rota status`: reads nodes, pods, leases and warnings, and summarizes them. `summary` is pure."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from rota.api import amounts, meta, resources, times
from rota.api import errors as api_errors
from rota.apiserver.printing import durations
from rota.cli import endpoints, output
from rota.cli.commands import object_pages, session
from rota.cli.commands.cordon import NODES
from rota.client import client_factory, masters, wire
from rota.client.endpoints import Endpoint
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection, Settings
from rota.kit import system

_LEASES: Final = ("coordination.k8s.io", "v1", "leases")
_EVENTS: Final = ("", "v1", "events")
_INSTANCES: Final = ("rota.dev", "v1alpha1", "schedulerinstances")
#: A scheduler that has not reported for so long has stopped.
_SILENT_S: Final = 10.0
_SYSTEM: Final = "kube-system"
#: Leases of elected components, by component.
_LED: Final = {"controllers": "rota-controllers", "scheduler": "kube-scheduler"}
#: Timeout of a master's health check.
_PATIENCE_S: Final = 3.0
_PHASES: Final = ("Running", "Pending", "Succeeded", "Failed", "Unknown")
_MOST_WARNINGS: Final = 5
_RECENT_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The objects that were read of a cluster."""

    #: The servers in the kubeconfig or that registered themselves, with the error of each; empty if it is healthy.
    masters: Mapping[str, str]
    version: str
    nodes: Sequence[Object]
    pods: Sequence[Object]
    leases: Sequence[Object]
    warnings: Sequence[Object]
    now: float
    #: SchedulerInstances, if several schedulers share the pods.
    schedulers: Sequence[Object] = ()


def status(*, as_json: bool, **server: Any) -> None:
    """Show the state of a cluster."""
    endpoint = endpoints.nearest(**server)

    async def work(client: Client) -> Reading:
        return await _read(client, endpoint)

    facts = summary(session.at(endpoint, work))
    if as_json:
        output.document(facts)
    else:
        _show(facts)


async def _read(client: Client, endpoint: Endpoint) -> Reading:
    version = wire.decode_object(await client.request("GET", "/version"))
    leases = await _leases(client)
    listed = [master.address for one in leases if (master := masters.read(one)) is not None]
    every = replace(endpoint, fallbacks=tuple(dict.fromkeys((*endpoint.fallbacks, *listed))))
    asked = {one.server: one for one in every.each()}
    faults = await asyncio.gather(*map(health_fault, asked.values()))
    warnings = Selection(fields="type=Warning")
    return Reading(
        masters=dict(zip(asked, faults, strict=True)),
        version=str(version.get("gitVersion", "")),
        nodes=(await client.list(NODES)).items,
        pods=(await client.list(PODS)).items,
        leases=leases,
        warnings=(await client.list(_EVENTS, selection=warnings)).items,
        now=system.SystemClock().now(),
        schedulers=await _schedulers(client),
    )


async def health_fault(master: Endpoint) -> str:
    """The error of a master's health check; empty if it is healthy."""
    clock, settings = system.SystemClock(), Settings(retry=False, timeout_s=_PATIENCE_S)
    try:
        async with client_factory.to_server(master, clock=clock, rng=system.rng(), settings=settings) as client:
            await client.request("GET", "/readyz", accept="*/*")
    except TransportError:
        return "does not answer"
    except api_errors.ApiError as error:
        return f"is not ready: {error}"
    return ""


async def _leases(client: Client) -> list[Object]:
    try:
        return (await client.list(_LEASES, namespace=_SYSTEM)).items
    except api_errors.Forbidden:
        return []  # permission to read pods does not include Leases


async def _schedulers(client: Client) -> list[Object]:
    try:
        return (await client.list(_INSTANCES)).items
    except (api_errors.Forbidden, api_errors.NotFound):
        return []  # no permission, or another API server


def summary(reading: Reading) -> dict[str, Any]:
    """The summary of a cluster, for people and programs."""
    nodes = [_node(one) for one in reading.nodes]
    phases = Counter((one.get("status") or {}).get("phase") or "Pending" for one in reading.pods)
    unbound = [one for one in reading.pods if not (one.get("spec") or {}).get("nodeName") and not meta.is_deleting(one)]
    queue = [one for one in unbound if (one.get("status") or {}).get("phase") in {None, "Pending"}]
    recent = _latest(one for one in reading.warnings if _age(object_pages.moment(one), reading.now) <= _RECENT_S)
    return {
        "version": reading.version,
        "masters": [_master(reading, server, fault) for server, fault in reading.masters.items()],
        "leaders": {part: _holder(reading, name) for part, name in _LED.items() if _lease(reading, name) is not None},
        "schedulers": [_scheduler(one, reading.now) for one in reading.schedulers],
        "workers": {
            "ready": sum(one["ready"] for one in nodes),
            "not_ready": [one["name"] for one in nodes if not one["ready"]],
            "cordoned": [one["name"] for one in nodes if one["cordoned"]],
        },
        "resources": _resources(reading),
        "pods": {phase: phases[phase] for phase in _PHASES if phases[phase]},
        "queue": {
            "waiting": len(queue),
            "unschedulable": sum(map(_is_unschedulable, queue)),
            "gated": sum(map(_is_gated, queue)),
        },
        "warnings": [
            {
                "age_s": round(_age(object_pages.moment(one), reading.now)),
                "object": f"{one['involvedObject'].get('kind', '')}/{one['involvedObject'].get('name', '')}",
                "namespace": meta.namespace(one),
                "reason": one.get("reason") or "",
                "message": one.get("message") or "",
            }
            for one in recent[-_MOST_WARNINGS:]
        ],
    }


def _master(reading: Reading, server: str, fault: str) -> dict[str, Any]:
    """A master: its own report, and the components that it leads."""
    listed = [one for one in map(masters.read, reading.leases) if one is not None and one.address == server]
    latest = max(listed, key=lambda one: one.renewed_at, default=None)
    identity = "" if latest is None else latest.identity
    return {
        "server": server,
        "fault": fault,
        "identity": identity,
        "version": "" if latest is None else latest.version,
        "leads": [part for part, name in _LED.items() if identity and _holder(reading, name) == identity],
        "silent_s": None if latest is None else max(0, round(reading.now - latest.renewed_at)),
    }


def _scheduler(instance: Object, now: float) -> dict[str, Any]:
    status = instance.get("status") or {}
    silent_s = _age(status.get("heartbeatTime") or "", now)
    return {
        "name": meta.name(instance),
        "shard_of": (instance.get("spec") or {}).get("shardOf") or "default",
        "active": status.get("phase") == "Active" and silent_s <= _SILENT_S,
        "queued": status.get("queuedPods") or 0,
        "conflicts": status.get("conflicts") or 0,
        "decisions_per_second": status.get("decisionsPerSecond") or 0,
        "load": status.get("load") or 0,
    }


def _latest(warnings: Iterable[Object]) -> list[Object]:
    """The last event of each object and reason, latest last."""
    found: dict[tuple[str, str, str, str], Object] = {}
    for one in sorted(warnings, key=object_pages.moment):
        about = one["involvedObject"]
        key = (meta.namespace(one), about.get("kind", ""), about.get("name", ""), one.get("reason", ""))
        found.pop(key, None)
        found[key] = one
    return list(found.values())


def _node(node: Object) -> dict[str, Any]:
    return {
        "name": meta.name(node),
        "ready": meta.is_condition_true(node, "Ready"),
        "cordoned": bool((node.get("spec") or {}).get("unschedulable")),
    }


def _lease(reading: Reading, name: str) -> Object | None:
    return next((one for one in reading.leases if meta.name(one) == name), None)


def _holder(reading: Reading, name: str) -> str:
    lease = _lease(reading, name)
    held = lease is not None and _is_held(lease, reading.now)
    return str((lease.get("spec") or {}).get("holderIdentity") or "") if lease is not None and held else ""


def _is_held(lease: Object, now: float) -> bool:
    spec = lease.get("spec") or {}
    return bool(spec.get("holderIdentity")) and _age(spec.get("renewTime") or "", now) <= spec.get(
        "leaseDurationSeconds", 15
    )


def _resources(reading: Reading) -> dict[str, dict[str, int]]:
    """Capacity of all workers and requests of pods; CPU in thousandths, memory in bytes."""
    offered: Counter[str] = Counter()
    requested: Counter[str] = Counter()
    names = (resources.CPU, resources.MEMORY)
    for node in reading.nodes:
        found = resources.node_allocatable(node)
        offered.update({name: found.get(name, 0) for name in names})
    for pod in reading.pods:
        over = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        if (pod.get("spec") or {}).get("nodeName") and not over:
            asked = resources.pod_requests(pod, use_status=True)
            requested.update({name: asked.get(name, 0) for name in names})
    return {name: {"allocatable": offered[name], "requested": requested[name]} for name in names}


def _is_unschedulable(pod: Object) -> bool:
    scheduled = meta.condition(pod, "PodScheduled")
    return scheduled is not None and scheduled.get("reason") == "Unschedulable"


def _is_gated(pod: Object) -> bool:
    return bool((pod.get("spec") or {}).get("schedulingGates"))


def _age(time: str, now: float) -> float:
    return now - times.parse(time) if time else float("inf")


# --- output -----------------------------------------------------------------------------------------------------------


def _show(facts: Mapping[str, Any]) -> None:
    workers, queue = facts["workers"], facts["queue"]
    unready = f", {_red('not ready: ' + ', '.join(workers['not_ready']))}" if workers["not_ready"] else ""
    cordoned = f", cordoned: {', '.join(workers['cordoned'])}" if workers["cordoned"] else ""
    lines = [
        *(("Master", _master_line(one)) for one in facts["masters"]),
        ("API version", facts["version"]),
        *((f"Leader of {part}", holder or _red("none")) for part, holder in facts["leaders"].items()),
        *(("Scheduler", _scheduler_line(one)) for one in facts["schedulers"]),
        ("Workers", f"{workers['ready']} ready{unready}{cordoned}"),
        ("Requested", ", ".join(_requested(name, share) for name, share in facts["resources"].items())),
        ("Pods", ", ".join(f"{count} {phase.lower()}" for phase, count in facts["pods"].items()) or "none"),
        ("Queue", _queue(queue)),
    ]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        click.echo(f"{output.painted(name.rjust(width), dim=True)}  {value}")
    if facts["warnings"]:
        click.echo()
        rows = [
            [durations.human(one["age_s"]), one["object"], one["reason"], one["message"]] for one in facts["warnings"]
        ]
        output.table(["WARNING", "OBJECT", "REASON", "MESSAGE"], rows)


def _queue(queue: Mapping[str, int]) -> str:
    if not queue["waiting"]:
        return "nothing waits for a node"
    details = [f"{queue[name]} {name}" for name in ("unschedulable", "gated") if queue[name]]
    pods = "pod waits" if queue["waiting"] == 1 else "pods wait"
    return f"{queue['waiting']} {pods} for a node{' (' + ', '.join(details) + ')' if details else ''}"


def _scheduler_line(scheduler: Mapping[str, Any]) -> str:
    if not scheduler["active"]:
        return _red(f"{scheduler['name']} decides nothing")
    return (
        f"{scheduler['name']}: queue {scheduler['queued']}, {scheduler['decisions_per_second']:g} decisions/s, "
        f"{scheduler['conflicts']} conflicts, load {scheduler['load']:g}"
    )


def _master_line(master: Mapping[str, Any]) -> str:
    version = f"version {master['version']}" if master["version"] else ""
    leads = f"leads {' and '.join(master['leads'])}" if master["leads"] else ""
    about = f" ({', '.join(filter(None, (version, leads)))})" if version or leads else ""
    if not master["fault"]:
        return f"{master['server']}{about}"
    silent = master["silent_s"]
    since = f"; last heard of {durations.human(silent)} ago" if silent is not None and not master["leads"] else ""
    return _red(f"{master['server']}{about} {master['fault']}{since}")


def _requested(name: str, share: Mapping[str, int]) -> str:
    taken, offered = share["requested"], share["allocatable"]
    part = f" ({100 * taken // offered}%)" if offered else ""
    return f"{name} {amounts.human(name, taken)} of {amounts.human(name, offered)}{part}"


def _red(text: str) -> str:
    return output.painted(text, fg="red")
