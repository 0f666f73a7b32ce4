"""Evictions: out of clusters with taints that a placement does not tolerate, and the end of those under way.

A binding leaves a cluster only if another can take what it has there: a placement without the cluster is tried first,
and where none is found the binding stays where it is.
"""

import contextlib
from typing import Any, Final

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.clusters import Cluster
from rota.federation.control.frame import Frame
from rota.federation.failover import graceful, taint_evictions, tasks
from rota.federation.gates import Gates
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

#: How long a graceful eviction may take where its policy says nothing.
TIMEOUT_S: Final = 600.0
_AGAIN_S: Final = 10.0


class EvictionLoop:
    """Looks at a binding when it or a cluster's taints change, and when a time has come."""

    def __init__(
        self,
        client: Client,
        gates: Gates,
        *,
        clock: Clock,
        rng: Rng,
        by_taints: bool,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._client: Final = client
        self._gates: Final = gates
        self._clock: Final = clock
        self._by_taints: Final = by_taints
        self._timeout_s: Final = timeout_s
        self._frame: Final = Frame[Key]("evictions", clock=clock, rng=rng)
        self._clusters: Final = self._frame.follow(client, kinds.CLUSTERS, self._cluster_changed)
        self._bindings: Final = {
            target: self._frame.follow(client, target, self._binding_changed)
            for target in (kinds.BINDINGS, kinds.CLUSTER_BINDINGS)
        }

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run(self._process)

    def _binding_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._frame.queue.add(key)

    def _cluster_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _left_by(old) == _left_by(new):
            return
        for cache in self._bindings.values():
            for binding in [key for key, _ in cache.items()]:
                self._frame.queue.add(binding)

    async def _process(self, key: Key) -> float | None:
        target = kinds.bindings_of(key.namespace)
        binding = self._bindings[target].get(key.name, key.namespace)
        if binding is None or meta.is_deleting(binding):
            return None
        again = [await self._end_evictions(target, binding)]
        if self._by_taints:
            again.append(await self._leave_tainted(target, binding))
        waits = [seconds for seconds in again if seconds]
        return min(waits) if waits else None

    async def _end_evictions(self, target: kinds.Target, binding: Object) -> float | None:
        """Drop tasks that are over; the Works of their clusters go then."""
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
        waits: list[float] = []
        spec: Object = binding.get("spec") or {}
        for name in [one.get("name", "") for one in spec.get("clusters") or ()]:
            obj = self._clusters.get(name)
            if obj is None:
                continue
            try:
                verdict = taint_evictions.judge(binding, Cluster(obj), self._clock.now(), enabled=True)
            except taint_evictions.NoPlacement:
                return None
            if not verdict.evict:
                if verdict.tolerated_s > 0:
                    waits.append(verdict.tolerated_s)
                continue
            try:
                changed = taint_evictions.evicted(binding, name, tasks.GRACEFULLY, self._gates)
            except tasks.StateNotKept as error:
                log.warning("an eviction waits", binding=meta.qualified_name(binding), cluster=name, error=str(error))
                waits.append(_AGAIN_S)
                continue
            if not self._has_substitute(binding, changed):
                log.warning("no other cluster can take it", binding=meta.qualified_name(binding), cluster=name)
                waits.append(_AGAIN_S)
                continue
            await self._write(
                target,
                binding,
                {
                    "clusters": changed["clusters"] or None,
                    "gracefulEvictionTasks": changed["gracefulEvictionTasks"],
                },
            )
            return 1.0  # the next cluster is looked at when this one is known to be left
        return min(waits, default=None)

    def _has_substitute(self, binding: Object, changed: tasks.Spec) -> bool:
        """Whether the binding could be placed without the cluster it leaves."""
        scheduler = Scheduler(Fleet(map(Cluster, self._clusters.values())), self._gates)
        return scheduler.schedule({**binding, "spec": changed}).scheduled

    async def _write(self, target: kinds.Target, binding: Object, members: dict[str, Any]) -> None:
        patch = {"metadata": {"resourceVersion": meta.metadata(binding).get("resourceVersion")}, "spec": members}
        with contextlib.suppress(errors.NotFound, errors.Conflict):  # a newer version comes back by itself
            await self._client.patch(target, meta.name(binding), patch, namespace=meta.namespace(binding))


def _left_by(cluster: Object) -> tuple[object, ...]:
    """What of a cluster makes bindings leave it."""
    return (cluster.get("spec") or {}).get("taints"), meta.is_deleting(cluster)
