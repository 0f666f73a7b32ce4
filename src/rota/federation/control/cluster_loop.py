"""Looks after member clusters: whether they answer, what they have, their taints, and their way out."""

import contextlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.federation import kinds, object_names
from rota.federation.control import members, summaries
from rota.federation.control.frame import Frame, covers
from rota.federation.control.types import Types
from rota.federation.failover import cluster_taints
from rota.federation.failover.cluster_health import Threshold
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError

log = logs.get(__name__)

FINALIZER: Final = "karmada.io/cluster-controller"
_NODES: Final = ("", "v1", "nodes")
_PODS: Final = ("", "v1", "pods")
#: How often a member is asked.
EVERY_S: Final = 10.0
#: For how long an observation must last before it is published.
THRESHOLD_S: Final = 30.0


class ClusterLoop:
    """Looks at each cluster every few seconds."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        every_s: float = EVERY_S,
        threshold_s: float = THRESHOLD_S,
    ) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._rng: Final = rng
        self._every_s: Final = every_s
        self._threshold_s: Final = threshold_s
        self._frame: Final = Frame[str]("clusters", clock=clock, rng=rng)
        self._clusters: Final = self._frame.follow(client, kinds.CLUSTERS, self._changed)
        self._works: Final = self._frame.follow(client, kinds.WORKS, self._work_changed)
        self._policies: Final = self._frame.follow(client, kinds.TAINT_POLICIES, self._policy_changed)
        self._thresholds: Final[dict[str, Threshold]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run(self._process, workers=8)

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or meta.is_deleting(new) != meta.is_deleting(old):
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
            self._thresholds.pop(name, None)
            return None
        if meta.is_deleting(cluster):
            return await self._leave(cluster)
        if FINALIZER not in meta.finalizers(cluster):
            patch = {"metadata": {"finalizers": [*meta.finalizers(cluster), FINALIZER]}}
            cluster = await self._client.patch(kinds.CLUSTERS, name, patch)
        await ensure_namespace(self._client, object_names.execution_space(name))
        if (cluster.get("spec") or {}).get("syncMode") != "Pull":
            cluster = await self._observe(cluster)
        now = times.format_time(self._clock.now())
        ready = {**cluster, "spec": {**cluster["spec"], "taints": cluster_taints.by_readiness(cluster, now)}}
        taints = cluster_taints.by_policies(ready, self._policies.values(), now)
        if taints != list((cluster.get("spec") or {}).get("taints") or ()):
            await self._client.patch(kinds.CLUSTERS, name, {"spec": {"taints": taints or None}})
        return self._every_s

    async def _observe(self, cluster: Object) -> Object:
        """Ask the member, and publish what it says."""
        name = meta.name(cluster)
        observed, status = await self._asked(cluster)
        now = self._clock.now()
        threshold = self._thresholds.setdefault(name, Threshold(self._threshold_s, self._threshold_s))
        current = (meta.condition(cluster, "Ready") or {}).get("status")
        ready = threshold.published(current, observed["status"], now)
        if ready == observed["status"]:
            status["conditions"] = meta.with_condition(meta.conditions(cluster), observed, now=times.format_time(now))
        if covers(cluster.get("status") or {}, status):
            return cluster
        return await self._client.patch(kinds.CLUSTERS, name, {"status": status}, subresource="status")

    async def _asked(self, cluster: Object) -> tuple[dict[str, Any], dict[str, Any]]:
        """The Ready condition as it is now, and the rest of the status if the member answers."""
        condition = {"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "cluster is healthy"}
        try:
            async with members.connected(self._client, cluster, clock=self._clock, rng=self._rng) as member:
                once = member.with_settings(retry=False)
                await once.request("GET", "/readyz", accept="*/*")
                types = await Types(once).refresh()
                nodes = (await once.list(_NODES)).items
                pods = (await once.list(_PODS)).items
                version = await once.request("GET", "/version")
        except Exception as error:  # whatever a member does, it is its own health that suffers
            if isinstance(error, errors.ApiError | TransportError | UserError | OSError | TimeoutError):
                said = f"{type(error).__name__}: {error}"
                log.info("a member does not answer", cluster=meta.name(cluster), error=said)
            else:
                log.exception("the answers of a member cannot be used", error=error, cluster=meta.name(cluster))
            unreachable = not isinstance(error, errors.ApiError)
            condition |= {
                "status": "False",
                "reason": "ClusterNotReachable" if unreachable else "ClusterNotReady",
                "message": "cluster is not reachable" if unreachable else "cluster is reachable but not ready",
            }
            return condition, {}
        return condition, {
            "kubernetesVersion": str(msgspec.json.decode(version).get("gitVersion", "")),
            "apiEnablements": summaries.enablements(types.values()),
            "nodeSummary": summaries.nodes(nodes),
            "resourceSummary": summaries.resources_of(nodes, pods),
        }

    async def _leave(self, cluster: Object) -> float | None:
        """Let a cluster go once it has no Works any more: the scheduler moves bindings off a cluster that leaves."""
        name = meta.name(cluster)
        space = object_names.execution_space(name)
        works = [work for key, work in self._works.items() if key.namespace == space]
        if works:
            if not meta.is_condition_true(await self._observe(cluster), "Ready"):
                await self._give_up(works)
            return self._every_s
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(kinds.NAMESPACES, space)
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


async def ensure_namespace(client: Client, name: str) -> None:
    """Make a namespace if it is missing."""
    try:
        await client.get(kinds.NAMESPACES, name)
    except errors.NotFound:
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
