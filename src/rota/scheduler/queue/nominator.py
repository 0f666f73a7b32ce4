"""Which pods are to come to which node, because room is being made for them there.

A nomination is known here before the API server hears of it, and follows the pod's updates: one that says nothing of a
node, before as after, keeps what is noted here; one that names a node, or no longer does, is believed.
"""

from rota.columns.pods import PodInfo
from rota.scheduler.framework.nominated_pods import Nominations


class Nominator:
    """Nominations by node and by pod."""

    __slots__ = ("_by_node", "_node_of", "_view")

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        #: What readers get; made when they ask, and kept until something changes.
        self._view: Nominations | None = None

    def __len__(self) -> int:
        return len(self._node_of)

    @property
    def by_node(self) -> Nominations:
        """Pods that are to come, by the node's name."""
        if self._view is None:
            self._view = {name: tuple(pods.values()) for name, pods in self._by_node.items()}
        return self._view

    def node_of(self, uid: str) -> str:
        """Give the node that a pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    def put(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod to a node, and to no other; to "" takes its nomination back."""
        self.remove(pod.uid)
        if node:
            self._view = None
            self._by_node.setdefault(node, {})[pod.uid] = pod
            self._node_of[pod.uid] = node

    def remove(self, uid: str) -> PodInfo | None:
        """Take a nomination back."""
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
        """Take over what an update says."""
        silent = not new.nominated_node and (old is None or not old.nominated_node)
        self.put(new, self.node_of(new.uid) if silent else new.nominated_node)
