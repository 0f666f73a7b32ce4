"""The checks of `rota doctor`: pure functions from what was read of a cluster to findings."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from rota.api import meta, times
from rota.apiserver.printing import durations
from rota.client import masters
from rota.client.verbs import Object

Severity: TypeAlias = Literal["error", "warning"]

#: Leases of elected components, by component.
_LED: Final = {"controllers": "rota-controllers", "scheduler": "kube-scheduler"}
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "KeysExposed")
#: How far a Lease may be renewed in the future before a clock is wrong.
_CLOCK_S: Final = 2.0
_LONG_PENDING_S: Final = 300.0
_LONG_DELETING_S: Final = 600.0
#: History older than this means that nothing compacts the store.
_LONG_HISTORY_S: Final = 2 * 3600.0
_MANY_RESTARTS: Final = 5
#: A certificate that has less than this share of its life left should have been renewed.
_OLD_SHARE: Final = 0.2
_OLD_S: Final = 30 * 86400.0
_EXAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong."""

    severity: Severity
    #: What it is about: `node/w1`, `pod/default/web`, `master`.
    subject: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate in use."""

    subject: str
    not_before: float
    not_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read of a cluster."""

    now: float
    #: The servers, with the error of each; empty if it is healthy.
    masters: Mapping[str, str] = field(default_factory=dict)
    certificates: Sequence[Certificate] = ()
    nodes: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    #: Leases of `kube-system` and `kube-node-lease`.
    leases: Sequence[Object] = ()
    #: Objects of all kinds that are being deleted, as `kind/namespace/name` with the object.
    deleting: Mapping[str, Object] = field(default_factory=dict)
    webhooks: Sequence[Object] = ()
    #: `namespace/name` of every Service.
    services: frozenset[str] = frozenset()
    api_services: Sequence[Object] = ()
    #: Metrics of the server by name, without labels; empty if they may not be read.
    metrics: Mapping[str, float] = field(default_factory=dict)
    #: Lists that could not be read, with the reason.
    unread: Mapping[str, str] = field(default_factory=dict)


def check(reading: Reading) -> list[Finding]:
    """All findings, errors first."""
    found = [finding for one in CHECKS for finding in one(reading)]
    return sorted(found, key=lambda finding: finding.severity != "error")


def _servers(reading: Reading) -> Iterator[Finding]:
    for server, fault in reading.masters.items():
        if fault:
            remedy = "start it, or look at its log; others serve the cluster meanwhile"
            yield Finding("error", f"master/{server}", f"{server} {fault}", remedy)
    for what, why in reading.unread.items():
        yield Finding("warning", what, f"could not read {what}: {why}", "run as a user who may read it")


def _leaders(reading: Reading) -> Iterator[Finding]:
    for part, name in _LED.items():
        lease = next((one for one in reading.leases if meta.name(one) == name), None)
        if lease is None:
            continue
        spec = lease.get("spec") or {}
        silent = reading.now - times.parse(spec["renewTime"]) if spec.get("renewTime") else float("inf")
        if not spec.get("holderIdentity") or silent > float(spec.get("leaseDurationSeconds") or 15):
            remedy = "start a master; if one runs, look for election errors in its log"
            yield Finding("error", f"lease/{name}", f"the {part} have no leader", remedy)


def _certificates(reading: Reading) -> Iterator[Finding]:
    for one in reading.certificates:
        left, life = one.not_after - reading.now, one.not_after - one.not_before
        if left <= 0:
            text = f"the certificate of {one.subject} expired {durations.human(-left)} ago"
            yield Finding("error", "certificate", text, "renew it: restart the component, or join it again")
        elif left < min(_OLD_S, life * _OLD_SHARE):
            text = f"the certificate of {one.subject} expires in {durations.human(left)}"
            yield Finding("warning", "certificate", text, "it should have been renewed: look at the component's log")


def _clocks(reading: Reading) -> Iterator[Finding]:
    for lease in reading.leases:
        renewed = (lease.get("spec") or {}).get("renewTime")
        if not renewed or times.parse(renewed) - reading.now <= _CLOCK_S:
            continue
        ahead = times.parse(renewed) - reading.now
        holder = (lease.get("spec") or {}).get("holderIdentity") or meta.name(lease)
        text = f"{holder} renewed its Lease {durations.human(ahead)} in the future, by the clock of this machine"
        yield Finding("error", f"lease/{meta.name(lease)}", text, "synchronise the clocks (NTP) of both machines")


def _versions(reading: Reading) -> Iterator[Finding]:
    known = [one for one in map(masters.read, reading.leases) if one is not None and one.is_current(reading.now)]
    versions = sorted({one.version for one in known if one.version})
    if len(versions) > 1:
        text = f"masters run different versions: {', '.join(versions)}"
        yield Finding("warning", "masters", text, "finish the upgrade")
    skewed: dict[str, list[str]] = defaultdict(list)
    for node in reading.nodes:
        version = ((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") or ""
        skewed[version].append(meta.name(node))
    if len(skewed) > 1:
        parts = "; ".join(f"{version or 'unknown'}: {_some(names)}" for version, names in sorted(skewed.items()))
        yield Finding("warning", "nodes", f"nodes run different versions: {parts}", "upgrade the older ones")


def _nodes(reading: Reading) -> Iterator[Finding]:
    for node in reading.nodes:
        name = meta.name(node)
        ready = meta.condition(node, "Ready")
        if ready is None or ready.get("status") != "True":
            why = (ready or {}).get("message") or "it never reported"
            remedy = f"start the worker on that machine, or remove the node: rota delete node {name}"
            yield Finding("error", f"node/{name}", f"node {name} is not ready: {why}", remedy)
        for pressure in _PRESSURES:
            if meta.is_condition_true(node, pressure):
                message = (meta.condition(node, pressure) or {}).get("message") or ""
                remedy = "see `rota describe node` and what runs there"
                yield Finding("warning", f"node/{name}", f"node {name} has {pressure}: {message}", remedy)


def _pods(reading: Reading) -> Iterator[Finding]:
    waiting: dict[str, list[str]] = defaultdict(list)
    for pod in reading.pods:
        name = meta.qualified_name(pod)
        status = pod.get("status") or {}
        scheduled = meta.condition(pod, "PodScheduled") or {}
        if scheduled.get("reason") == "Unschedulable" and _age(pod, reading.now) > _LONG_PENDING_S:
            waiting[str(scheduled.get("message") or "no node is possible")].append(name)
        for container in status.get("containerStatuses") or ():
            reason = ((container.get("state") or {}).get("waiting") or {}).get("reason") or ""
            restarts = container.get("restartCount") or 0
            if reason in {"ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"}:
                text = f"pod {name} cannot start: {reason}"
                yield Finding("warning", f"pod/{name}", text, f"see `rota describe pod {meta.name(pod)}`")
            elif reason == "CrashLoopBackOff" or (restarts > _MANY_RESTARTS and reason):
                text = f"container {container.get('name')} of pod {name} ended {restarts} times"
                yield Finding("warning", f"pod/{name}", text, f"see `rota logs {meta.name(pod)} --previous`")
    for message, names in waiting.items():
        text = f"{_counted(len(names), 'pod waits', 'pods wait')} for a node ({_some(names)}): {message}"
        yield Finding("warning", "pods", text, f"see `rota explain pod {names[0].rpartition('/')[2]}`")


def _deletions(reading: Reading) -> Iterator[Finding]:
    for name, obj in reading.deleting.items():
        since = reading.now - times.parse(str(meta.metadata(obj).get("deletionTimestamp")))
        if since <= _LONG_DELETING_S:
            continue
        held = list(meta.finalizers(obj)) or list((obj.get("spec") or {}).get("finalizers") or ())
        why = f"waits for {', '.join(held)}" if held else "has not ended"
        text = f"{name} is being deleted for {durations.human(since)} and {why}"
        remedy = "run the controller that owns the finalizer; remove the finalizer only if that controller is gone"
        yield Finding("warning", name, text, remedy if held else "see whether its node is ready")


def _webhooks(reading: Reading) -> Iterator[Finding]:
    for configuration in reading.webhooks:
        for webhook in configuration.get("webhooks") or ():
            service = (webhook.get("clientConfig") or {}).get("service") or {}
            target = f"{service.get('namespace')}/{service.get('name')}"
            if service and target not in reading.services:
                closed = webhook.get("failurePolicy") != "Ignore"
                effect = "requests that match it are refused" if closed else "it is skipped"
                text = f"webhook {webhook.get('name')} calls Service {target}, which does not exist: {effect}"
                subject = f"{str(configuration.get('kind') or 'webhook').lower()}/{meta.name(configuration)}"
                yield Finding("error" if closed else "warning", subject, text, "install the Service, or delete it")


def _api_services(reading: Reading) -> Iterator[Finding]:
    for one in reading.api_services:
        available = meta.condition(one, "Available") or {}
        if available.get("status") == "False":
            text = f"API {meta.name(one)} is not available: {available.get('message') or available.get('reason')}"
            yield Finding("error", f"apiservice/{meta.name(one)}", text, "start its server, or delete the APIService")


def _store(reading: Reading) -> Iterator[Finding]:
    history = reading.metrics.get("rota_store_history_seconds", 0.0)
    if history > _LONG_HISTORY_S:
        text = f"the store keeps history of {durations.human(history)}; it should be some minutes"
        remedy = "look for a backup or a follower that holds history, and for compaction errors in the log"
        yield Finding("warning", "store", text, remedy)
    used, most = reading.metrics.get("process_open_fds", 0.0), reading.metrics.get("process_max_fds", 0.0)
    if most and used > 0.8 * most:
        text = f"the server has {used:.0f} of {most:.0f} files and connections open"
        yield Finding("warning", "master", text, "raise the limit of open files (ulimit -n), or close idle watches")


CHECKS: Final[tuple[Callable[[Reading], Iterable[Finding]], ...]] = (
    _servers,
    _leaders,
    _certificates,
    _clocks,
    _versions,
    _nodes,
    _pods,
    _deletions,
    _webhooks,
    _api_services,
    _store,
)


def _age(obj: Object, now: float) -> float:
    created = meta.metadata(obj).get("creationTimestamp")
    return now - times.parse(str(created)) if created else 0.0


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _EXAMPLES} more" if len(names) > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + more


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
