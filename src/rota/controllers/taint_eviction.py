"""Deletes pods from nodes whose NoExecute taints they do not tolerate, or no longer tolerate.

Of all `tolerationSeconds` for a node's taints the shortest counts, from the time of the taint. The pod is marked as
disrupted before it is deleted, so that its controller does not count a failure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key, by_node
from rota.client.informers.informer import Informer
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object, PatchType
from rota.controllers.tolerations import tolerates
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

NODES: Final = ("", "v1", "nodes")
PODS: Final = ("", "v1", "pods")
_BY_NODE: Final = "node"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


def leaves_at(
    pod: Object, taints: Sequence[Mapping[str, Any]], *, now: float, seen: Mapping[str, float] | None = None
) -> float | None:
    """When a pod must leave a node with these taints; None if it may stay.

    A taint without a time counts from when it was first `seen`, by its key.
    """
    tolerations = (pod.get("spec") or {}).get("tolerations") or ()
    due: float | None = None
    for taint in taints:
        if taint.get("effect") != "NoExecute":
            continue
        matching = [one for one in tolerations if tolerates(one, taint)]
        if not matching:
            return now
        limits = [one["tolerationSeconds"] for one in matching if one.get("tolerationSeconds") is not None]
        if len(limits) < len(matching):
            continue  # one of them has no time limit
        since = times.parse(taint["timeAdded"]) if taint.get("timeAdded") else (seen or {}).get(taint["key"], now)
        until = since + max(min(limits), 0)
        due = until if due is None else min(due, until)
    return due


class TaintEviction:
    """Deletes pods from tainted nodes."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "taint eviction", self._process, clock=clock, rng=rng, metrics=metrics
        )
        #: When each taint of a node was first seen, by the node's name and the taint's key.
        self._seen: Final[dict[str, dict[str, float]]] = {}
        self._nodes: Final = self._frame.follow(NODES, self._node_changed)
        self._pods: Final[Informer[Object]] = self._frame.follow(PODS, self._pod_changed, indexers={_BY_NODE: by_node})

    async def run(self) -> None:
        """Delete pods until cancelled."""
        await self._frame.run()

    def _node_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        known = self._seen.pop(key.name, {})
        if new is not None and _taints(new):
            now = self._clock.now()
            self._seen[key.name] = {one["key"]: known.get(one["key"], now) for one in _taints(new)}
        if new is not None and _taints(new) and (old is None or _taints(old) != _taints(new)):
            for pod in self._pods.cache.indexed(_BY_NODE, key.name):
                self._frame.queue.add(Key(meta.namespace(pod), meta.name(pod)))

    def _pod_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and _node(new) and (old is None or _node(old) != _node(new) or old["spec"] != new["spec"]):
            self._frame.queue.add(key)

    async def _process(self, key: Key) -> float | None:
        pod = self._pods.cache.get(key.name, key.namespace)
        if pod is None or meta.is_deleting(pod) or (pod.get("status") or {}).get("phase") in _FINISHED:
            return None
        node = self._nodes.cache.get(_node(pod))
        if node is None:
            return None
        now = self._clock.now()
        due = leaves_at(pod, _taints(node), now=now, seen=self._seen.get(_node(pod)))
        if due is None:
            return None
        if due > now:
            return due - now
        log.info("pod deleted from tainted node", pod=str(key), node=_node(pod))
        try:
            await self._mark(pod)
            await self._client.delete(PODS, key.name, namespace=key.namespace, uid=meta.uid(pod))
        except (errors.NotFound, errors.Conflict):
            return None
        return None

    async def _mark(self, pod: Object) -> None:
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": times.format_time(self._clock.now()),
        }
        patch = {"metadata": {"uid": meta.uid(pod)}, "status": {"conditions": [target]}}
        await self._client.patch(
            PODS,
            meta.name(pod),
            patch,
            type=PatchType.STRATEGIC,
            namespace=meta.namespace(pod),
            subresource="status",
        )


def _node(pod: Object) -> str:
    return (pod.get("spec") or {}).get("nodeName") or ""


def _taints(node: Object) -> list[Mapping[str, Any]]:
    found = (node.get("spec") or {}).get("taints") or ()
    return [one for one in found if one.get("effect") == "NoExecute"]
