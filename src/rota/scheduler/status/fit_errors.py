"""Why an attempt failed, in kube-scheduler's words, and the resulting status patch. Pure.

A `FitError` has the plugins that refused the pod (their events wake it), whether it was a refusal or an error, and the
message: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).`
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
#: The longest message of an event; a longer one is shortened with dots.
_LONGEST: Final = 1024
_DOTS: Final = " ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class FitError:
    """An attempt without a node, or a failed binding."""

    status: Status
    message: str
    #: Plugins whose hints decide about another attempt; empty after an error.
    unschedulable_plugins: frozenset[str] = frozenset()
    #: Those of them that returned Pending.
    pending: frozenset[str] = frozenset()
    #: The result of PostFilter.
    room: PostFilterResult | None = None
    #: The required change in one sentence, appended to kube-scheduler's message.
    hint: str = ""

    @property
    def error(self) -> bool:
        """Whether it was an error, as opposed to a refusal by plugins."""
        return not self.status.rejected

    @property
    def reason(self) -> str:
        """The reason of the pod's condition."""
        return SCHEDULER_ERROR if self.error else UNSCHEDULABLE


def of_status(status: Status) -> FitError:
    """The fit error of one plugin's status; an error names its plugin in the message."""
    told = ", ".join(status.reasons)
    if not status.rejected:
        return FitError(status=status, message=f"plugin {status.plugin} failed: {told}" if status.plugin else told)
    unschedulable_plugins = frozenset((status.plugin,)) if status.plugin else frozenset[str]()
    pending = unschedulable_plugins if status.code is Code.PENDING else frozenset[str]()
    return FitError(status=status, message=told, unschedulable_plugins=unschedulable_plugins, pending=pending)


def of_evaluation(
    evaluation: Evaluation, *, room: PostFilterResult | None = None, others: Mapping[str, Status] | None = None
) -> FitError:
    """The fit error of all nodes; `others` are nodes that plugins found feasible and extenders refused, by name."""
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
    """The same fit error with a hint."""
    return replace(refusal, hint=hint) if hint else refusal


def with_room(refusal: FitError, room: PostFilterResult | None) -> FitError:
    """The same fit error with another PostFilter result, or none."""
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
    """A message shortened to the limit of events."""
    return message if len(message) <= _LONGEST else message[: _LONGEST - len(_DOTS)] + _DOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatusPatch:
    """A patch of a pod's status: its condition, its nominated node, or both."""

    #: (reason, message) of the condition PodScheduled=False; None keeps it.
    condition: tuple[str, str] | None = None
    #: None keeps the nomination, "" clears it.
    nominated: str | None = None

    def over(self, earlier: "PodStatusPatch") -> "PodStatusPatch":
        """This patch merged over an earlier one that was not sent yet."""
        return PodStatusPatch(
            condition=earlier.condition if self.condition is None else self.condition,
            nominated=earlier.nominated if self.nominated is None else self.nominated,
        )

    def patch(self, uid: str, now: float) -> dict[str, Any]:
        """As a strategic merge patch of the pod's status, limited to this uid."""
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
