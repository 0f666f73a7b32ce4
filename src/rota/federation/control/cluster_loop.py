"""Looks after member clusters: whether they answer, what they have, their taints, and their way out."""

import contextlib
from collections.abc import Iterable
from typing import Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds, object_names
from rota.federation.control import pull_members
from rota.federation.control.fences import Fences
from rota.federation.control.observers import Observers
from rota.federation.control.reported_nodes import ReportedNodes
from rota.federation.estimation.member_nodes import MemberNodes
from rota.federation.failover import cluster_taints
from rota.federation.failover.cluster_health import Condition, Monitor
from rota.federation.member import connections, observation
from rota.federation.member.observation import Publisher
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

FINALIZER: Final = "karmada.io/cluster-controller"
#: For how long an agent may fail to renew its Lease before its cluster counts as unknown.
LEASE_GRACE_S: Final = 40.0
_UNKNOWN_REASON: Final = "ClusterStatusUnknown"
#: When a cluster that changed while it was observed is looked at again.
_AFTER_CONFLICT_S: Final = 0.2


class ClusterLoop:
    """Looks at each cluster every few seconds."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        fences: Fences,
        every_s: float = observation.EVERY_S,
        threshold_s: float = observation.THRESHOLD_S,
        lease_grace_s: float = LEASE_GRACE_S,
        nodes: MemberNodes | None = None,
    ) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._every_s: Final = every_s
        self._threshold_s: Final = threshold_s
        self._frame: Final = Reconciler[str](
            client, "clusters", self._process, clock=clock, rng=rng, workers=8, retries=connections.RETRIES
        )
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, self._changed).cache
        self._works: Final = self._frame.follow(kinds.WORKS, self._work_changed).cache
        self._policies: Final = self._frame.follow(kinds.TAINT_POLICIES, self._policy_changed).cache
        self._fences: Final = fences
        self._lease_grace_s: Final = lease_grace_s
        self._observers: Final = Observers(client, clock=clock, rng=rng, nodes=nodes)
        self._reported: Final = ReportedNodes(client, self._frame, nodes)
        self._publishers: Final[dict[str, Publisher]] = {}
        self._monitors: Final[dict[str, Monitor]] = {}
        #: Members whose execution namespace was found or created since the start.
        self._prepared: Final[set[str]] = set()
        #: Pull members whose account was put right since the start.
        self._admitted: Final[set[str]] = set()
        self._frame.follow(kinds.LEASES, fences.changed, namespace=kinds.CLUSTER_NAMESPACE)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self._frame.run()
        finally:
            await self._observers.close()

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _seen(old) != _seen(new):
            self._frame.queue.add(key.name)

    def _work_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        cluster = object_names.cluster_of(key.namespace)
        if new is None and cluster is not None:
            self._frame.queue.add(cluster)

    def _policy_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        for name in [cluster.name for cluster, _ in self._clusters.items()]:
            self._frame.queue.add(name)

    async def _process(self, name: str) -> float | None:
        cluster = self._clusters.get(name)
        if cluster is None:
            self._publishers.pop(name, None)
            self._monitors.pop(name, None)
            self._admitted.discard(name)
            self._prepared.discard(name)
            self._reported.drop(name)
            await self._observers.drop(name)
            return None
        if meta.is_deleting(cluster):
            return await self._leave(cluster)
        if FINALIZER not in meta.finalizers(cluster):
            patch = {"metadata": {"finalizers": [*meta.finalizers(cluster), FINALIZER]}}
            cluster = await self._client.patch(kinds.CLUSTERS, name, patch)
        if name not in self._prepared:
            await connections.ensure_namespace(self._client, object_names.execution_space(name))
            self._prepared.add(name)
        if pull_members.is_pull(cluster):
            if name not in self._admitted:
                await pull_members.admit(self._client, name)
                await self._reported.request(name)
                self._admitted.add(name)
            cluster = await self._monitor(cluster)
            self._reported.take(cluster)
        else:
            cluster = await self._observe(cluster)
        now = times.format_time(self._clock.now())
        ready = {**cluster, "spec": {**cluster["spec"], "taints": cluster_taints.by_readiness(cluster, now)}}
        taints = cluster_taints.by_policies(ready, self._policies.values(), now)
        if taints != list((cluster.get("spec") or {}).get("taints") or ()):
            # Observing a member takes a while: taints that others wrote meanwhile are not overwritten.
            version = {"resourceVersion": meta.metadata(cluster)["resourceVersion"]}
            try:
                await self._client.patch(
                    kinds.CLUSTERS, name, {"metadata": version, "spec": {"taints": taints or None}}
                )
            except errors.Conflict:
                return _AFTER_CONFLICT_S
        return self._every_s

    async def _observe(self, cluster: Object) -> Object:
        """Ask the member, and publish what it answers; the agent of a pull member does that itself."""
        name = meta.name(cluster)
        publisher = self._publishers.setdefault(
            name, Publisher(self._client, name, clock=self._clock, threshold_s=self._threshold_s)
        )
        return await publisher.publish(cluster, await self._observers.observe(cluster))

    async def _monitor(self, cluster: Object) -> Object:
        """Declare a pull member unknown whose agent has stopped renewing its Lease."""
        name, now = meta.name(cluster), self._clock.now()
        created = times.parse(meta.metadata(cluster)["creationTimestamp"])
        monitor = self._monitors.setdefault(name, Monitor(created, self._lease_grace_s, self._lease_grace_s * 1.5))
        present = meta.condition(cluster, "Ready")
        ready = None
        if present is not None:
            ready = Condition(present["status"], by_monitor=present.get("reason") == _UNKNOWN_REASON)
        verdict = monitor.check(ready, self._fences.renewed(name), now, pushed=False)
        if verdict == ready or verdict is None:
            return cluster
        condition = {
            "type": "Ready",
            "status": verdict.status,
            "reason": _UNKNOWN_REASON,
            "message": "the agent of the cluster has stopped renewing its Lease",
        }
        conditions = meta.with_condition(meta.conditions(cluster), condition, now=times.format_time(now))
        return await self._client.patch(
            kinds.CLUSTERS, name, {"status": {"conditions": conditions}}, subresource="status"
        )

    async def _leave(self, cluster: Object) -> float | None:
        """Let a cluster go once it has no Works any more: the scheduler moves bindings off a cluster that leaves."""
        name = meta.name(cluster)
        space = object_names.execution_space(name)
        works = [work for key, work in self._works.items() if key.namespace == space]
        if works:
            seen = await (self._monitor(cluster) if pull_members.is_pull(cluster) else self._observe(cluster))
            if not meta.is_condition_true(seen, "Ready"):
                await self._give_up(works)
            return self._every_s
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(kinds.NAMESPACES, space)
        await pull_members.dismiss(self._client, name)
        reference = (cluster.get("spec") or {}).get("secretRef")
        if reference is not None:
            with contextlib.suppress(errors.NotFound):
                await self._client.delete(kinds.SECRETS, reference["name"], namespace=reference["namespace"])
        left = [one for one in meta.finalizers(cluster) if one != FINALIZER]
        with contextlib.suppress(errors.NotFound):
            await self._client.patch(kinds.CLUSTERS, name, {"metadata": {"finalizers": left or None}})
        return None

    async def _give_up(self, works: Iterable[Object]) -> None:
        """Forget Works of a member that leaves and does not answer: what is there stays there, and is said so."""
        for work in works:
            if not meta.is_deleting(work):
                continue
            log.warning("a member left without an answer; what it has stays there", work=meta.qualified_name(work))
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(
                    kinds.WORKS, meta.name(work), {"metadata": {"finalizers": None}}, namespace=meta.namespace(work)
                )


def _seen(cluster: Object) -> tuple[object, ...]:
    """What of a cluster changes its taints, or removes it."""
    return meta.is_deleting(cluster), (meta.condition(cluster, "Ready") or {}).get("status")
