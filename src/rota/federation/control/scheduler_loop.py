"""Schedules bindings: when they change, and when clusters do."""

import contextlib
from typing import Any, Final

import msgspec

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import bindings, kinds, quotas
from rota.federation.clusters import Cluster
from rota.federation.control import conditions
from rota.federation.estimation.member_nodes import MemberNodes
from rota.federation.gates import Gates
from rota.federation.member import connections
from rota.federation.placement import triggers
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

#: The longest time until an unschedulable binding is tried again.
_AGAIN_S: Final = 10.0


class SchedulingLoop:
    """Keeps one snapshot of the clusters until one of them changes."""

    def __init__(
        self, client: Client, gates: Gates, *, clock: Clock, rng: Rng, nodes: MemberNodes | None = None
    ) -> None:
        self._nodes: Final = nodes
        self._client: Final = client
        self._gates: Final = gates
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client,
            "scheduling",
            self._process,
            clock=clock,
            rng=rng,
            workers=4,
            retries=connections.RETRIES,
            rank=self._priority,
        )
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, self._cluster_changed).cache
        self._bindings: Final = {
            target: self._frame.follow(target, self._binding_changed).cache
            for target in (kinds.BINDINGS, kinds.CLUSTER_BINDINGS)
        }
        self._quotas: Final = (
            self._frame.follow(kinds.QUOTAS, self._quota_changed).cache if gates.federated_quota_enforcement else None
        )
        #: Specs of bindings that are being written and that the cache does not show yet, for quotas.
        self._assumed: Final[dict[Key, Object]] = {}
        self._scheduler: Scheduler | None = None
        #: The generations that this loop has written; their events need no other scheduling.
        self._written: Final[dict[Key, int]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _priority(self, key: Key) -> int:
        """The schedule priority of a binding, by which those that wait are scheduled."""
        binding = self._bindings[kinds.bindings_of(key.namespace)].get(key.name, key.namespace)
        spec: Object = {} if binding is None else binding.get("spec") or {}
        return int((spec.get("schedulePriority") or {}).get("priority") or 0)

    def _quota_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or old.get("spec") != new.get("spec"):
            for binding in [one for one, _ in self._bindings[kinds.BINDINGS].items() if one.namespace == key.namespace]:
                self._frame.queue.add(binding)

    def _over_quota(self, key: Key, before: Object, after: Object) -> str:
        """Why a placement exceeds a quota of the namespace; decided without waiting, so that no two decide at once."""
        assert self._quotas is not None
        others = [
            self._assumed.get(other) or binding.get("spec") or {}
            for other, binding in self._bindings[kinds.BINDINGS].items()
            if other.namespace == key.namespace and other != key
        ]
        of_namespace = (one for one in self._quotas.values() if meta.namespace(one) == key.namespace)
        return next(filter(None, (quotas.exceeded(one, others, before, after) for one in of_namespace)), "")

    def _binding_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._assumed.pop(key, None)
        if new is None:
            self._written.pop(key, None)
            return
        before = None if old is None else meta.metadata(old).get("generation")
        now = meta.metadata(new).get("generation")
        if before != now and (before is None or self._written.get(key) != now):
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
            self._scheduler = Scheduler(Fleet(map(Cluster, self._clusters.values())), self._gates, nodes=self._nodes)
        leaving = {cluster.name for cluster in self._scheduler.fleet.clusters if cluster.deleting}
        known = self._scheduler.fleet.index
        if await self._taken_up(target, binding):
            return None  # the binding comes back
        due = triggers.due(binding, lambda name: name in leaving or name not in known, self._gates)
        if not due:
            await self._note(target, binding)
            return None
        others = list(self._bindings[kinds.BINDINGS].values()) if self._gates.workload_affinity else ()
        outcome = self._scheduler.schedule(binding, others=others)
        now = times.format_time(self._clock.now())
        if outcome.scheduled and self._gates.federated_quota_enforcement and key.namespace:
            refused = self._over_quota(key, spec, {**spec, "clusters": list(outcome.clusters)})
            if refused:
                condition = {"type": "Scheduled", "status": "False", "reason": "QuotaExceeded", "message": refused}
                await conditions.write(self._client, target, binding, condition, {}, now=now)
                return _AGAIN_S
        if outcome.scheduled or outcome.reason == "NoClusterFit":
            written = await self._write(key, target, binding, list(outcome.clusters))
            if written is None:
                return None
            binding = written
        condition = {
            "type": "Scheduled",
            "status": "True" if outcome.scheduled else "False",
            "reason": outcome.reason,
            "message": outcome.message,
        }
        members: dict[str, Any] = {}
        if outcome.scheduled:
            status: Object = binding.get("status") or {}
            members = {
                "schedulerObservedGeneration": meta.metadata(binding).get("generation"),
                "schedulerObservingAffinityName": outcome.affinity_name or None,
            }
            is_new = any(status.get(member) != value for member, value in members.items())
            if is_new or bindings.reschedule_requested(spec, status) or not status.get("lastScheduledTime"):
                members["lastScheduledTime"] = now
        await conditions.write(self._client, target, binding, condition, members, now=now)
        return None if outcome.scheduled or outcome.reason == "NoClusterFit" else _AGAIN_S

    async def _write(
        self, key: Key, target: kinds.Target, binding: Object, clusters: list[bindings.Target]
    ) -> Object | None:
        """Write a placement, if it is another one than before; the binding after that, None if it is gone."""
        spec: Object = binding["spec"]
        applied = msgspec.json.encode(spec["placement"]).decode()
        known = meta.annotations(binding).get(triggers.APPLIED_PLACEMENT)
        if known == applied and (spec.get("clusters") or []) == clusters:
            return binding
        patch = {
            "metadata": {"annotations": {triggers.APPLIED_PLACEMENT: applied}},
            "spec": {"clusters": clusters or None},
        }
        self._assumed[key] = {**spec, "clusters": clusters}
        expected = self._written[key] = int(meta.metadata(binding).get("generation") or 0) + 1
        try:
            written = await self._client.patch(target, key.name, patch, namespace=key.namespace)
        except errors.NotFound:
            return None
        except BaseException:
            self._assumed.pop(key, None)
            self._written.pop(key, None)
            raise
        if meta.metadata(written).get("generation") != expected:
            # Nothing changed, or another change was written meanwhile: later generations are looked at.
            self._written.pop(key, None)
        return written

    async def _taken_up(self, target: kinds.Target, binding: Object) -> bool:
        """Ask for a fresh placement if that would use a cluster which has joined since the last one."""
        assert self._scheduler is not None
        if triggers.NEW_CLUSTERS not in meta.annotations(binding):
            return False
        ready = {
            meta.name(cluster): meta.metadata(cluster)["creationTimestamp"]
            for cluster in self._clusters.values()
            if meta.is_condition_true(cluster, "Ready") and not meta.is_deleting(cluster)
        }
        new = triggers.new_clusters(binding, ready)
        if not new:
            return False
        now = times.format_time(self._clock.now())
        asked = {**binding, "spec": {**binding["spec"], "rescheduleTriggeredAt": now}}
        status = {**(binding.get("status") or {}), "lastScheduledTime": "1970-01-01T00:00:00Z"}
        outcome = self._scheduler.schedule({**asked, "status": status})
        if not outcome.scheduled or not any(one["name"] in new for one in outcome.clusters):
            return False
        patch = {
            "metadata": {"resourceVersion": meta.metadata(binding).get("resourceVersion")},
            "spec": {"rescheduleTriggeredAt": now},
        }
        with contextlib.suppress(errors.NotFound, errors.Conflict):  # a newer version comes back by itself
            await self._client.patch(target, meta.name(binding), patch, namespace=meta.namespace(binding))
        return True

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
    return (
        meta.is_condition_true(cluster, "Ready"),
        metadata.get("generation"),
        metadata.get("labels"),
        metadata.get("deletionTimestamp"),
    )
