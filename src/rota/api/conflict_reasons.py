"""Why a binding is refused: the words in the cause `ConflictReason` of a 409, which schedulers act on.

A reason about the node means that another node is worth a try at once. A reason about the pod means that it is decided
already, or no longer waits.
"""

from typing import Final

#: The type of the cause.
CAUSE: Final = "ConflictReason"

CAPACITY: Final = "capacity"
PORT: Final = "port"
DEVICE: Final = "device"
ANTI_AFFINITY: Final = "anti-affinity"
#: Another pod has the claim, or the node has no more volumes of the driver.
VOLUME: Final = "volume"
#: The queue has no more.
QUOTA: Final = "quota"
#: The node was cordoned, or is gone.
UNSCHEDULABLE: Final = "unschedulable"
#: With the coarse criterion: other pods were bound to the node since the scheduler looked.
STALE: Final = "stale"
#: The pod has a node, is being deleted, or is another one of this name.
POD_MOVED: Final = "pod-moved"

#: Reasons that another node may not have. `VOLUME` is not among them, because a claim in use is in use for all nodes; a
#: limit of volumes has the cause `VolumeLimitExceeded` besides.
ABOUT_NODES: Final = frozenset({CAPACITY, PORT, DEVICE, ANTI_AFFINITY, UNSCHEDULABLE, STALE})
