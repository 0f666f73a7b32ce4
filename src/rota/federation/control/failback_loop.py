"""Failback: bindings return to clusters that are healthy again, as FailbackPolicies say."""

import contextlib
from typing import Any, Final

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import bindings, kinds
from rota.federation.clusters import Cluster
from rota.federation.control.fences import is_ready
from rota.federation.control.works_loop import BY_BINDING, indexed_by_binding
from rota.federation.estimation.member_nodes import MemberNodes
from rota.federation.failover import exclusive, failback, moves
from rota.federation.gates import Gates
from rota.federation.member import connections
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

_LONGEST_S: Final = 3600.0


class FailbackLoop:
    """Reconciles a binding that has left a cluster, when it, a cluster or a policy changes and when a time has come."""

    def __init__(
        self, client: Client, gates: Gates, *, clock: Clock, rng: Rng, nodes: MemberNodes | None = None
    ) -> None:
        self._nodes: Final = nodes
        self._client: Final = client
        self._gates: Final = gates
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "failback", self._process, clock=clock, rng=rng, workers=1, retries=connections.RETRIES
        )
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, self._cluster_changed).cache
        self._policies: Final = self._frame.follow(kinds.FAILBACK_POLICIES, self._all_changed).cache
        self._bindings: Final = {
            target: self._frame.follow(target, self._binding_changed).cache
            for target in (kinds.BINDINGS, kinds.CLUSTER_BINDINGS)
        }
        self._works: Final = self._frame.follow(
            kinds.WORKS, lambda key, old, new: None, indexers={BY_BINDING: indexed_by_binding}
        ).cache
        #: By policy: when the next return may happen, by the monotonic clock.
        self._next_at: Final[dict[str, float]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _binding_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and moves.left(new):
            self._frame.queue.add(key)

    def _cluster_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or is_ready(old) != is_ready(new) or old.get("spec") != new.get("spec"):
            self._all_changed(key, old, new)

    def _all_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        for cache in self._bindings.values():
            for name in [name for name, binding in cache.items() if moves.left(binding)]:
                self._frame.queue.add(name)

    async def _process(self, key: Key) -> float | None:
        target = kinds.bindings_of(key.namespace)
        binding = self._bindings[target].get(key.name, key.namespace)
        if binding is None or meta.is_deleting(binding) or not moves.left(binding):
            return None
        there = set(bindings.assigned(binding.get("spec") or {}))
        known = {name: self._clusters.get(name) for name in moves.left(binding)}
        over = {name for name, cluster in known.items() if cluster is None or name in there}
        if over:
            await self._write(target, binding, {}, over)
            return None
        policy = failback.policy_for(binding, self._policies.values())
        if policy is None:
            return None
        decided = self._decided(binding, policy)
        if isinstance(decided, failback.Wait):
            return min(max(decided.again_s, 1.0), _LONGEST_S) if decided.again_s else None
        log.warning("a binding returns", binding=meta.qualified_name(binding), clusters=sorted(decided.homes))
        self._next_at[meta.name(policy)] = self._clock.monotonic() + failback.interval_s(policy)
        await self._write(target, binding, dict(decided.spec), set(decided.homes))
        return None

    def _decided(self, binding: Object, policy: Object) -> failback.Return | failback.Wait:
        now = self._clock.now()
        closed_s = failback.until_window_s(policy, now)
        if closed_s > 0:
            return failback.Wait("no window is open", closed_s)
        if (binding.get("spec") or {}).get("gracefulEvictionTasks"):
            return failback.Wait("an eviction is in progress", 5.0)
        present = {meta.name(cluster): cluster for cluster in self._clusters.values()}
        back = failback.homes(binding, policy, present, now)
        if isinstance(back, failback.Wait):
            return back
        pause_s = self._next_at.get(meta.name(policy), 0.0) - self._clock.monotonic()
        if pause_s > 0:
            return failback.Wait("others return first", pause_s)
        answering = [Cluster(cluster) for cluster in present.values() if is_ready(cluster)]
        works = self._works.indexed(BY_BINDING, f"{meta.namespace(binding)}/{meta.name(binding)}")
        return failback.planned(
            binding,
            back,
            Scheduler(Fleet(answering), self._gates, nodes=self._nodes),
            now,
            exclusive=any(exclusive.is_marked(work) for work in works),
        )

    async def _write(self, target: kinds.Target, binding: Object, spec: dict[str, Any], homes: set[str]) -> None:
        patch: dict[str, Any] = {
            "metadata": {
                "resourceVersion": meta.metadata(binding).get("resourceVersion"),
                "annotations": {moves.LEFT: moves.without_left(binding, homes)},
            }
        }
        if spec:
            patch["spec"] = spec
        with contextlib.suppress(errors.NotFound, errors.Conflict):  # the newer version is reconciled anyway
            await self._client.patch(target, meta.name(binding), patch, namespace=meta.namespace(binding))
