"""Events: what a driver tells the core about the cluster and about the effects that it carried out. Plain values."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from rota.columns import objects
from rota.columns.pods import PodInfo
from rota.scheduler.cycle.scheduling_cycle import AssumedPod, ExtenderResult
from rota.scheduler.framework.events import Action, Resource
from rota.scheduler.framework.status import Status
from rota.scheduler.preemption.victims import Candidate
from rota.scheduler.queue import update_events
from rota.scheduler.status.fit_errors import FitError


class PodChanged(NamedTuple):
    """A pod was added, updated or deleted; a pod that has ended counts as deleted.

    `old` is the pod as it was told last. A pod with a node takes resources there, one without a node waits for one.
    """

    old: PodInfo | None
    new: PodInfo | None


class NodeChanged(NamedTuple):
    """A node was added, updated or deleted (None)."""

    name: str
    node: objects.Node | None
    #: What changed of it that placement does not read: conditions, annotations.
    actions: Action = update_events.NOTHING


class ObjectChanged(NamedTuple):
    """An object of another kind was added, updated or deleted."""

    kind: str
    #: The resource in the subscriptions of plugins; None for a kind that wakes no pods.
    resource: Resource | str | None
    namespace: str
    name: str
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


class BindingEnded(NamedTuple):
    """The result of `Bind`."""

    taken: AssumedPod
    status: Status


class EvictionsEnded(NamedTuple):
    """The result of `Evict`."""

    preemptor: PodInfo
    #: The victims that were evicted by a request; revoked placements are not among them.
    evicted: Sequence[PodInfo]
    #: Whether some victim stays.
    failed: bool = False


class ExtendersAnswered(NamedTuple):
    """The result of `AskExtenders`; None if no extender has a say."""

    answer: ExtenderResult | FitError | None


class VictimsAnswered(NamedTuple):
    """The result of `AskExtendersForVictims`: the candidates that are left, or a failure."""

    answer: Sequence[Candidate] | Status


Event: TypeAlias = (
    PodChanged | NodeChanged | ObjectChanged | BindingEnded | EvictionsEnded | ExtendersAnswered | VictimsAnswered
)
