"""Evictions: from clusters with taints that a placement does not tolerate, of applications that stay unhealthy, and
the end of those in progress.

Evictions from clusters are paced, and stop while no cluster answers. Every move is decided by `failover.moves`: without
a substitute a binding stays where it is, and its condition `Failover` says why.
"""

import contextlib
from collections.abc import Iterable
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import bindings, kinds
from rota.federation.clusters import Cluster
from rota.federation.control import conditions
from rota.federation.control.fences import Fences, is_ready
from rota.federation.control.works_loop import BY_BINDING, indexed_by_binding
from rota.federation.estimation.member_nodes import MemberNodes
from rota.federation.failover import (
    application,
    drill,
    eviction_rate,
    exclusive,
    graceful,
    moves,
    taint_evictions,
    tasks,
)
from rota.federation.gates import Gates
from rota.federation.member import connections
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

#: How long a graceful eviction may take if its policy does not say.
TIMEOUT_S: Final = 600.0
_CONDITION: Final = "Failover"
_AGAIN_S: Final = 10.0
_NEXT_S: Final = 1.0


class EvictionLoop:
    """Reconciles a binding when it or a cluster's taints change, and when a time has come."""

    def __init__(
        self,
        client: Client,
        gates: Gates,
        fences: Fences,
        *,
        clock: Clock,
        rng: Rng,
        by_taints: bool,
        timeout_s: float = TIMEOUT_S,
        rate: float = eviction_rate.RATE,
        nodes: MemberNodes | None = None,
    ) -> None:
        self._nodes: Final = nodes
        self._client: Final = client
        self._gates: Final = gates
        self._fences: Final = fences
        self._clock: Final = clock
        self._by_taints: Final = by_taints
        self._timeout_s: Final = timeout_s
        self._rate: Final = rate
        self._frame: Final = Reconciler[Key](
            client, "evictions", self._process, clock=clock, rng=rng, workers=2, retries=connections.RETRIES
        )
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, self._cluster_changed).cache
        self._bindings: Final = {
            target: self._frame.follow(target, self._binding_changed).cache
            for target in (kinds.BINDINGS, kinds.CLUSTER_BINDINGS)
        }
        self._works: Final = self._frame.follow(
            kinds.WORKS, lambda key, old, new: None, indexers={BY_BINDING: indexed_by_binding}
        ).cache
        #: When the next eviction from a cluster may happen, by the monotonic clock.
        self._next_at = float("-inf")
        #: By binding and cluster: since when the application is unhealthy there.
        self._unhealthy_since: Final[dict[Key, dict[str, float]]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _binding_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._frame.queue.add(key)
        else:
            self._unhealthy_since.pop(key, None)

    def _cluster_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _reasons_to_leave(old) == _reasons_to_leave(new):
            return
        for cache in self._bindings.values():
            for binding in [key for key, _ in cache.items()]:
                self._frame.queue.add(binding)

    async def _process(self, key: Key) -> float | None:
        target = kinds.bindings_of(key.namespace)
        binding = self._bindings[target].get(key.name, key.namespace)
        if binding is None or meta.is_deleting(binding):
            return None
        again = (
            await self._end_evictions(target, binding),
            await self._leave_tainted(target, binding),
            await self._leave_unhealthy(key, target, binding),
        )
        return min((seconds for seconds in again if seconds), default=None)

    async def _end_evictions(self, target: kinds.Target, binding: Object) -> float | None:
        """Remove tasks that have ended; the Works of their clusters are deleted then."""
        present = (binding.get("spec") or {}).get("gracefulEvictionTasks") or []
        if not present:
            return None
        found = graceful.assess(binding, self._clock.now(), self._timeout_s)
        # A cluster that leaves the federation, or has left it, keeps nothing for its successor.
        kept = [task for task in found.kept if self._stays(task.get("fromCluster", ""))]
        if kept != list(present):
            await self._write(target, binding, {"gracefulEvictionTasks": kept or None})
        return found.retry_after_s or None

    def _stays(self, name: str) -> bool:
        cluster = self._clusters.get(name)
        return cluster is not None and not meta.is_deleting(cluster)

    async def _leave_tainted(self, target: kinds.Target, binding: Object) -> float | None:
        """Evict from the first cluster whose taints are not tolerated; the others follow when that is written."""
        waits: list[float] = []
        refused: list[tuple[str, str]] = []
        for name in bindings.assigned(binding.get("spec") or {}):
            obj = self._clusters.get(name)
            if obj is None or not (self._by_taints or _is_drilled(obj)):
                continue
            try:
                verdict = taint_evictions.judge(binding, Cluster(obj), self._clock.now(), enabled=True)
            except taint_evictions.NoPlacement:
                return None
            if not verdict.evict:
                if verdict.tolerated_s > 0:
                    waits.append(verdict.tolerated_s)
                continue
            pause = self._pause_s()
            if pause > 0:
                waits.append(pause)
                continue
            try:
                changed = taint_evictions.evicted(binding, name, tasks.GRACEFULLY, self._gates)
            except tasks.StateNotKept as error:
                log.warning("an eviction waits", binding=meta.qualified_name(binding), cluster=name, error=str(error))
                waits.append(_AGAIN_S)
                continue
            move = await self._planned(binding, changed, name)
            if move.refused:
                refused.append((move.refused, move.message))
                waits.append(_AGAIN_S)
                continue
            self._next_at = self._clock.monotonic() + (self._interval_s() or 0.0)
            await self._move(target, binding, move, [name])
            return _NEXT_S
        await self._tell(target, binding, refused)
        return min(waits, default=None)

    def _interval_s(self) -> float | None:
        return eviction_rate.interval_s(self._clusters.values(), self._rate)

    def _pause_s(self) -> float:
        """How long the next eviction from a cluster has to wait; 0: not at all."""
        if self._interval_s() is None:
            log.warning("no cluster answers, so nothing is evicted; the control plane may be cut off")
            return _AGAIN_S
        return max(0.0, self._next_at - self._clock.monotonic())

    async def _leave_unhealthy(self, key: Key, target: kinds.Target, binding: Object) -> float | None:
        """Evict an application from clusters where it has been unhealthy for longer than its policy tolerates."""
        before = self._unhealthy_since.get(key, {})
        step = application.step(binding, before, self._clock.now(), self._gates)
        if step.error is not None:
            log.warning("an eviction waits", binding=meta.qualified_name(binding), error=step.error)
            return _AGAIN_S
        spec: Object = binding.get("spec") or {}
        gone = [one for one in bindings.assigned(spec) if one not in bindings.assigned(step.spec)]
        if gone:
            move = await self._planned(binding, step.spec, gone[0])
            for other in gone[1:]:
                if not move.refused:
                    move = await self._planned(binding, move.spec, other)
            if move.refused:
                await self._tell(target, binding, [(move.refused, move.message)])
                return _AGAIN_S
            await self._move(target, binding, move, gone)
        if step.unhealthy_since:
            self._unhealthy_since[key] = dict(step.unhealthy_since)
        else:
            self._unhealthy_since.pop(key, None)
        return max(step.retry_after_s, _NEXT_S) if step.retry_after_s else None

    async def _planned(self, binding: Object, changed: tasks.Spec, cluster: str) -> moves.Move:
        """Decide a move; only clusters that answer can take over."""
        answering = [Cluster(obj) for obj in self._clusters.values() if is_ready(obj)]
        return moves.planned(
            binding,
            changed,
            cluster,
            Scheduler(Fleet(answering), self._gates, nodes=self._nodes),
            exclusive=self._is_exclusive(binding),
            answers=is_ready(self._clusters.get(cluster)),
            fenced=await self._fences.fences(cluster),
        )

    def _is_exclusive(self, binding: Object) -> bool:
        works = self._works.indexed(BY_BINDING, f"{meta.namespace(binding)}/{meta.name(binding)}")
        return any(exclusive.is_marked(work) for work in works)

    async def _move(self, target: kinds.Target, binding: Object, move: moves.Move, clusters: Iterable[str]) -> None:
        now = times.format_time(self._clock.now())
        log.warning("a binding leaves clusters", binding=meta.qualified_name(binding), clusters=list(clusters))
        members = {
            "clusters": move.spec.get("clusters") or None,
            "gracefulEvictionTasks": move.spec.get("gracefulEvictionTasks"),
        }
        await self._write(target, binding, members, left=moves.with_left(binding, clusters, now))

    async def _tell(self, target: kinds.Target, binding: Object, refused: list[tuple[str, str]]) -> None:
        """Say in the binding why it is not moved, or that this is over."""
        present = meta.condition(binding, _CONDITION)
        if not refused and (present is None or present.get("status") == "True"):
            return
        condition = {"type": _CONDITION, "status": "True", "reason": "Possible", "message": ""}
        if refused:
            message = "; ".join(message for _, message in refused)
            condition |= {"status": "False", "reason": refused[0][0], "message": message}
            if present is None or present.get("message") != message:
                log.warning("a binding stays", binding=meta.qualified_name(binding), why=message)
        now = times.format_time(self._clock.now())
        await conditions.write(self._client, target, binding, condition, {}, now=now)

    async def _write(
        self,
        target: kinds.Target,
        binding: Object,
        members: dict[str, Any],
        *,
        left: str = "",
    ) -> None:
        metadata: dict[str, Any] = {"resourceVersion": meta.metadata(binding).get("resourceVersion")}
        if left:
            metadata["annotations"] = {moves.LEFT: left}
        patch = {"metadata": metadata, "spec": members}
        with contextlib.suppress(errors.NotFound, errors.Conflict):  # the newer version is reconciled anyway
            await self._client.patch(target, meta.name(binding), patch, namespace=meta.namespace(binding))


def _is_drilled(cluster: Object) -> bool:
    return any(taint.get("key") == drill.TAINT["key"] for taint in (cluster.get("spec") or {}).get("taints") or ())


def _reasons_to_leave(cluster: Object) -> tuple[object, ...]:
    """What of a cluster makes bindings leave it, or lets them be moved."""
    return (cluster.get("spec") or {}).get("taints"), meta.is_deleting(cluster), is_ready(cluster)
