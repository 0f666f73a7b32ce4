"""The controller of ClusterState objects: follows nodes, pods and forecasts, and writes the figures of their state.

It runs in the leading master, and in `rota forecaster` beside servers whose kind is not built in. An object about all
nodes always exists. A status is written when a figure has changed, and now and then so that readers see that it is
fresh. A change of the spec is served at once.
"""

from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.forecast import cluster_state_objects
from rota.forecast.cluster_layout import ClusterLayout
from rota.forecast.cluster_state import ClusterState, summarize
from rota.forecast.cluster_state_objects import CLUSTER_STATES, WHOLE
from rota.forecast.node_series import FORECASTS
from rota.forecaster import cluster_state_metrics
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

NODES: Final = ("", "v1", "nodes")
PODS: Final = ("", "v1", "pods")
#: How often the figures are computed.
EVERY_S: Final = 30.0
#: A status without a change is written again after this time.
AT_LEAST_S: Final = 300.0
_AGAIN_S: Final = 1.0
_WHOLE_OBJECT: Final = {
    "apiVersion": "rota.dev/v1alpha1",
    "kind": "ClusterState",
    "metadata": {"name": WHOLE},
    "spec": {},
}


class ClusterStateController:
    """Writes the status of every ClusterState."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self.metrics: Final = metrics or Metrics("cluster_state")
        self._layout: Final = ClusterLayout()
        self._states: Final[dict[str, ClusterState]] = {}
        self._frame: Final = Reconciler[str](
            client, "cluster-states", self._process, clock=clock, rng=rng, workers=1, metrics=self.metrics
        )
        self._frame.follow(NODES, lambda key, _, new: self._layout.set_node(key.name, new))
        self._frame.follow(PODS, lambda key, _, new: self._layout.set_pod(key.namespace, key.name, new))
        self._forecasts: Final = self._frame.follow(FORECASTS, lambda *_: None)
        self._objects: Final = self._frame.follow(CLUSTER_STATES, self._changed)

    async def run(self) -> None:
        """Write until cancelled; afterwards, there is nothing to scrape."""
        cluster_state_metrics.export(self.metrics, lambda: self._states, lambda: self._layout)
        self._frame.queue.add(WHOLE)
        try:
            await self._frame.run()
        finally:
            # Another master has the present figures now.
            cluster_state_metrics.export(self.metrics, dict, lambda: None)

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None or old is None or new.get("spec") != old.get("spec"):
            self._frame.queue.add(key.name)

    async def _process(self, name: str) -> float | None:
        present = self._objects.cache.get(name)
        if present is None:
            self._states.pop(name, None)
            if name == WHOLE:
                await self._create()
            return None
        now = self._clock.now()
        scope = cluster_state_objects.scope_of(present.get("spec") or {})
        state = summarize(self._layout, self._forecasts.cache.values(), scope, now)
        self._states[name] = state
        status = cluster_state_objects.status_of(state, now)
        before: Any = present.get("status") or {}
        observed = before.get("observedTime")
        if observed and cluster_state_objects.is_same(before, status) and now - times.parse(observed) < AT_LEAST_S:
            return EVERY_S
        try:
            await self._client.update(CLUSTER_STATES, {**present, "status": status}, subresource="status")
        except errors.NotFound:
            self._states.pop(name, None)
            return None
        except errors.Conflict:
            # The spec has changed meanwhile; the cache will have it.
            return _AGAIN_S
        return EVERY_S

    async def _create(self) -> None:
        try:
            await self._client.create(CLUSTER_STATES, _WHOLE_OBJECT)
        except errors.AlreadyExists:
            log.debug("another master has created it", clusterstate=meta.name(_WHOLE_OBJECT))
