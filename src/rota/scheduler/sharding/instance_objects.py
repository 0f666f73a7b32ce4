"""ShardMaps and SchedulerInstances as values, and their wire forms. Pure.

A ShardMap's status has the map; its spec has what the operator chose. A SchedulerInstance's spec has what the scheduler
was started with; its status has what the scheduler reports. Whether a scheduler lives is in its Lease only: the Lease
is renewed often, and changes of holders fence the former one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import times
from rota.client.elections.elector import SYSTEM
from rota.scheduler.sharding.node_knowledge import Choices, Criterion, Synchronisation
from rota.scheduler.sharding.shard_map import DEFAULT_WEIGHT, NO_MAP, Member, ShardMap, Together

Object = Mapping[str, Any]

SHARD_MAPS: Final = ("rota.dev", "v1alpha1", "shardmaps")
INSTANCES: Final = ("rota.dev", "v1alpha1", "schedulerinstances")
#: The map of a cluster's own schedulers.
DEFAULT_MAP: Final = "default"
LEASE_NAMESPACE: Final = SYSTEM
_API_VERSION: Final = "rota.dev/v1alpha1"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSettings:
    """What a scheduler is started with."""

    #: Unique among the schedulers of all maps; a valid object name.
    name: str
    shard_of: str = DEFAULT_MAP
    weight: int = DEFAULT_WEIGHT
    selector: Mapping[str, Any] | None = None
    #: The machine, for people.
    host: str = ""
    #: As the map's if not given.
    criterion: Criterion | None = None
    synchronisation: Synchronisation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReport:
    """What a scheduler reports about itself."""

    epoch: int = 0
    active: bool = False
    queued: int = 0
    bound: int = 0
    conflicts: int = 0
    #: Decisions in the last interval, per second.
    decisions_per_second: float = 0.0
    #: Seconds of processor time per second.
    load: float = 0.0


def lease_name(instance: str) -> str:
    """The Lease of an instance."""
    return f"rota-scheduler-{instance}"


def coordinator_lease(shard_map: str) -> str:
    """The Lease of the elected coordinator of a map."""
    return f"rota-shard-map-{shard_map}"


def reading_lease(shard_map: str) -> str:
    """The Lease of the scheduler that reads the cluster before the others of a map."""
    return f"rota-shard-reading-{shard_map}"


def instance(settings: InstanceSettings) -> dict[str, Any]:
    """A SchedulerInstance."""
    spec: dict[str, Any] = {"shardOf": settings.shard_of, "weight": settings.weight, "host": settings.host}
    if settings.selector is not None:
        spec["podSelector"] = dict(settings.selector)
    if settings.criterion is not None:
        spec["conflictCriterion"] = settings.criterion.value
    if settings.synchronisation is not None:
        spec["synchronisation"] = settings.synchronisation.value
    return {
        "apiVersion": _API_VERSION,
        "kind": "SchedulerInstance",
        "metadata": {"name": settings.name},
        "spec": spec,
    }


def report_status(report: InstanceReport, *, now: float) -> dict[str, Any]:
    """The status of a SchedulerInstance."""
    return {
        "observedEpoch": report.epoch,
        "phase": "Active" if report.active else "Waiting",
        "queuedPods": report.queued,
        "boundPods": report.bound,
        "conflicts": report.conflicts,
        "decisionsPerSecond": round(report.decisions_per_second, 1),
        "load": round(report.load, 2),
        "heartbeatTime": times.format_time(now),
    }


def acknowledged(obj: Object) -> int:
    """The last epoch that an instance acknowledged."""
    return int((obj.get("status") or {}).get("observedEpoch") or 0)


def settings_of(obj: Object) -> InstanceSettings:
    """What an instance was started with."""
    spec = obj.get("spec") or {}
    return InstanceSettings(
        name=obj["metadata"]["name"],
        shard_of=spec.get("shardOf") or DEFAULT_MAP,
        weight=int(spec.get("weight") or DEFAULT_WEIGHT),
        selector=spec.get("podSelector"),
        host=spec.get("host") or "",
    )


def queued(obj: Object) -> int:
    """The waiting pods of an instance."""
    return int((obj.get("status") or {}).get("queuedPods") or 0)


def new_map(name: str) -> dict[str, Any]:
    """A ShardMap without members."""
    return {"apiVersion": _API_VERSION, "kind": "ShardMap", "metadata": {"name": name}, "spec": {}}


def read_map(obj: Object | None) -> ShardMap:
    """The map of a ShardMap."""
    status = (obj or {}).get("status") or {}
    if not status.get("epoch"):
        return NO_MAP
    members = tuple(
        Member(
            name=one["name"],
            weight=int(one.get("weight") or DEFAULT_WEIGHT),
            selector=one.get("podSelector"),
            term=int(one.get("term") or 0),
        )
        for one in status.get("members") or ()
    )
    together = Together(status.get("keepTogether") or Together.OWNER.value)
    return ShardMap(epoch=int(status["epoch"]), members=members, together=together)


def wanted_together(obj: Object | None) -> Together:
    """Which pods the operator keeps together."""
    spec = (obj or {}).get("spec") or {}
    return Together(spec.get("keepTogether") or Together.OWNER.value)


def choices(shard_map: Object | None, settings: InstanceSettings) -> Choices:
    """What a scheduler was started with, else what the operator chose for all schedulers of the map."""
    spec = (shard_map or {}).get("spec") or {}
    return Choices(
        settings.criterion or Criterion(spec.get("conflictCriterion") or Criterion.FINE.value),
        settings.synchronisation or Synchronisation(spec.get("synchronisation") or Synchronisation.FULL.value),
    )


def map_status(shard_map: ShardMap, *, now: float) -> dict[str, Any]:
    """The status of a ShardMap."""
    members = [
        {
            "name": one.name,
            "weight": one.weight,
            "term": one.term,
            **({} if one.selector is None else {"podSelector": dict(one.selector)}),
        }
        for one in shard_map.members
    ]
    return {
        "epoch": shard_map.epoch,
        "keepTogether": shard_map.together.value,
        "members": members,
        "changeTime": times.format_time(now),
    }
