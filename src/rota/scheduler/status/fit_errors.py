"""Why an attempt failed, in the words of kube-scheduler, and what is written on the pod about it. Pure.

A `Refusal` says which plugins turned the pod away (they decide what wakes it), whether it was turned away or something
broke, and what a person reads: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).`
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.api import times
from rota.scheduler.framework.evaluation import NOT_ELIGIBLE, Evaluation
from rota.scheduler.framework.plugin_interfaces import PostFilterResult
from rota.scheduler.framework.status import Code, Status

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
#: The longest message of an event; what is longer ends in dots.
_LONGEST: Final = 1024
_DOTS: Final = " ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class FitError:
    """The end of an attempt without a node, or of a binding that failed."""

    status: Status
    message: str
    #: Plugins whose hints decide what is worth another attempt; none where something broke.
    unschedulable_plugins: frozenset[str] = frozenset()
    #: Those of them that only wait for something outside.
    pending: frozenset[str] = frozenset()
    #: What PostFilter came up with.
    room: PostFilterResult | None = None
    #: What would have to change, in a sentence; for people, behind what kube-scheduler says.
    hint: str = ""

    @property
    def error(self) -> bool:
        """Whether something broke, as opposed to a pod that plugins turned away."""
        return not self.status.rejected

    @property
    def reason(self) -> str:
        """The reason of the pod's condition."""
        return SCHEDULER_ERROR if self.error else UNSCHEDULABLE


def of_status(status: Status) -> FitError:
    """The refusal by one plugin; a fault names its plugin in the message."""
    told = ", ".join(status.reasons)
    if not status.rejected:
        return FitError(status=status, message=f"plugin {status.plugin} failed: {told}" if status.plugin else told)
    unschedulable_plugins = frozenset((status.plugin,)) if status.plugin else frozenset[str]()
    pending = unschedulable_plugins if status.code is Code.PENDING else frozenset[str]()
    return FitError(status=status, message=told, unschedulable_plugins=unschedulable_plugins, pending=pending)


def of_evaluation(
    evaluation: Evaluation, *, room: PostFilterResult | None = None, others: Mapping[str, Status] | None = None
) -> FitError:
    """The refusal by all nodes; `others` are those that plugins found feasible and extenders did not, by name."""
    total = len(evaluation.cluster.by_name)
    early = evaluation.pre_filter_status
    if not early.ok:
        statuses: dict[Status, int] = {early: total}
        listed = ", ".join(early.reasons)
    else:
        statuses = evaluation.refusals()
        for status in (others or {}).values():
            statuses[status] = statuses.get(status, 0) + 1
        listed = _counted(statuses, evaluation.narrowing)
    message = f"0/{total} nodes are available: {listed}."
    if room is not None and room.status.reasons:
        message += f" {', '.join(room.status.reasons)}"
    unschedulable_plugins = {status.plugin for status in statuses if status.plugin and status != NOT_ELIGIBLE}
    unschedulable_plugins.update(evaluation.narrowing)
    return FitError(
        status=early if not early.ok else Status(Code.UNSCHEDULABLE, (message,)),
        message=message,
        unschedulable_plugins=frozenset(unschedulable_plugins),
        pending=frozenset(status.plugin for status in statuses if status.code is Code.PENDING),
        room=room,
    )


def with_hint(refusal: FitError, hint: str) -> FitError:
    """The same refusal with what would have to change."""
    return replace(refusal, hint=hint) if hint else refusal


def with_room(refusal: FitError, room: PostFilterResult | None) -> FitError:
    """The same refusal with another way to make room, or none."""
    return replace(refusal, room=room)


def _counted(statuses: Mapping[Status, int], narrowing: tuple[str, ...]) -> str:
    reasons: Counter[str] = Counter()
    for status, number in statuses.items():
        told = status.reasons
        if status == NOT_ELIGIBLE:
            told = (f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowing))}]",)
        for reason in told:
            reasons[reason] += number
    return ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items()))


def shortened(message: str) -> str:
    """A message as events take it."""
    return message if len(message) <= _LONGEST else message[: _LONGEST - len(_DOTS)] + _DOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatusPatch:
    """What is to be written on a pod: its condition, its nomination, or both."""

    #: (reason, message) of the condition PodScheduled=False; None leaves it.
    condition: tuple[str, str] | None = None
    #: None leaves the nomination as it is, "" clears it.
    nominated: str | None = None

    def over(self, earlier: "PodStatusPatch") -> "PodStatusPatch":
        """This note on top of an earlier one that was not written yet."""
        return PodStatusPatch(
            condition=earlier.condition if self.condition is None else self.condition,
            nominated=earlier.nominated if self.nominated is None else self.nominated,
        )

    def patch(self, uid: str, now: float) -> dict[str, Any]:
        """As a strategic merge patch of the pod's status, for this very pod."""
        status: dict[str, Any] = {}
        if self.condition is not None:
            reason, message = self.condition
            at = times.format_time(now)
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": at,
                }
            ]
        if self.nominated is not None:
            status["nominatedNodeName"] = self.nominated or None
        return {"metadata": {"uid": uid}, "status": status}


NOTHING: Final = PodStatusPatch()
