"""The health and capacity of one member: what it answers, and what is published of that in its Cluster.

A member is asked at intervals whether it is ready. Nodes and pods are watched, and of each only what a summary counts
is kept, so an idle member costs one request per interval. A change of readiness is published after it has lasted for a
threshold. Whatever a member answers affects only its own Cluster.
"""

from typing import Any, Final, NamedTuple

import msgspec

from rota.api import codec, errors, meta, times
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.estimation.member_nodes import NodeCapacity
from rota.federation.failover.cluster_health import Threshold
from rota.federation.interpreters import trees
from rota.federation.member import summaries
from rota.federation.member.served_kinds import Types
from rota.federation.member.summaries import NodeShare, PodShare
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError

log = logs.get(__name__)

_NODES: Final = ("", "v1", "nodes")
_PODS: Final = ("", "v1", "pods")
#: Interval of observations.
EVERY_S: Final = 10.0
#: For how long an observation must last before it is published.
THRESHOLD_S: Final = 30.0
#: How long one observation may take altogether.
_PATIENCE_S: Final = 30.0
#: A member is asked for the kinds that it serves at every third observation.
_API_EVERY: Final = 3
_READY: Final = {"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "cluster is healthy"}


class Observation(NamedTuple):
    """The Ready condition as it is now, and the rest of the status if the member answered."""

    condition: dict[str, Any]
    status: dict[str, Any]
    #: What is free on each node, where that was asked for.
    nodes: tuple[NodeCapacity, ...] | None = None


def failed(error: Exception, cluster: str) -> Observation:
    """The observation of a member that does not answer, or not with what was asked for."""
    if isinstance(error, errors.ApiError | TransportError | UserError | OSError | TimeoutError):
        log.info("a member does not answer", cluster=cluster, error=f"{type(error).__name__}: {error}")
    else:
        log.exception("the answers of a member cannot be used", error=error, cluster=cluster)
    reachable = isinstance(error, errors.ApiError)
    condition = {
        **_READY,
        "status": "False",
        "reason": "ClusterNotReady" if reachable else "ClusterNotReachable",
        "message": "cluster is reachable but not ready" if reachable else "cluster is not reachable",
    }
    return Observation(condition, {})


class Observer:
    """Observes one member until it is closed."""

    def __init__(self, member: Client, cluster: str, *, clock: Clock, rng: Rng, with_nodes: bool = False) -> None:
        """`with_nodes` adds what is free on each node."""
        self._with_nodes: Final = with_nodes
        self._member: Final = member.with_settings(retry=False)
        self._cluster: Final = cluster
        self._clock: Final = clock
        self._types: Final = Types(self._member)
        self._running: Final = tasks.Supervisor(f"observer of {cluster}", clock=clock, rng=rng)
        self._nodes: Final = Informer[NodeShare | None](
            Source(client=member, target=_NODES), decode=_read_node, clock=clock, rng=rng
        )
        self._pods: Final = Informer[PodShare | None](
            Source(client=member, target=_PODS), decode=_read_pod, clock=clock, rng=rng
        )
        self._nodes.add_handler(self._changed)
        self._pods.add_handler(self._changed)
        self._observations = 0
        #: What was read of the member's API the last time.
        self._api: dict[str, Any] = {}
        #: The summary of nodes and pods; None if they have changed since.
        self._summary: dict[str, Any] | None = None
        self._capacities: tuple[NodeCapacity, ...] | None = None

    async def observe(self) -> Observation:
        """Ask the member."""
        try:
            return await self._clock.wait_for(self._asked(), _PATIENCE_S)
        except Exception as error:  # noqa: BLE001  # whatever a member does is a fact about that member only
            return failed(error, self._cluster)

    async def close(self) -> None:
        """End the watches."""
        await self._running.close()

    def _changed(self, key: Key, old: object, new: object) -> None:
        self._summary = None

    async def _asked(self) -> Observation:
        await self._member.request("GET", "/readyz", accept="*/*")
        if not self._running.running:
            self._running.start("nodes", self._nodes.run)
            self._running.start("pods", self._pods.run)
        if self._observations % _API_EVERY == 0:
            types = await self._types.refresh()
            version = await self._member.request("GET", "/version")
            self._api = {
                "kubernetesVersion": str(msgspec.json.decode(version).get("gitVersion", "")),
                "apiEnablements": summaries.enablements(types.values()),
            }
        await self._nodes.wait_synced()
        await self._pods.wait_synced()
        self._observations += 1
        if self._summary is None:
            nodes = [share for share in self._nodes.cache.values() if share is not None]
            pods = [share for share in self._pods.cache.values() if share is not None]
            self._summary = {
                "nodeSummary": summaries.nodes(nodes),
                "resourceSummary": summaries.resources_of(nodes, pods),
            }
            self._capacities = summaries.capacities(nodes, pods) if self._with_nodes else None
        return Observation(dict(_READY), {**self._api, **self._summary}, self._capacities)


def _read_node(raw: bytes) -> NodeShare | None:
    """A node, or None for one that cannot be read: it gives no capacity."""
    try:
        return summaries.node_share(codec.decode(raw))
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def _read_pod(raw: bytes) -> PodShare | None:
    """A pod, or None for one that has ended or cannot be read."""
    try:
        return summaries.pod_share(codec.decode(raw))
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


class Publisher:
    """Writes observations into the status of one Cluster."""

    def __init__(self, control: Client, cluster: str, *, clock: Clock, threshold_s: float = THRESHOLD_S) -> None:
        self._control: Final = control
        self._cluster: Final = cluster
        self._clock: Final = clock
        self._threshold: Final = Threshold(threshold_s, threshold_s)

    async def publish(self, cluster: Object, observation: Observation) -> Object:
        """Publish an observation, if it changes anything; the Cluster afterwards."""
        now = self._clock.now()
        condition, status = observation.condition, dict(observation.status)
        current = (meta.condition(cluster, "Ready") or {}).get("status")
        if self._threshold.published(current, condition["status"], now) == condition["status"]:
            status["conditions"] = meta.with_condition(meta.conditions(cluster), condition, now=times.format_time(now))
        if trees.covers(cluster.get("status") or {}, status):
            return cluster
        return await self._control.patch(kinds.CLUSTERS, self._cluster, {"status": status}, subresource="status")
