"""Removes pods in deletion whose grace period is over and whose worker has not confirmed their end.

A worker confirms a deletion by deleting the pod again with a grace period of zero. A worker that is gone, partitioned
or broken never does, and its pods would block their namespace or a StatefulSet's next pod for ever. This controller
removes such a pod: soon if its node is gone or not ready, later if the worker is healthy, because it will probably
confirm. A worker that returns finds the pod gone and stops its processes. A pod with finalizers is marked failed
first, because its controller would count it as running otherwise.
"""

from typing import Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object, PatchType
from rota.controllers import pod_states
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

PODS: Final = ("", "v1", "pods")
NODES: Final = ("", "v1", "nodes")
#: Time that a worker has after the grace period: it kills the pod at the end of it, and then reports.
PATIENCE_S: Final = 5.0
#: The same for a worker that renews its lease.
PATIENCE_WITH_THE_LIVING_S: Final = 60.0


class PodGarbageCollector:
    """Removes overdue pods in deletion."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        patience_s: float = PATIENCE_S,
        metrics: Metrics | None = None,
    ) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._patience_s: Final = patience_s
        self._frame: Final = Reconciler[Key](
            client, "pod-garbage-collector", self._process, clock=clock, rng=rng, metrics=metrics
        )
        self._pods: Final = self._frame.follow(PODS, self._changed)
        self._nodes: Final = self._frame.follow(NODES, self._node_changed)

    async def run(self) -> None:
        """Remove overdue pods until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None and meta.is_deleting(new):
            self._frame.queue.add(key)

    def _node_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and _is_well(old) and not _is_well(new):
            for pod_key, pod in self._pods.cache.items():
                if meta.is_deleting(pod) and _node_of(pod) == key.name:
                    self._frame.queue.add(pod_key)

    async def _process(self, key: Key) -> float | None:
        pod = self._pods.cache.get(key.name, key.namespace)
        if pod is None or not meta.is_deleting(pod):
            return None
        left_s = self._due(pod) - self._clock.now()
        if left_s > 0:
            return left_s
        try:
            if meta.finalizers(pod) and not pod_states.is_finished(pod):
                await self._mark_failed(pod)
            await self._client.delete(PODS, key.name, namespace=key.namespace, grace_period_s=0, uid=meta.uid(pod))
        except errors.NotFound:
            return None
        except errors.Conflict:
            return None  # the name belongs to a new pod: the watch reports it
        if not meta.finalizers(pod):
            log.warning(
                "pod removed without confirmation of its worker",
                pod=str(key),
                grace_s=meta.metadata(pod)["deletionGracePeriodSeconds"],
            )
        return None

    async def _mark_failed(self, pod: Object) -> None:
        status: Object = {"phase": "Failed"}
        if meta.condition(pod, "DisruptionTarget") is None and not _is_well(self._nodes.cache.get(_node_of(pod))):
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists or does not answer",
                "lastTransitionTime": times.format_time(self._clock.now()),
            }
            status["conditions"] = [condition]
        await self._client.patch(
            PODS,
            meta.name(pod),
            {"metadata": {"uid": meta.uid(pod)}, "status": status},
            type=PatchType.STRATEGIC,
            namespace=meta.namespace(pod),
            subresource="status",
        )

    def _due(self, pod: Object) -> float:
        """When the grace period is over; deletionTimestamp includes it already."""
        well = _is_well(self._nodes.cache.get(_node_of(pod)))
        patience = max(self._patience_s, PATIENCE_WITH_THE_LIVING_S) if well else self._patience_s
        return times.parse(meta.metadata(pod)["deletionTimestamp"]) + patience


def _node_of(pod: Object) -> str:
    return (pod.get("spec") or {}).get("nodeName") or ""


def _is_well(node: Object | None) -> bool:
    return node is not None and meta.is_condition_true(node, "Ready")
