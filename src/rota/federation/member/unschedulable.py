"""Replicas of a Deployment that its member cannot schedule, counted for the descheduler.

The engine writes the count on the Work, because a Work's status has no field for it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from rota.api import meta, selectors, times
from rota.client.verbs import Client, Selection

Object: TypeAlias = Mapping[str, Any]

#: On a Work: how many replicas have been unschedulable for too long.
COUNT: Final = "rota.dev/unschedulable-replicas"
#: For how long a pod must have been unschedulable to be counted, as upstream has it.
AFTER_S: Final = 300.0
_PODS: Final = ("", "v1", "pods")


def is_short(present: Object) -> bool:
    """Whether a Deployment has fewer ready replicas than it should."""
    wanted = (present.get("spec") or {}).get("replicas")
    ready = (present.get("status") or {}).get("readyReplicas") or 0
    return present.get("kind") == "Deployment" and ready < (1 if wanted is None else wanted)


def count(pods: Iterable[Object], now: float, after_s: float) -> int:
    """Pods that the scheduler has found no node for, for at least `after_s`."""
    found = 0
    for pod in pods:
        condition = meta.condition(pod, "PodScheduled") or {}
        if condition.get("status") == "False" and condition.get("reason") == "Unschedulable":
            since = condition.get("lastTransitionTime") or times.format_time(now)
            found += now - times.parse(since) >= after_s
    return found


async def counted(member: Client, present: Object, now: float, after_s: float) -> int:
    """The unschedulable replicas of a Deployment in a member."""
    selector = selectors.from_object((present.get("spec") or {}).get("selector") or {})
    listed = await member.list(_PODS, namespace=meta.namespace(present), selection=Selection(labels=str(selector)))
    return count(listed.items, now, after_s)
