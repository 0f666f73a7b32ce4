"""What the scheduler knows of the cluster: nodes, pods that have one, and the objects around them.

A pod is counted on a node from the moment the scheduler decides (`assume`), long before the API server has heard of it;
so the next decision sees it. Then either the watch shows it bound, and what the API server says holds, or binding fails
and `forget` takes it back. There is no time limit: an assumption ends by an answer or by news of the pod, never by
doubt.

    nothing -> assume -> ASSUMED -> finish_binding -> BOUND, NOT SEEN -> see -> SEEN -> lose -> nothing
                            forget -> nothing

News may come in any order: bound before the answer to the binding, on another node than assumed, gone before it came.
Pods whose node is not known (it is gone, or not heard of yet) wait for it inside the `Cluster` and count nowhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from rota.api.resources import PODS
from rota.columns import objects, pods
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo


class NodeChange(NamedTuple):
    """A node before and after, as portraits: they stay as they are, and do not show the pods."""

    old: NodeInfo | None
    new: NodeInfo | None


class SchedulerCache:
    """The one writer of a `Cluster`."""

    def __init__(self, cluster: Cluster | None = None, interner: PodInterner | None = None) -> None:
        #: Nodes, pods and catalog. Read it, and ask it what-if questions; only the cache changes it.
        self.cluster: Final = cluster or Cluster()
        #: Reads pods; all pods of a cluster must be read by the same one.
        self.interner: Final = interner or PodInterner()
        #: Pods that were given a node here and have not been seen there, with whether the API server has agreed.
        self._assumed: Final[dict[str, bool]] = {}

    # --- decisions --------------------------------------------------------------------------------------------------

    def assume(self, pod: PodInfo, node: str) -> bool:
        """Count a pod on a node from now on; no if it is on a node already, assumed or seen."""
        if pod.uid in self.cluster.pods:
            return False
        self.cluster.add_pod(pod, node)
        self._assumed[pod.uid] = False
        return True

    def finish_binding(self, uid: str) -> None:
        """The API server has agreed; the pod will be seen soon."""
        if uid in self._assumed:
            self._assumed[uid] = True

    def forget(self, uid: str) -> PodInfo | None:
        """Take an assumption back; nothing happens if the pod was seen bound meanwhile, or is gone (None)."""
        if self._assumed.pop(uid, None) is None:
            return None
        return self.cluster.remove_pod(uid)

    def is_assumed(self, uid: str) -> bool:
        """Whether a pod was given a node here and has not been seen there."""
        return uid in self._assumed

    @property
    def assumed(self) -> Mapping[str, bool]:
        """Assumed pods by uid, with whether the API server has agreed to bind them."""
        return MappingProxyType(self._assumed)

    def insufficient(self, pod: PodInfo, node_name: str) -> str:
        """What a pod asks for and its node has too little of, with all that is known to be there; empty if nothing.

        As a kubelet counts when a pod arrives: of what it has never heard of, there is enough.
        """
        node = self.cluster.by_name.get(node_name)
        if node is None:
            return ""
        if len(node.pods) > node.allowed_pods:
            return PODS
        offered, taken = node.allocatable, node.requested
        return next((one for one in pod.shape.requests if one in offered and taken.get(one, 0) > offered[one]), "")

    # --- news of pods -----------------------------------------------------------------------------------------------

    def add_or_update_pod(self, pod: PodInfo) -> PodInfo | None:
        """Take over what the API server says of a pod, with a node or without; gives it as it was known before.

        A pod with a node is confirmed, or moved, there. One without a node stays where it is assumed to be, as it is
        now; if it is not assumed, it does not count.
        """
        old = self.cluster.pods.get(pod.uid)
        if pod.node_name:
            self._assumed.pop(pod.uid, None)
            if old is not None and _says_nothing_new(old, pod):
                self.cluster.replace_pod(pod)
            else:
                self.cluster.add_pod(pod)
        elif old is not None and pod.uid in self._assumed:
            self.cluster.add_pod(pod, old.node_name)
        elif old is not None:
            self.cluster.remove_pod(pod.uid)
        return old

    def add_pods(self, node: str, pods: Sequence[PodInfo]) -> None:
        """Take over what the API server says of the pods on a node, many at once; those known already one by one."""
        known = self.cluster.pods
        if known.keys().isdisjoint([pod.uid for pod in pods]):
            self.cluster.add_pods(node, pods)
            return
        for pod in pods:
            self.add_or_update_pod(pod)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """A pod is gone, or has ended: it counts no longer, assumed or not. Gives it as it was known."""
        self._assumed.pop(uid, None)
        return self.cluster.remove_pod(uid)

    # --- news of nodes ----------------------------------------------------------------------------------------------

    def set_node(self, node: objects.Node) -> NodeChange | None:
        """Add a node or bring it up to date; None if it says nothing new to placement, as heartbeats do."""
        known = self.cluster.by_name.get(node.metadata.name)
        before = None if known is None else node_snapshot(known)
        version = self.cluster.node_version
        info = self.cluster.set_node(node)
        return None if self.cluster.node_version == version else NodeChange(before, node_snapshot(info))

    def node(self, name: str) -> NodeInfo | None:
        """A node as it is now, apart from what changes it later."""
        known = self.cluster.by_name.get(name)
        return None if known is None else node_snapshot(known)

    def remove_node(self, name: str) -> NodeChange | None:
        """A node is gone; its pods stay known and count nowhere until it comes back or they go, too."""
        known = self.cluster.by_name.get(name)
        if known is None:
            return None
        before = node_snapshot(known)
        self.cluster.remove_node(name)
        return NodeChange(before, None)

    # --- news of all else -------------------------------------------------------------------------------------------

    def put(self, kind: str, document: Mapping[str, Any]) -> None:
        """Add or replace an object of another kind; whoever calls has checked it
        (`rota.scheduler.ingest.related_objects`).
        """
        self.cluster.catalog.put(kind, document)

    def remove(self, kind: str, *, namespace: str = "", name: str) -> None:
        """Take an object of another kind out."""
        self.cluster.catalog.remove(kind, namespace, name)

    def pods(self) -> Iterator[PodInfo]:
        """All pods that have a node, assumed ones and those whose node is not known included."""
        return iter(self.cluster.pods.values())


def _says_nothing_new(old: PodInfo, new: PodInfo) -> bool:
    """Whether what was assumed is what came: then nobody who keeps answers about the node need look at it again."""
    return (
        old.node_name == new.node_name
        and old.start_time == new.start_time
        and old.nominated_node == new.nominated_node
        and old.preempted == new.preempted
        and (old.shape is new.shape or pods.equal_shapes(old.shape, new.shape))
    )


def node_snapshot(info: NodeInfo) -> NodeInfo:
    """Give a node as it is now, without its pods, for those who look at it later."""
    twin = NodeInfo(info.name, info.row)
    twin.labels, twin.taints, twin.unschedulable = info.labels, info.taints, info.unschedulable
    twin.allocatable, twin.allowed_pods, twin.images = info.allocatable, info.allowed_pods, info.images
    return twin
