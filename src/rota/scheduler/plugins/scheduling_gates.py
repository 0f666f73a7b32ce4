"""SchedulingGates: a pod waits until every gate in its spec has been removed."""

from collections.abc import Sequence
from typing import ClassVar

from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Resource, Subscription
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.status import SUCCESS, Status, unresolvable


class SchedulingGates:
    """PreEnqueue on `spec.schedulingGates`."""

    name: ClassVar[str] = "SchedulingGates"
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Hold back a pod that has gates, and name them."""
        gates = pod.shape.scheduling_gates
        if not gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gates)}]")

    def events_to_register(self) -> Sequence[Subscription]:
        """Only the removal of the pod's own gates helps."""
        return (Subscription(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_GATES_ELIMINATED)),)
