"""Replicas of a Deployment that its member cannot schedule, counted for the descheduler.

The engine writes the count on the Work, because a Work's status has no field for it. A count is valid for one
generation of the Work: after replicas were moved, those that remain are counted anew, even if they are as many.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from rota.api import meta, selectors, times
from rota.client.verbs import Client, Selection

Object: TypeAlias = Mapping[str, Any]

#: On a Work: how many replicas have been unschedulable for too long, and the generation of the Work, as `2@7`.
COUNT: Final = "rota.dev/unschedulable-replicas"
#: For how long a pod must have been unschedulable to be counted, as upstream has it.
AFTER_S: Final = 300.0
_PODS: Final = ("", "v1", "pods")


def is_short(present: Object) -> bool:
    """Whether a Deployment has fewer ready replicas than it should, and its controller is not just changing that."""
    status: Object = present.get("status") or {}
    given = (present.get("spec") or {}).get("replicas")
    wanted = 1 if given is None else given
    is_settled = (status.get("observedGeneration") or 0) >= (meta.metadata(present).get("generation") or 0)
    return (
        present.get("kind") == "Deployment"
        and is_settled
        and (status.get("readyReplicas") or 0) < wanted
        and (status.get("replicas") or 0) <= wanted
    )


def mark(work: Object, stuck: int) -> str | None:
    """The value of the annotation on a Work."""
    return f"{stuck}@{meta.metadata(work).get('generation')}" if stuck else None


def marked(work: Object) -> int:
    """The count on a Work; none if it was made for another generation, or cannot be read."""
    number, _, generation = (meta.annotations(work).get(COUNT) or "").partition("@")
    return int(number) if number.isdecimal() and generation == str(meta.metadata(work).get("generation")) else 0


def count(pods: Iterable[Object], now: float, after_s: float) -> int:
    """Pods that the scheduler has found no node for, for at least `after_s`."""
    found = 0
    for pod in pods:
        if meta.is_deleting(pod):
            continue
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
