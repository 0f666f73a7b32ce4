"""Attempts: whose turn it is, what was decided, what extenders are asked, and whether a failed binding is retried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from rota.api import conflict_reasons, errors
from rota.columns.pods import PodInfo
from rota.scheduler.cycle.scheduling_cycle import ExtenderResult, SchedulingCycle
from rota.scheduler.extenders import preemption_candidates
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, PostFilterResult
from rota.scheduler.framework.status import SUCCESS, Status
from rota.scheduler.preemption import victims
from rota.scheduler.preemption.victims import Candidate
from rota.scheduler.status import fit_errors
from rota.scheduler.status.fit_errors import FitError

#: Causes of a conflict that concern the node; another node may work.
_ABOUT_NODES: Final = (
    "InsufficientResource",
    "PortConflict",
    "NodeNotFound",
    "AntiAffinityConflict",
    "VolumeLimitExceeded",
)


class Interests(Protocol):
    """Which pods extenders have a say about; `ExtenderChain` is one. False if there are no extenders."""

    def __bool__(self) -> bool: ...

    def filters(self, pod: Mapping[str, Any], /) -> bool:
        """Whether any extender filters nodes for this pod."""

    def prioritizes(self, pod: Mapping[str, Any], /) -> bool:
        """Whether any extender scores nodes for this pod."""

    def preempts(self, pod: Mapping[str, Any], /) -> bool:
        """Whether any extender takes part in preemption for this pod."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The decision of one attempt, for observers; the evaluation is valid until the cluster changes."""

    pod: PodInfo
    evaluation: Evaluation
    node_name: str | None
    refusal: FitError | None
    start: int
    avoiding: frozenset[str]
    advice: ExtenderResult | None
    #: Whether PostFilter ran if no node was feasible.
    make_room: bool
    #: When the pod was tried.
    now: float = 0.0


class Turn(NamedTuple):
    """A pod whose turn it is, and the nodes on which it lost a race."""

    pod: PodInfo
    avoiding: frozenset[str] = frozenset()


class StartedAttempt(NamedTuple):
    """The start of an attempt."""

    at: float
    #: The number of this attempt, and when the pod was first queued.
    attempts: int
    first_queued_at: float


class OpenAttempt(NamedTuple):
    """An attempt that waits for extenders; with its refusal if they are asked for victims."""

    cycle: SchedulingCycle
    turn: Turn
    refusal: FitError | None = None


def candidates(evaluation: Evaluation, refusal: FitError, advice: ExtenderResult | None) -> Sequence[Candidate]:
    """The candidates among which extenders may choose; without a PostFilter plugin they choose alone."""
    room = refusal.room
    if room is not None and room.nominated_node and room.victims:
        return room.candidates or (Candidate(room.nominated_node, room.victims, 0),)
    if evaluation.framework.at(ExtensionPoint.POST_FILTER):
        return ()
    return preemption_candidates.all_candidates(evaluation, advice.refusals if advice is not None else None)


def reconsidered(refusal: FitError, answer: Sequence[Candidate] | Status) -> FitError:
    """The refusal with the victims that extenders chose."""
    if isinstance(answer, Status):
        return fit_errors.of_status(answer)
    if not answer:
        return fit_errors.with_room(refusal, None)
    chosen = victims.best(answer)
    return fit_errors.with_room(refusal, PostFilterResult(SUCCESS, chosen.node_name, chosen.victims))


def lost_race(status: Status) -> bool:
    """Whether the node had no free resources any more, so that the next-best node is worth a try."""
    error = status.error
    return isinstance(error, errors.Conflict) and (
        any(error.has_cause(cause) for cause in _ABOUT_NODES) or conflict_reason(status) in conflict_reasons.ABOUT_NODES
    )


def conflict_reason(status: Status) -> str:
    """Why a binding was refused, of `rota.api.conflict_reasons`; empty if the server does not say."""
    causes = status.error.details.causes if isinstance(status.error, errors.Conflict) and status.error.details else ()
    return next((one.message for one in causes or () if one.type == conflict_reasons.CAUSE), "")
