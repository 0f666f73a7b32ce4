"""Schedules bindings: when they change, and when clusters do."""

import contextlib
from typing import Any, Final

import msgspec

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.clusters import Cluster
from rota.federation.control import conditions
from rota.federation.control.frame import Frame
from rota.federation.gates import Gates
from rota.federation.placement import triggers
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

#: The longest time until an unschedulable binding is tried again.
_AGAIN_S: Final = 10.0


class SchedulingLoop:
    """Keeps one snapshot of the clusters until one of them changes."""

    def __init__(self, client: Client, gates: Gates, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._gates: Final = gates
        self._clock: Final = clock
        self._frame: Final = Frame[Key]("scheduling", clock=clock, rng=rng)
        self._clusters: Final = self._frame.follow(client, kinds.CLUSTERS, self._cluster_changed)
        self._bindings: Final = {
            target: self._frame.follow(client, target, self._binding_changed)
            for target in (kinds.BINDINGS, kinds.CLUSTER_BINDINGS)
        }
        self._scheduler: Scheduler | None = None

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run(self._process, workers=4)

    def _binding_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        before = None if old is None else meta.metadata(old).get("generation")
        if before != meta.metadata(new).get("generation"):
            self._frame.queue.add(key)

    def _cluster_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._scheduler = None
        if old is None or new is None or _placeable(old) != _placeable(new):
            for cache in self._bindings.values():
                for binding in [key for key, _ in cache.items()]:
                    self._frame.queue.add(binding)

    async def _process(self, key: Key) -> float | None:
        target = kinds.bindings_of(key.namespace)
        binding = self._bindings[target].get(key.name, key.namespace)
        if binding is None or meta.is_deleting(binding) or not triggers.admitted(binding):
            return None
        spec: Object = binding.get("spec") or {}
        if spec.get("placement") is None:
            return None
        if self._scheduler is None:
            self._scheduler = Scheduler(Fleet(map(Cluster, self._clusters.values())), self._gates)
        leaving = {cluster.name for cluster in self._scheduler.fleet.clusters if cluster.deleting}
        known = self._scheduler.fleet.index
        due = triggers.due(binding, lambda name: name in leaving or name not in known, self._gates)
        if not due:
            await self._note(target, binding)
            return None
        others = list(self._bindings[kinds.BINDINGS].values()) if self._gates.workload_affinity else ()
        outcome = self._scheduler.schedule(binding, others=others)
        now = times.format_time(self._clock.now())
        if outcome.scheduled or outcome.reason == "NoClusterFit":
            patch = {
                "metadata": {
                    "annotations": {triggers.APPLIED_PLACEMENT: msgspec.json.encode(spec["placement"]).decode()}
                },
                "spec": {"clusters": list(outcome.clusters) or None},
            }
            try:
                binding = await self._client.patch(target, key.name, patch, namespace=key.namespace)
            except errors.NotFound:
                return None
        condition = {
            "type": "Scheduled",
            "status": "True" if outcome.scheduled else "False",
            "reason": outcome.reason,
            "message": outcome.message,
        }
        members: dict[str, Any] = {}
        if outcome.scheduled:
            members = {
                "schedulerObservedGeneration": meta.metadata(binding).get("generation"),
                "lastScheduledTime": now,
                "schedulerObservingAffinityName": outcome.affinity_name or None,
            }
        await conditions.write(self._client, target, binding, condition, members, now=now)
        return None if outcome.scheduled or outcome.reason == "NoClusterFit" else _AGAIN_S

    async def _note(self, target: kinds.Target, binding: Object) -> None:
        generation = meta.metadata(binding).get("generation")
        if (binding.get("status") or {}).get("schedulerObservedGeneration") != generation:
            patch = {"status": {"schedulerObservedGeneration": generation}}
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(
                    target, meta.name(binding), patch, namespace=meta.namespace(binding), subresource="status"
                )


def _placeable(cluster: Object) -> tuple[object, ...]:
    """What of a cluster counts for where bindings go; capacity alone moves nothing."""
    metadata = meta.metadata(cluster)
    return metadata.get("generation"), metadata.get("labels"), metadata.get("deletionTimestamp")
