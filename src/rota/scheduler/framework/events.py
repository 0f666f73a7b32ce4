"""Cluster events that may make a refused pod schedulable, and the subscriptions of plugins.

An event is a resource and a set of actions. A plugin subscribes with an optional queueing hint: a function of the
refused pod and the object before and after, which returns whether another attempt is worthwhile. Hints are pure and
fast; they are called for every pod that the plugin refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntFlag, StrEnum
from typing import Any

from rota.columns.pods import PodInfo


class Resource(StrEnum):
    """Kinds of objects whose changes wake pods; a custom kind is written plural.version.group."""

    #: A pod that has a node (running or about to).
    ASSIGNED_POD = "AssignedPod"
    #: Another pod that has no node.
    UNSCHEDULED_POD = "UnscheduledPod"
    #: The refused pod itself.
    TARGET_POD = "TargetPod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    COMPOSITE_POD_GROUP = "scheduling.k8s.io/CompositePodGroup"
    ANY = "*"


class Action(IntFlag):
    """What was done to an object."""

    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    #: Includes cordoning and uncordoning.
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_SCALE_UP = 1 << 10
    UPDATE_POD_TOLERATION = 1 << 11
    UPDATE_POD_GATES_ELIMINATED = 1 << 12
    UPDATE_POD_GENERATED_CLAIM = 1 << 13
    #: A change that none of the finer bits describes.
    UPDATE_OTHER = 1 << 14
    UPDATE = (1 << 15) - (1 << 2)
    ALL = (1 << 15) - 1


class Hint(Enum):
    """A plugin's answer whether an event helps a pod that it refused."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


#: (refused pod, object before or None, object after or None) -> hint. Pods and nodes are PodInfo and NodeInfo, all
#: other kinds are as in the catalog. A hint that raises counts as QUEUE: an extra attempt is harmless.
HintFn = Callable[[PodInfo, Any, Any], Hint]


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A resource and what was done to it."""

    resource: Resource | str
    actions: Action

    def covers(self, event: "ClusterEvent") -> bool:
        """Whether a subscription to this event includes `event`."""
        same = self.resource in {Resource.ANY, event.resource} or event.resource == Resource.ANY
        return same and bool(self.actions & event.actions)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A plugin's subscription to an event; without a hint every such event causes an attempt."""

    event: ClusterEvent
    hint: HintFn | None = None
    #: Whether the hint reads only the shape of the refused pod; then equal pods are asked once.
    by_shape: bool = False


#: The subscription of a plugin that has none of its own: any event might help.
EVERYTHING = (Subscription(ClusterEvent(Resource.ANY, Action.ALL)),)
