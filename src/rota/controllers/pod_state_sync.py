"""Corrects pod states that no worker reports, and deletes old finished pods.

Workers report the state of their pods, and a worker that returns corrects what was written meanwhile. The leader
handles the rest:

* a pod on a node that no longer exists has failed;
* a pod that was bound to a live worker that never starts it has failed;
* finished pods are kept for inspection, and the oldest are deleted when there are too many.

In the first two cases the pod gets the condition `DisruptionTarget`, so that its controller retries it without counting
a failure. A worker that returns later finds the pod finished and stops its processes. Silent workers are handled by
`node_lifecycle`, pods in deletion by `pod_gc`.
"""

from typing import Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key, by_node
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
#: How long a node must be missing before its pods fail: it may be recreated. Upstream's value.
QUARANTINE_S: Final = 40.0
#: How long a live worker has for its first report about a pod.
TAKING_UP_S: Final = 300.0
#: How many finished pods are kept; upstream's value.
KEPT: Final = 12_500
_BY_NODE: Final = "node"
#: The queue item for all finished pods together.
_OVER: Final = Key("", "")


class PodStateSync:
    """Handles pods that no worker reports."""

    def __init__(
        self, client: Client, *, clock: Clock, rng: Rng, kept: int = KEPT, metrics: Metrics | None = None
    ) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._kept: Final = kept
        #: When nodes of bound pods were found missing.
        self._missing: Final[dict[str, float]] = {}
        self._over: Final[set[Key]] = set()
        self._frame: Final = Reconciler[Key](
            client, "task states", self._process, clock=clock, rng=rng, metrics=metrics
        )
        self._pods: Final = self._frame.follow(PODS, self._pod_changed, indexers={_BY_NODE: by_node})
        self._nodes: Final = self._frame.follow(NODES, self._node_changed)

    async def run(self) -> None:
        """Correct pod states until cancelled."""
        await self._frame.run()

    def _pod_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is None:
            self._over.discard(key)
        elif pod_states.is_finished(new):
            self._over.add(key)
            if len(self._over) > self._kept:
                self._frame.queue.add(_OVER)
        elif _node_of(new) and (not _is_taken_up(new) or self._nodes.cache.get(_node_of(new)) is None):
            self._frame.queue.add(key)

    def _node_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None:
            self._missing.pop(key.name, None)
            return
        for pod in self._pods.cache.indexed(_BY_NODE, key.name):
            self._frame.queue.add(Key(meta.namespace(pod), meta.name(pod)))

    async def _process(self, key: Key) -> float | None:
        if key == _OVER:
            await self._clear_away()
            return None
        pod = self._pods.cache.get(key.name, key.namespace)
        if pod is None or pod_states.is_finished(pod) or not _node_of(pod):
            return None
        try:
            node = self._nodes.cache.get(_node_of(pod))
            return await self._without_node(pod) if node is None else await self._with_node(pod, node)
        except (errors.NotFound, errors.Conflict):
            return None  # a conflicting write: the watch reports the new state

    async def _without_node(self, pod: Object) -> float | None:
        name, now = _node_of(pod), self._clock.monotonic()
        left_s = self._missing.setdefault(name, now) + QUARANTINE_S - now
        if left_s > 0:
            return left_s
        if await self._exists(name):
            return QUARANTINE_S
        log.warning("pod failed: its node no longer exists", pod=meta.qualified_name(pod), node=name)
        await self._fail(pod, reason="DeletionByPodGC", message="PodGC: node no longer exists")
        await self._client.delete(
            PODS, meta.name(pod), namespace=meta.namespace(pod), grace_period_s=0, uid=meta.uid(pod)
        )
        return None

    async def _with_node(self, pod: Object, node: Object) -> float | None:
        if meta.is_deleting(pod) or _is_taken_up(pod):
            return None  # the worker has started it, or it is in deletion
        if not meta.is_condition_true(node, "Ready"):
            return TAKING_UP_S  # the worker is not ready: `node_lifecycle` handles it
        left_s = _bound_at(pod) + TAKING_UP_S - self._clock.now()
        if left_s > 0:
            return left_s
        log.warning("pod failed: its worker did not start it", pod=meta.qualified_name(pod), node=_node_of(pod))
        message = f"The worker of {_node_of(pod)} lives and said nothing about the pod for {TAKING_UP_S:.0f} s."
        await self._fail(pod, reason="NeverTakenUp", message=message)
        return None

    async def _fail(self, pod: Object, *, reason: str, message: str) -> None:
        """Mark a pod as failed by a disruption."""
        now = times.format_time(self._clock.now())
        target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        ready = {"type": "Ready", "status": "False", "reason": "PodFailed"}
        conditions = [{**one, "lastTransitionTime": now} for one in (target, ready)]
        status = {"phase": "Failed", "reason": reason, "message": message, "conditions": conditions}
        await self._client.patch(
            PODS,
            meta.name(pod),
            {"metadata": {"uid": meta.uid(pod)}, "status": status},
            type=PatchType.STRATEGIC,
            namespace=meta.namespace(pod),
            subresource="status",
        )

    async def _exists(self, node: str) -> bool:
        try:
            await self._client.get(NODES, node)
        except errors.NotFound:
            return False
        return True

    async def _clear_away(self) -> None:
        """Delete the oldest finished pods beyond the limit."""
        surplus = len(self._over) - self._kept
        if surplus <= 0:
            return
        pods = [pod for key in self._over if (pod := self._pods.cache.get(key.name, key.namespace)) is not None]
        pods.sort(key=lambda one: (str(meta.metadata(one).get("creationTimestamp") or ""), meta.name(one)))
        for pod in pods[:surplus]:
            try:
                await self._client.delete(
                    PODS, meta.name(pod), namespace=meta.namespace(pod), grace_period_s=0, uid=meta.uid(pod)
                )
            except (errors.NotFound, errors.Conflict):
                continue
        log.info("old finished pods deleted", count=surplus)


def _node_of(pod: Object) -> str:
    return (pod.get("spec") or {}).get("nodeName") or ""


def _is_taken_up(pod: Object) -> bool:
    """Whether its worker has reported anything about a pod."""
    return bool((pod.get("status") or {}).get("startTime"))


def _bound_at(pod: Object) -> float:
    """When a pod was bound; its creation time if that is not recorded."""
    scheduled = meta.condition(pod, "PodScheduled") or {}
    since = scheduled.get("lastTransitionTime") or meta.metadata(pod)["creationTimestamp"]
    return times.parse(since)
