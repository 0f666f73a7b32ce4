"""The descheduler: moves replicas from a member that cannot schedule them to members that can.

The binding is written once, with the new placement. If no other cluster has room, the replicas stay. A binding of
another scheduler only loses the replicas, and that scheduler places them.
"""

from typing import Final

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.clusters import Cluster
from rota.federation.control.works_loop import BY_BINDING, binding_of, indexed_by_binding
from rota.federation.estimation.member_nodes import MemberNodes
from rota.federation.failover import descheduler, exclusive
from rota.federation.gates import Gates
from rota.federation.member import connections, unschedulable
from rota.federation.placement import triggers
from rota.federation.placement.fleet import Fleet
from rota.federation.placement.scheduler import Scheduler
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

_AGAIN_S: Final = 1.0
#: How often a place elsewhere is looked for while there is none.
_FULL_AGAIN_S: Final = 30.0


class DeschedulerLoop:
    """Reconciles a binding when a member counts unschedulable replicas of it."""

    def __init__(
        self, client: Client, gates: Gates, *, clock: Clock, rng: Rng, nodes: MemberNodes | None = None
    ) -> None:
        self._nodes: Final = nodes
        self._client: Final = client
        self._gates: Final = gates
        self._frame: Final = Reconciler[Key](
            client, "descheduler", self._process, clock=clock, rng=rng, workers=1, retries=connections.RETRIES
        )
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, lambda key, old, new: None).cache
        self._bindings: Final = self._frame.follow(kinds.BINDINGS, lambda key, old, new: None).cache
        self._works: Final = self._frame.follow(
            kinds.WORKS, self._work_changed, indexers={BY_BINDING: indexed_by_binding}
        ).cache

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _work_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if (
            new is None
            or not unschedulable.marked(new)
            or (old is not None and unschedulable.marked(old) == unschedulable.marked(new))
        ):
            return
        binding = binding_of(new)
        if binding is not None:
            self._frame.queue.add(binding)

    async def _process(self, key: Key) -> float | None:
        binding = self._bindings.get(key.name, key.namespace)
        if binding is None or meta.is_deleting(binding) or not descheduler.considered(binding):
            return None
        works = self._works.indexed(BY_BINDING, f"{key.namespace}/{key.name}")
        stuck = {exclusive.cluster_of(work): unschedulable.marked(work) for work in works}
        before = list((binding.get("spec") or {}).get("clusters") or ())
        after = descheduler.reduced(binding, stuck)
        if after == before:
            return None
        if triggers.admitted(binding):
            scheduler = Scheduler(Fleet(map(Cluster, self._clusters.values())), self._gates, nodes=self._nodes)
            others = list(self._bindings.values()) if self._gates.workload_affinity else ()
            placed = descheduler.moved(binding, stuck, scheduler, others)
            if placed is None:
                log.info("no cluster has room for unschedulable replicas", binding=meta.qualified_name(binding))
                return _FULL_AGAIN_S
            after = placed
        log.warning("unschedulable replicas are moved", binding=meta.qualified_name(binding), replicas=stuck)
        patch = {
            "metadata": {"resourceVersion": meta.metadata(binding).get("resourceVersion")},
            "spec": {"clusters": after},
        }
        try:
            await self._client.patch(kinds.BINDINGS, key.name, patch, namespace=key.namespace)
        except errors.NotFound:
            return None
        except errors.Conflict:
            return _AGAIN_S  # no other event follows: the count stays the same
        return None
