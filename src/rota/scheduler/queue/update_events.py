"""The actions of an update of a pod or a node.

Updates have whole objects; events name what changed in them. One event carries all changes as a set of actions; no
action means that nothing changed that placement reads.
"""

from collections.abc import Mapping
from typing import Final

from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action

NOTHING: Final = Action(0)


def of_pod(old: PodInfo, new: PodInfo) -> Action:
    """What changed of a pod."""
    before, after = old.shape, new.shape
    if before is after:
        return NOTHING if old.nominated_node == new.nominated_node else Action.UPDATE_OTHER
    actions = NOTHING
    if before.group.labels != after.group.labels:
        actions |= Action.UPDATE_POD_LABEL
    if before.requests != after.requests:
        if _lowered(before.requests, after.requests):
            actions |= Action.UPDATE_POD_SCALE_DOWN
        if _lowered(after.requests, before.requests):
            actions |= Action.UPDATE_POD_SCALE_UP
    if before.tolerations != after.tolerations:
        actions |= Action.UPDATE_POD_TOLERATION
    if before.scheduling_gates and not after.scheduling_gates:
        actions |= Action.UPDATE_POD_GATES_ELIMINATED
    # The shape changed for a reason without an action of its own; an extra attempt is harmless.
    return actions or Action.UPDATE_OTHER


def of_node(old: NodeInfo, new: NodeInfo) -> Action:
    """What changed of a node; cordoning counts as a change of its taints."""
    actions = NOTHING
    if old.allocatable != new.allocatable or old.allowed_pods != new.allowed_pods:
        actions |= Action.UPDATE_NODE_ALLOCATABLE
    if old.labels != new.labels:
        actions |= Action.UPDATE_NODE_LABEL
    if old.taints != new.taints or old.unschedulable != new.unschedulable:
        actions |= Action.UPDATE_NODE_TAINT
    return actions


def _lowered(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return any(after.get(resource, 0) < amount for resource, amount in before.items())
