"""The health and capacity of one member: what it answers, and what is published of that in its Cluster.

A change of readiness is published after it has lasted for a threshold. Whatever a member answers affects only its own
Cluster.
"""

from typing import Any, Final, NamedTuple

import msgspec

from rota.api import errors, meta, times
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.failover.cluster_health import Threshold
from rota.federation.interpreters import trees
from rota.federation.member import summaries
from rota.federation.member.served_kinds import Types
from rota.kit import logs
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
_READY: Final = {"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "cluster is healthy"}


class Observation(NamedTuple):
    """The Ready condition as it is now, and the rest of the status if the member answered."""

    condition: dict[str, Any]
    status: dict[str, Any]


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


async def observe(member: Client, cluster: str, *, clock: Clock) -> Observation:
    """Ask a member."""
    try:
        return await clock.wait_for(_asked(member.with_settings(retry=False)), _PATIENCE_S)
    except Exception as error:  # noqa: BLE001  # whatever a member does is a fact about that member only
        return failed(error, cluster)


async def _asked(member: Client) -> Observation:
    await member.request("GET", "/readyz", accept="*/*")
    types = await Types(member).refresh()
    nodes = (await member.list(_NODES)).items
    pods = (await member.list(_PODS)).items
    version = await member.request("GET", "/version")
    return Observation(
        dict(_READY),
        {
            "kubernetesVersion": str(msgspec.json.decode(version).get("gitVersion", "")),
            "apiEnablements": summaries.enablements(types.values()),
            "nodeSummary": summaries.nodes(nodes),
            "resourceSummary": summaries.resources_of(nodes, pods),
        },
    )


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
