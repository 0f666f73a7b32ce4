"""What would happen if a cluster failed: which bindings move, where to, which cannot, and how long it takes. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation import bindings
from rota.federation.clusters import Cluster
from rota.federation.failover import eviction_rate, exclusive, moves, taint_evictions, tasks
from rota.federation.gates import DEFAULT, Gates
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler

Object: TypeAlias = Mapping[str, Any]

#: The taint that a drill puts on a cluster; it is heeded even where taints do not evict otherwise.
TAINT: Final = {"key": "rota.dev/drill", "effect": "NoExecute"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The settings of a control plane that recovery depends on."""

    #: How long it takes until a lost cluster is known to be lost.
    detection_s: float
    eviction_rate: float
    fence_margin_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The fate of one binding."""

    namespace: str
    kind: str
    name: str
    replicas: int
    exclusive: bool
    #: The replicas that each cluster gets in addition; empty if the binding stays.
    gains: Mapping[str, int]
    #: Why it stays.
    refused: str = ""
    #: When the successor can be started, at the earliest, in seconds after the failure.
    after_s: float | None = None

    @property
    def moves(self) -> bool:
        """Whether another cluster takes over."""
        return not self.refused


def affected(found: Iterable[Object], cluster: str) -> list[Object]:
    """The bindings that have something in a cluster, in the order of their names."""
    return sorted(
        (one for one in found if taint_evictions.concerns(one, cluster)),
        key=lambda one: (meta.namespace(one), meta.name(one)),
    )


def foretold(
    found: Iterable[Object],
    cluster: str,
    clusters: Sequence[Object],
    works: Mapping[tuple[str, str], Sequence[Object]],
    lease: Object | None,
    pace: Pace,
    gates: Gates = DEFAULT,
) -> list[Row]:
    """The fate of each binding if a cluster fails without a word; `works` are by namespace and name of the binding."""
    others = [Cluster(one) for one in clusters if meta.name(one) != cluster and meta.is_condition_true(one, "Ready")]
    scheduler = Scheduler(Fleet(others), gates)
    fence_s = None if lease is None else exclusive.fence_after_s(lease)
    lost = [one if meta.name(one) != cluster else {**one, "status": {}} for one in clusters]
    interval_s = eviction_rate.interval_s(lost, pace.eviction_rate)
    rows: list[Row] = []
    evicted = 0
    for binding in affected(found, cluster):
        row = _row(binding, cluster, works, scheduler, fence_s, pace, gates)
        if row.moves and interval_s is None:
            row = _refused(row, "no other cluster answers, so nothing is evicted")
        if row.moves:
            waits_s = pace.detection_s + evicted * (interval_s or 0.0)
            evicted += 1
            row = dataclasses.replace(row, after_s=max(waits_s, row.after_s or 0.0))
        rows.append(row)
    return rows


def _row(
    binding: Object,
    cluster: str,
    works: Mapping[tuple[str, str], Sequence[Object]],
    scheduler: Scheduler,
    fence_s: float | None,
    pace: Pace,
    gates: Gates,
) -> Row:
    spec: Object = binding.get("spec") or {}
    reference: Object = spec.get("resource") or {}
    own = works.get((meta.namespace(binding), meta.name(binding)), ())
    marked = any(exclusive.is_marked(work) for work in own)
    before = bindings.assigned(spec)
    row = Row(
        namespace=meta.namespace(binding),
        kind=str(reference.get("kind")),
        name=str(reference.get("name")),
        replicas=before[cluster],
        exclusive=marked,
        gains={},
    )
    try:
        changed = taint_evictions.evicted(binding, cluster, tasks.GRACEFULLY, gates)
    except tasks.StateNotKept as error:
        return _refused(row, str(error))
    move = moves.planned(
        binding, changed, cluster, scheduler, exclusive=marked, answers=False, fenced=fence_s is not None
    )
    if move.refused:
        return _refused(row, move.message)
    after = bindings.assigned({"clusters": list(move.clusters)})
    gains = {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}
    new = {name: 0 for name in after if name not in before}
    stops_s = None
    if marked and fence_s is not None:
        stops_s = fence_s + max(map(exclusive.stopping_s, own)) + pace.fence_margin_s
    return dataclasses.replace(row, gains={**new, **gains}, after_s=stops_s)


def _refused(row: Row, why: str) -> Row:
    return dataclasses.replace(row, refused=why, after_s=None)


def is_recovered(binding: Object, cluster: str) -> bool:
    """Whether a binding has left a cluster and is healthy, or at least applied, where it went."""
    spec, status = binding.get("spec") or {}, binding.get("status") or {}
    targets = set(bindings.assigned(spec))
    if cluster in targets or not targets:
        return False
    items = {item.get("clusterName"): item for item in status.get("aggregatedStatus") or ()}
    return all(_is_well(items.get(name) or {}) for name in targets)


def _is_well(item: Object) -> bool:
    return item.get("health") == "Healthy" or (item.get("health") == "Unknown" and bool(item.get("applied")))
