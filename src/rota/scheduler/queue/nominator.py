"""Nominated pods by node.

A nomination is known here before the API server knows it, and follows updates of the pod: an update that names no node,
before and after, keeps the nomination; one that adds, changes or clears the node replaces it.
"""

from rota.columns.pods import PodInfo
from rota.scheduler.framework.nominated_pods import Nominations


class Nominator:
    """Nominations by node and by pod."""

    __slots__ = ("_by_node", "_node_of", "_view")

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        #: The view for readers, built on demand and kept until a change.
        self._view: Nominations | None = None

    def __len__(self) -> int:
        return len(self._node_of)

    @property
    def by_node(self) -> Nominations:
        """Nominated pods by node name."""
        if self._view is None:
            self._view = {name: tuple(pods.values()) for name, pods in self._by_node.items()}
        return self._view

    def node_of(self, uid: str) -> str:
        """The nominated node of a pod, or ""."""
        return self._node_of.get(uid, "")

    def put(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod to a node, instead of any other; "" removes the nomination."""
        self.remove(pod.uid)
        if node:
            self._view = None
            self._by_node.setdefault(node, {})[pod.uid] = pod
            self._node_of[pod.uid] = node

    def remove(self, uid: str) -> PodInfo | None:
        """Remove a nomination."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return None
        self._view = None
        pods = self._by_node[node]
        pod = pods.pop(uid)
        if not pods:
            del self._by_node[node]
        return pod

    def follow(self, old: PodInfo | None, new: PodInfo) -> None:
        """Apply an update of the pod."""
        silent = not new.nominated_node and (old is None or not old.nominated_node)
        self.put(new, self.node_of(new.uid) if silent else new.nominated_node)
