"""Effects: what a driver of the core has to do, and what it may want to know. Values without behaviour."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from rota.columns.pods import PodInfo
from rota.scheduler.cycle.scheduling_cycle import AssumedPod
from rota.scheduler.framework.status import Status
from rota.scheduler.preemption.victims import Candidate
from rota.scheduler.status.fit_errors import FitError, PodStatusPatch


class Bind(NamedTuple):
    """Bind a pod that is assumed on its node and that Permit let through; answered by `BindingEnded`."""

    taken: AssumedPod


class Evict(NamedTuple):
    """Evict the victims, so that the preemptor fits on the node; answered by `EvictionsEnded`."""

    preemptor: PodInfo
    node_name: str
    victims: tuple[PodInfo, ...]


class PatchStatus(NamedTuple):
    """Patch the status of a pod; later patches of a pod are merged over earlier ones."""

    pod: PodInfo
    patch: PodStatusPatch


class RecordEvent(NamedTuple):
    """Write an event about a pod."""

    pod: PodInfo
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    action: str


class AskExtenders(NamedTuple):
    """Have extenders filter and score the feasible nodes; answered by `ExtendersAnswered`."""

    pod: PodInfo
    document: Mapping[str, Any]
    node_names: Sequence[str]


class AskExtendersForVictims(NamedTuple):
    """Have extenders choose among candidates for preemption; answered by `VictimsAnswered`."""

    pod: PodInfo
    document: Mapping[str, Any]
    candidates: Sequence[Candidate]


class Bound(NamedTuple):
    """A pod was bound."""

    pod: PodInfo
    node_name: str
    #: The number of attempts, when the last one began, and when the pod was first queued.
    attempts: int
    began_at: float
    first_queued_at: float


class AttemptFailed(NamedTuple):
    """An attempt or its binding failed; the pod is back in the queue, unless it was deleted meanwhile."""

    pod: PodInfo
    refusal: FitError
    began_at: float


class LostRace(NamedTuple):
    """Another scheduler took the resources on the node; the next-best node is tried."""

    pod: PodInfo
    node_name: str


class PermitEnded(NamedTuple):
    """A pod no longer waits for Permit plugins."""

    pod: PodInfo
    status: Status
    waited_s: float


class Released(NamedTuple):
    """A pod no longer needs a node: it is deleted, has ended, or is seen on a node."""

    uid: str
    #: The node on which it is seen, or "".
    node_name: str


class Fault(NamedTuple):
    """An error of a plugin or of this program that changed nothing else; for the log."""

    message: str
    pod: PodInfo
    #: The failed plugin and its reasons, or an exception.
    problem: Status | Exception


Effect: TypeAlias = (
    Bind
    | Evict
    | PatchStatus
    | RecordEvent
    | AskExtenders
    | AskExtendersForVictims
    | Bound
    | AttemptFailed
    | LostRace
    | PermitEnded
    | Released
    | Fault
)
