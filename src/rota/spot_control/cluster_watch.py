"""The controller's caches of nodes and pods, with their indexes.

Pods are indexed by node (pending ones under none) and by owner; the number of pods per priority is updated with every
change. Nothing is decided here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rota.api import meta
from rota.client.informers.cache import Cache, by_node, by_owner
from rota.client.verbs import Object
from rota.spot import evacuation, reservations
from rota.spot_control import losses

BY_NODE: Final = "spot-node"
BY_OWNER: Final = "spot-owner"
#: Index key of pending pods; no node has such a name.
_NOWHERE: Final = ""
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class ClusterWatch:
    """Nodes and pods as last observed."""

    def __init__(self, nodes: Cache[Object], pods: Cache[Object]) -> None:
        self.nodes: Final = nodes
        self.pods: Final = pods
        self._priorities: Final[Counter[int]] = Counter()

    def count(self, old: Object | None, new: Object | None) -> None:
        """A pod has changed."""
        for pod, sign in ((old, -1), (new, 1)):
            if pod is not None and _runs(pod):
                priority = _priority(pod)
                self._priorities[priority] += sign
                if not self._priorities[priority]:
                    del self._priorities[priority]

    def somebody_is_below(self, priority: int) -> bool:
        """Whether pods of lower priority run, which a pod of this priority could preempt."""
        return any(one < priority for one in self._priorities)

    def on(self, name: str) -> list[Object]:
        """The pods of a node."""
        return self.pods.indexed(BY_NODE, name)

    def leavers(self, name: str) -> list[Object]:
        """The pods of a node that must leave it and are not in deletion."""
        return [pod for pod in self.on(name) if evacuation.must_leave(pod)]

    def staying_on(self, name: str) -> list[Object]:
        """The pods of a node that must leave it, in deletion or not."""
        return [pod for pod in self.on(name) if losses.counts(pod)]

    def waiting(self) -> list[Object]:
        """The pending pods."""
        return self.pods.indexed(BY_NODE, _NOWHERE)

    def of_owner(self, owner: str) -> list[Object]:
        """The pods of one owner."""
        return self.pods.indexed(BY_OWNER, owner)

    def same(self, pod: Mapping[str, Any]) -> Object | None:
        """The current state of a pod, by uid; None if it is gone, even if its name is in use."""
        known = self.pods.get(meta.name(pod), meta.namespace(pod))
        return known if known is not None and meta.uid(known) == meta.uid(pod) else None


def by_place(pod: Object) -> Iterable[str]:
    """Index key of a pod: its node, or the key of pending pods; none for pods that will never be scheduled."""
    spec = pod.get("spec") or {}
    waits = not spec.get("nodeName") and not spec.get("schedulingGates") and evacuation.must_leave(pod)
    return (_NOWHERE,) if waits else by_node(pod)


INDEXERS: Final = {BY_NODE: by_place, BY_OWNER: by_owner}


def node_of(pod: Object | None) -> str:
    """The node of a pod; empty if it has none."""
    return ((pod or {}).get("spec") or {}).get("nodeName") or ""


def _runs(pod: Object) -> bool:
    return bool(node_of(pod)) and (pod.get("status") or {}).get("phase") not in _ENDED and not reservations.is_one(pod)


def _priority(pod: Object) -> int:
    return (pod.get("spec") or {}).get("priority") or 0
