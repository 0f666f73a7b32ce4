"""The scheduler's state of the cluster: nodes, pods that have a node, and related objects.

A pod counts on a node from the scheduling decision on (`assume`), before the API server knows of it, so the next
decision sees it. Then either the watch shows the pod bound, and the API server's state replaces the assumption, or the
binding fails and `forget` removes it. An assumption has no timeout: it ends by the result of the binding or by an event
of the pod.

    none -> assume -> ASSUMED -> finish_binding -> BOUND, NOT SEEN -> add_or_update_pod -> SEEN -> remove_pod -> none
                      ASSUMED -> forget -> none

Events may arrive in any order: bound before the result of the binding, on another node than assumed, deleted before it
was seen. Pods whose node is unknown (deleted, or not seen yet) wait for it inside the `Cluster` and count nowhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from rota.api.resources import PODS
from rota.columns import objects, pods
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo


class NodeChange(NamedTuple):
    """A node before and after a change, as snapshots without pods."""

    old: NodeInfo | None
    new: NodeInfo | None


class SchedulerCache:
    """The only writer of a `Cluster`."""

    def __init__(self, cluster: Cluster | None = None, interner: PodInterner | None = None) -> None:
        #: Nodes, pods and catalog. Others read it and run what-if transactions; only the cache changes it.
        self.cluster: Final = cluster or Cluster()
        #: Decodes pods; all pods of a cluster must be decoded by the same interner.
        self.interner: Final = interner or PodInterner()
        #: Assumed pods that are not seen on their node yet, with whether the API server has confirmed the binding.
        self._assumed: Final[dict[str, bool]] = {}

    # --- decisions --------------------------------------------------------------------------------------------------

    def assume(self, pod: PodInfo, node: str) -> bool:
        """Count a pod on a node from now on; False if it is on a node already, assumed or seen."""
        if pod.uid in self.cluster.pods:
            return False
        self.cluster.add_pod(pod, node)
        self._assumed[pod.uid] = False
        return True

    def finish_binding(self, uid: str) -> None:
        """The API server has confirmed the binding; the watch will show the pod soon."""
        if uid in self._assumed:
            self._assumed[uid] = True

    def forget(self, uid: str) -> PodInfo | None:
        """Remove an assumption; returns None and changes nothing if the pod was seen bound meanwhile or is gone."""
        if self._assumed.pop(uid, None) is None:
            return None
        return self.cluster.remove_pod(uid)

    def is_assumed(self, uid: str) -> bool:
        """Whether a pod is assumed on a node and not seen there yet."""
        return uid in self._assumed

    @property
    def assumed(self) -> Mapping[str, bool]:
        """Assumed pods by uid, with whether the API server has confirmed their binding."""
        return MappingProxyType(self._assumed)

    def insufficient(self, pod: PodInfo, node_name: str) -> str:
        """The resource that the node has too little of for the pod and all pods known to be there; empty if none.

        The rules are the kubelet's admission: a resource that the node does not report counts as sufficient.
        """
        node = self.cluster.by_name.get(node_name)
        if node is None:
            return ""
        if node.pods_left < 0:
            return PODS
        return next((one for one in pod.shape.requests if one in node.allocatable and node.free(one) < 0), "")

    # --- events of pods -----------------------------------------------------------------------------------------------

    def add_or_update_pod(self, pod: PodInfo) -> PodInfo | None:
        """Apply the API server's state of a pod; returns the pod as it was known before.

        A pod with a node is confirmed there or moved there. An assumed pod without a node stays where it is, with its
        new content; any other pod without a node does not count.
        """
        old = self.cluster.pods.get(pod.uid)
        if pod.node_name:
            self._assumed.pop(pod.uid, None)
            if old is not None and _says_nothing_new(old, pod):
                self.cluster.replace_pod(pod)
            elif old is not None and self._started_last(old, pod):
                self.cluster.replace_pod(pod)
                self.cluster.note_pods(pod.node_name)
            else:
                self.cluster.add_pod(pod)
        elif old is not None and pod.uid in self._assumed:
            self.cluster.add_pod(pod, old.node_name)
        elif old is not None:
            self.cluster.remove_pod(pod.uid)
        return old

    def _started_last(self, old: PodInfo, new: PodInfo) -> bool:
        """Whether only the start time is new, of the pod that came last to its node: no sum and no order changes."""
        started = msgspec.structs.replace(old, start_time=new.start_time)
        if not new.start_time or not _says_nothing_new(started, new):
            return False
        node = self.cluster.by_name.get(new.node_name)
        return node is not None and next(reversed(node.pods), "") == new.uid

    def add_pods(self, node: str, pods: Sequence[PodInfo]) -> None:
        """Apply the API server's state of the pods on a node, in bulk; pods that are known already go one by one."""
        known = self.cluster.pods
        if known.keys().isdisjoint([pod.uid for pod in pods]):
            self.cluster.add_pods(node, pods)
            return
        for pod in pods:
            self.add_or_update_pod(pod)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod that was deleted or has ended, assumed or not; returns it as it was known."""
        self._assumed.pop(uid, None)
        return self.cluster.remove_pod(uid)

    # --- events of nodes ----------------------------------------------------------------------------------------------

    def set_node(self, node: objects.Node) -> NodeChange | None:
        """Add or update a node; None if nothing changed that placement depends on, as with heartbeats."""
        known = self.cluster.by_name.get(node.metadata.name)
        before = None if known is None else node_snapshot(known)
        version = self.cluster.node_version
        info = self.cluster.set_node(node)
        return None if self.cluster.node_version == version else NodeChange(before, node_snapshot(info))

    def node(self, name: str) -> NodeInfo | None:
        """A snapshot of a node; later changes do not affect it."""
        known = self.cluster.by_name.get(name)
        return None if known is None else node_snapshot(known)

    def remove_node(self, name: str) -> NodeChange | None:
        """Remove a node; its pods stay known and count nowhere until the node returns or they are removed."""
        known = self.cluster.by_name.get(name)
        if known is None:
            return None
        before = node_snapshot(known)
        self.cluster.remove_node(name)
        return NodeChange(before, None)

    # --- events of other kinds ----------------------------------------------------------------------------------------

    def put(self, kind: str, document: Mapping[str, Any]) -> None:
        """Add or replace an object of another kind; the caller has validated it
        (`rota.scheduler.ingest.related_objects`)."""
        self.cluster.catalog.put(kind, document)

    def remove(self, kind: str, *, namespace: str = "", name: str) -> None:
        """Remove an object of another kind."""
        self.cluster.catalog.remove(kind, namespace, name)

    def pods(self) -> Iterator[PodInfo]:
        """All pods that have a node, including assumed pods and pods whose node is unknown."""
        return iter(self.cluster.pods.values())


def _says_nothing_new(old: PodInfo, new: PodInfo) -> bool:
    """Whether the event equals the assumption; then cached evaluations of the node stay valid."""
    return (
        old.node_name == new.node_name
        and old.start_time == new.start_time
        and old.nominated_node == new.nominated_node
        and old.preempted == new.preempted
        and (old.shape is new.shape or pods.equal_shapes(old.shape, new.shape))
    )


def node_snapshot(info: NodeInfo) -> NodeInfo:
    """A snapshot of a node without its pods, for use after later changes."""
    twin = NodeInfo(info.name, info.row)
    twin.labels, twin.taints, twin.unschedulable = info.labels, info.taints, info.unschedulable
    twin.allocatable, twin.allowed_pods, twin.images = info.allocatable, info.allowed_pods, info.images
    return twin
