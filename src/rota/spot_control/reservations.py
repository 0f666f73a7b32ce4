"""The places that were found for successors, until the successors are scheduled.

A reservation ends when a pod of the same owner, created after the eviction, is scheduled, or after a timeout. If its
node gets a notice itself, or another pod takes the place, a new place is searched, first for pods that have left
already. `placeholder_pods` writes the reservations to the cluster and reads them back.
"""

import bisect
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.spot_control.placement import PlacementResult

#: After this time the successor is not expected any more.
PATIENCE_S: Final = 120.0

Document = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class _Reservation:
    document: Document
    #: Empty if the place was lost and a new one is searched.
    node: str
    owner: str
    #: When the old pod's eviction was observed; None while it runs.
    left_at: float | None = None
    #: The uid of the nominated pod; empty if there is none yet.
    successor: str = ""
    #: Whether the place is released, because its successor is about to take it.
    freed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedPlace:
    """A reservation, as other modules see it."""

    #: The pod that leaves, or has left.
    document: Document
    node: str
    owner: str
    left_at: float | None
    successor: str
    freed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A successor that was scheduled."""

    #: The pod that has left.
    document: Document
    #: The successor's node, which may differ from the reserved one.
    node: str
    waited_s: float


class PlaceReservations:
    """All reservations, by the uid of the old pod."""

    def __init__(self) -> None:
        self._place_reservations: Final[dict[str, _Reservation]] = {}
        #: Pods that were matched to a reservation, so that none is matched twice.
        self._arrived: Final[set[str]] = set()

    def __contains__(self, uid: object) -> bool:
        return uid in self._place_reservations

    def __iter__(self) -> Iterator[PlacementResult]:
        return (
            PlacementResult(document=hold.document, node=hold.node, successor=hold.successor)
            for hold in self._place_reservations.values()
            if hold.node
        )

    def __len__(self) -> int:
        return len(self._place_reservations)

    def patient_until(self) -> float:
        """When the first awaited successor times out; infinity if none is awaited."""
        return min(
            (hold.left_at + PATIENCE_S for hold in self._place_reservations.values() if hold.left_at is not None),
            default=math.inf,
        )

    def unassigned(self) -> list[Document]:
        """Pods that have left and whose successors have lost their place."""
        return [hold.document for hold in self._place_reservations.values() if not hold.node]

    def expected(self) -> Counter[str]:
        """How many successors are awaited, by the uids of their owners."""
        return Counter(hold.owner for hold in self._place_reservations.values() if hold.left_at is not None)

    def held(self) -> list[ReservedPlace]:
        """All reservations, by the priority of the pods that leave."""
        found = [
            ReservedPlace(
                document=hold.document,
                node=hold.node,
                owner=hold.owner,
                left_at=hold.left_at,
                successor=hold.successor,
                freed=hold.freed,
            )
            for hold in self._place_reservations.values()
            if hold.node
        ]
        return sorted(found, key=lambda one: -((one.document.get("spec") or {}).get("priority") or 0))

    def add(self, document: Document, node: str, *, left_at: float | None = None) -> None:
        """A place was found."""
        known = self._place_reservations.get(meta.uid(document))
        if known is not None:
            known.node, known.successor, known.freed = node, "", False
        else:
            self._place_reservations[meta.uid(document)] = _Reservation(
                document=document, node=node, owner=owner_of(document), left_at=left_at
            )

    def free(self, uid: str, *, successor: str = "") -> None:
        """The place need not be held any more; `successor` was nominated."""
        hold = self._place_reservations.get(uid)
        if hold is not None:
            hold.freed = True
            hold.successor = successor or hold.successor

    def lose(self, uid: str) -> None:
        """Another pod has taken the place; a new one is searched."""
        hold = self._place_reservations.get(uid)
        if hold is None:
            return
        if hold.left_at is None:
            del self._place_reservations[uid]
        else:
            hold.node = ""

    def node(self, uid: str) -> str:
        """The node for the successor of a pod; empty if there is none."""
        hold = self._place_reservations.get(uid)
        return hold.node if hold is not None else ""

    def owners(self) -> set[str]:
        """The owners whose successors are awaited."""
        return {hold.owner for hold in self._place_reservations.values()}

    def drop(self, uid: str) -> None:
        """The pod is not evicted after all."""
        self._place_reservations.pop(uid, None)

    def left(self, uid: str, at: float) -> None:
        """A pod is in deletion since a time: pods created after it may be its successor."""
        hold = self._place_reservations.get(uid)
        if hold is not None and hold.left_at is None:
            hold.left_at = at

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._arrived.discard(uid)

    def settle(
        self,
        *,
        now: float,
        there: Callable[[Document], bool],
        usable: Callable[[str], bool],
        of_owner: Callable[[str], Iterable[Document]],
        leaving: Collection[str],
    ) -> list[Arrival]:
        """End reservations that are no longer needed; returns the successors that were scheduled.

        `there` says whether a pod still runs on its node, `usable` whether a node can take pods.
        """
        gone: list[tuple[float, str, _Reservation]] = []
        for uid, hold in list(self._place_reservations.items()):
            if hold.left_at is None and not there(hold.document):
                hold.left_at = now
            if hold.node and not usable(hold.node):
                if hold.left_at is None:
                    del self._place_reservations[uid]
                    continue
                hold.node = ""
            if hold.left_at is not None:
                gone.append((hold.left_at, uid, hold))
        arrivals: list[Arrival] = []
        newcomers: dict[str, list[tuple[float, str, str]]] = {}
        for left_at, uid, hold in sorted(gone, key=lambda one: one[:2]):
            if hold.owner not in newcomers:
                newcomers[hold.owner] = self._newcomers(of_owner(hold.owner), leaving)
            come = newcomers[hold.owner]
            # timestamps in the API have whole seconds
            first = bisect.bisect_left(come, (math.floor(left_at), "", ""))
            if first < len(come):
                _, successor, node = come.pop(first)
                self._arrived.add(successor)
                arrivals.append(Arrival(document=hold.document, node=node, waited_s=now - left_at))
                del self._place_reservations[uid]
            elif now >= left_at + PATIENCE_S:
                del self._place_reservations[uid]
        return arrivals

    def _newcomers(self, siblings: Iterable[Document], leaving: Collection[str]) -> list[tuple[float, str, str]]:
        """Scheduled pods without a match, on nodes without a notice: creation time, uid and node of each."""
        return sorted(
            (times.parse(pod["metadata"]["creationTimestamp"]), meta.uid(pod), str(node))
            for pod in siblings
            if meta.uid(pod) not in self._arrived
            and not meta.is_deleting(pod)
            and (node := (pod.get("spec") or {}).get("nodeName"))
            and node not in leaving
        )


def going_since(pod: Document) -> float | None:
    """When a pod was evicted, by the server's clock, which also stamps its successor; None if it was not."""
    ends = pod["metadata"].get("deletionTimestamp")
    grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
    return times.parse(ends) - grace if ends else None


def owner_of(pod: Document) -> str:
    """The uid of the controller that creates the successor; empty if there is none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")
